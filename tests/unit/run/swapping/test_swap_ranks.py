"""Memory plans of a partition plan: for every rank, for a plan of a frontier, with a limit that a saved plan keeps."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.errors import InvalidLimit, InvalidOption, MemoryTooSmall, PlanFormatError
from graphwright.machine import cluster
from graphwright.memory import Choice, Planner, program_order, task_graph
from graphwright.partition import data_parallel
from graphwright.plans import KINDS, Frontier, Plan, figures_of, verify_memory
from graphwright.simulate import verify_task_graph

LOSS = nn.functional.cross_entropy
HOSTED = "p3.16xlarge"


def make() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 5))  # fmt: skip


@cache
def graph():
    batch = torch.randn(32, 16), torch.randint(0, 5, (32,))
    return gw.capture(make(), LOSS, batch, optimizer=torch.optim.Adam)


def planned(workers: int = 2) -> Plan:
    return data_parallel(graph(), cluster(f"local:{workers}"))


@cache
def halved():
    whole = gw.swap(graph(), "1GB", partition=planned())
    return whole, gw.swap(graph(), max(whole.needs) // 2, partition=planned())


def test_every_rank_has_a_plan_within_the_limit():
    whole, half = halved()
    assert len(half.plans) == 2
    for rank in half.ranks:
        verify_memory(rank.plan, rank.given.problem)
        assert rank.plan.arena <= half.capacity < max(whole.needs)
    assert all(out > 0 for out, _ in half.swapped)
    assert whole.swapped == ((0, 0), (0, 0))


def test_transfers_keep_their_order_whatever_else_moves():
    for rank in halved()[1].ranks:
        pieces = rank.given.pieces
        met = [pieces[name].tag for name in rank.plan.order if pieces[name].tag is not None]
        assert met and met == sorted(met)


def test_ranks_meet_in_one_task_and_swap_in_their_own():
    swaps = halved()[1]
    tasks = swaps.timeline.tasks
    verify_task_graph(tasks)
    kinds = [KINDS[k] for k in tasks.kind.tolist()]
    meetings = sum(p.tag is not None for p in swaps.ranks[0].given.pieces.values())
    assert sum(k not in ("compute", "swap_in", "swap_out") for k in kinds) == meetings > 0
    assert kinds.count("swap_out") == sum(p.count("out") for p in swaps.plans)
    assert (swaps.timeline.memory.peak <= [p.arena for p in swaps.plans]).all()


def test_processes_of_this_machine_copy_and_compute_by_turns():
    """So a step takes what a rank's actions take together, and as long as ranks wait for each other."""
    swaps = halved()[1]
    tasks = swaps.timeline.tasks
    own = tasks.duration[tasks.device == 0].sum() + tasks.duration[tasks.device == -1].sum()
    assert swaps.timeline.schedule.makespan >= own


def test_a_machine_with_a_host_link_copies_beside_computing():
    plan = data_parallel(graph(), cluster(HOSTED))
    whole = gw.swap(graph(), "1GB", partition=plan)
    half = gw.swap(graph(), max(whole.needs) // 2, partition=plan)
    resources = half.timeline.tasks.resource
    names = [half.timeline.tasks.resource_names[r] for r in np.unique(resources)]
    assert any("host" in name for name in names)
    assert len({id(p) for p in half.plans}) == 1, "ranks that do the same share a plan"
    assert half.time >= whole.time


def test_a_rank_alone_is_timed_as_one_device():
    given = halved()[1].ranks[0].given
    plan = Planner(given.problem).plan(program_order(given.problem), 10**9, Choice())
    assert len(task_graph(plan, given.problem)) == len(plan.actions)


def test_the_error_names_the_operator_and_the_rank():
    with pytest.raises(MemoryTooSmall, match=r"^rank 0: operator \S+ needs [\d,]+ bytes at once"):
        gw.swap(graph(), "1kB", partition=planned())


def test_the_limit_is_part_of_the_plan_and_of_its_file(tmp_path):
    swaps = halved()[1]
    plan = swaps.plan
    assert plan.memory == swaps.capacity
    assert plan.figures is not None and plan.figures.time == swaps.time
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan
    again = gw.swap(graph(), partition=tmp_path / "plan.json")
    assert again.capacity == swaps.capacity and again.plans == swaps.plans
    text = (tmp_path / "plan.json").read_text()
    (tmp_path / "plan.json").write_text(text.replace(f'"memory": {plan.memory}', '"memory": -1'))
    with pytest.raises(PlanFormatError, match="memory has to be a number of bytes, not -1"):
        Plan.load(tmp_path / "plan.json")


def test_simulate_refuses_a_plan_that_swaps():
    with pytest.raises(InvalidOption, match=r"gw\.swap\(graph, partition=plan\)\.timeline"):
        gw.simulate(graph(), halved()[1].plan)
    gw.simulate(graph(), replace(halved()[1].plan, memory=None))


def test_what_is_for_one_device_is_refused():
    with pytest.raises(InvalidOption, match="cluster='local:1' is for one device"):
        gw.swap(graph(), "1MB", partition=planned(), cluster="local:1")


def test_a_frontier_is_asked_what_fitting_costs():
    frontier = gw.plan(graph(), "local:2")
    limit = max(gw.swap(graph(), "1GB", partition=p).least for p in frontier)
    assert limit < min(figures_of(p).memory for p in frontier)
    plan = frontier.fastest(limit, swap=partial(gw.swap, graph()))
    assert plan.memory == limit and figures_of(plan).memory <= limit
    swaps = gw.swap(graph(), limit, partition=frontier)
    assert swaps.plan == plan
    every = [gw.swap(graph(), limit, partition=p).time for p in frontier]
    assert figures_of(plan).time == min(every)
    roomy = 2 * max(figures_of(p).memory for p in frontier)
    assert frontier.fastest(roomy, swap=partial(gw.swap, graph())) is frontier.fastest()
    with pytest.raises(MemoryTooSmall, match="rank 0"):
        frontier.fastest("1kB", swap=partial(gw.swap, graph()))
    with pytest.raises(InvalidLimit, match="give memory as well"):
        frontier.fastest(swap=partial(gw.swap, graph()))
    assert isinstance(frontier, Frontier)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"memory": "1MB", "torch_compile": True}, "torch_compile joins operators"),
        ({"reserve": "1MB"}, "give memory as well"),
    ],
)
def test_compile_refuses_what_does_not_go_together(options, words):
    plan = data_parallel(graph(), cluster("local:1"))
    with pytest.raises(InvalidOption, match=words):
        gw.compile(plan, make(), LOSS, torch.optim.Adam, graph=graph(), **options)
