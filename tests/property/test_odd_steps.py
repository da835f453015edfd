"""Odd training steps are those of eager PyTorch: on one device, in little memory, rewritten, and
under plans for several."""

from __future__ import annotations

import warnings

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.aten import bind
from graphwright.machine import cluster
from graphwright.partition import data_parallel, random_plan
from graphwright.plans import make_plan
from graphwright.rewrite import Optimize, apply_passes
from odd_steps import BATCH, CHANNELS, MODELS, OPTIMIZERS, Case, alike, loss_fn, split_dims_of
from threads import largest_difference

torch.set_num_threads(1)
STEPS = 2
TOLERANCE = 1e-8

cases = st.builds(
    Case,
    st.sampled_from(sorted(MODELS)),
    st.sampled_from(sorted(OPTIMIZERS)),
    st.sampled_from([None, None, 0.1]),
    st.sampled_from([1, 1, 2]),
)


def captured(case):
    model, optimizer = case.make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gw.capture(model, loss_fn, case.batch, optimizer=optimizer, **case.options)


def trained(case, step):
    losses = {f"loss {number}": step(case.batch).clone() for number in range(STEPS)}
    return losses | step.values()


@settings(max_examples=20)
@given(case=cases, how=st.sampled_from(["compiled", "in memory", "swapped", "rewritten"]))
def test_one_device_trains_as_eager_code_does(case, how):
    graph = captured(case)
    model, optimizer = case.make()
    if how == "rewritten":
        graph = apply_passes(graph, [Optimize(budget=10)])
    if how == "swapped":
        step = gw.swap(graph, gw.swap(graph, "1GB").least).compile(model, loss_fn, optimizer)
    else:
        plan = make_plan(graph, cluster("local:1"), {})
        least = gw.swap(graph, "1GB", partition=plan).least if how == "in memory" else None
        step = gw.compile(plan, model, loss_fn, optimizer, graph=graph, memory=least)
    alike(trained(case, step), case.eager(STEPS))


PLANS = {
    "random": lambda graph, on, seed: random_plan(graph, on, seed),
    "data": lambda graph, on, seed: data_parallel(graph, on),
    "batch": lambda graph, on, seed: split_dims_of(BATCH, graph, on),
    "channels": lambda graph, on, seed: split_dims_of(CHANNELS, graph, on),
}


@settings(max_examples=20)
@given(
    case=cases,
    plan=st.sampled_from(sorted(PLANS)),
    count=st.sampled_from([1, 2, 3, 4]),
    seed=st.integers(0, 2**20),
)
def test_any_plan_trains_as_one_device_does(case, plan, count, seed):
    graph = captured(case)
    model, optimizer = case.make()
    values = bind(graph, model, case.batch, optimizer=optimizer)
    made = PLANS[plan](graph, cluster(f"local:{count}"), seed)
    apart, where = largest_difference(graph, made, values, steps=STEPS)
    assert apart < TOLERANCE, where
