"""Ranks with less memory than their programs need leave what one device leaves: random graphs under random plans, in threads."""

from __future__ import annotations

from random import Random

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphwright.aten.replay import advance, replay
from graphwright.ir import Graph, parse_text, to_text
from graphwright.lower import InstructionTimes, lower
from graphwright.machine import cluster
from graphwright.memory import (
    Choice,
    Planner,
    early_order,
    problem_of_program,
    program_order,
    task_graph_of_ranks,
)
from graphwright.partition import random_plan
from graphwright.plans import Plan, boxes, verify_memory
from graphwright.run.compile.ranks import RankPlanner, with_host_link
from graphwright.run.program import RankExecutor
from graphwright.run.program.regions import cut
from graphwright.run.step import RankMemory
from graphwright.simulate import CostModel, schedule, verify_task_graph
from graphwright.simulate import memory as memory_of
from random_plans import any_plan, chain, random_graph, two_pass_graph
from threads import CPU, run_all

COSTS = CostModel(measured=False)
STEPS = 2
TOLERANCE = 1e-10
GRAPHS = {
    "random": random_graph,
    "two passes": two_pass_graph,
    "chain": lambda rng: chain(rng.randint(2, 6), rng.randint(3, 7)),
}
CHOICES = (
    Choice(),
    Choice(policy="belady"),
    Choice(policy="lru", lookahead=2),
    Choice(recompute=10.0, gap=0.0),
)
ORDERS = {"program": program_order, "early": early_order}


class Case:
    def __init__(self, seed: int, graph: str, plan: str, count: int) -> None:
        rng = Random(seed)
        self.graph = parse_text(to_text(GRAPHS[graph](rng)).replace("float32", "float64"))
        on = cluster(f"local:{count}")
        any = plan == "any"
        self.plan = any_plan(rng, self.graph, on) if any else random_plan(self.graph, on, seed)
        numbers = np.random.default_rng(seed)
        self.values = {
            name: torch.from_numpy(numbers.standard_normal(self.graph.tensors[name].type.shape))
            for name in self.graph.inputs
        }
        self.lowered = lower(self.graph, self.plan, costs=COSTS)
        self.times = InstructionTimes(self.lowered, COSTS)

    def problem(self, rank: int):
        program, facts = self.lowered.program(rank), self.lowered.expansion.facts
        return problem_of_program(
            program, facts, with_host_link(self.plan.cluster), self.times.of(program)
        )

    def __repr__(self) -> str:
        return f"{self.graph}\n{self.plan} {dict(self.plan.strategies)} {dict(self.plan.inputs)}"


cases = st.builds(
    Case,
    st.integers(0, 2**31),
    st.sampled_from(sorted(GRAPHS)),
    st.sampled_from(("random", "any")),
    st.sampled_from((1, 2, 3, 4)),
)


def plan_one(given, room: float, choice: Choice, order: str) -> RankMemory:
    """A plan by one choice, between the least memory and what is held at once."""
    least, most = max(given.problem.needs, default=0), given.problem.held_at_once()
    capacity = least + int(room * max(0, most - least))
    plan = Planner(given.problem).plan(ORDERS[order](given.problem), capacity, choice)
    assert plan is not None
    verify_memory(plan, given.problem)
    return RankMemory(given=given, plan=plan)


@given(
    cases,
    st.sampled_from((0.0, 0.3, 0.7)),
    st.lists(st.sampled_from(CHOICES), min_size=4, max_size=4),
    st.lists(st.sampled_from(sorted(ORDERS)), min_size=4, max_size=4),
)
def test_ranks_with_little_memory_leave_what_one_device_leaves(case, room, choices, orders):
    """Each rank with a memory plan of its own kind."""
    count = case.plan.cluster.num_devices
    memories = [plan_one(case.problem(r), room, choices[r], orders[r]) for r in range(count)]
    check(case.graph, case.plan, case.lowered, case.values, memories)


@given(cases)
def test_what_the_planner_finds_leaves_what_one_device_leaves(case):
    count = case.plan.cluster.num_devices
    problems = [case.problem(rank).problem for rank in range(count)]
    capacity = max(max(p.needs, default=0) for p in problems)
    planner = RankPlanner(case.lowered, COSTS, capacity)
    memories = [planner.plan(rank) for rank in range(count)]
    assert all(m.plan.arena <= capacity for m in memories)
    check(case.graph, case.plan, case.lowered, case.values, memories)


@given(cases, st.sampled_from((0.0, 0.5)), st.booleans())
def test_all_ranks_make_one_task_graph_that_stays_in_their_arenas(case, room, serial):
    count = case.plan.cluster.num_devices
    memories = [plan_one(case.problem(r), room, CHOICES[r], "program") for r in range(count)]
    plans = [(memory.given, memory.plan) for memory in memories]
    tasks = task_graph_of_ranks(plans, with_host_link(case.plan.cluster), serial=serial)
    verify_task_graph(tasks)
    peak = memory_of(tasks, schedule(tasks)).peak
    assert all(peak[rank] <= memory.plan.arena for rank, memory in enumerate(memories))


def check(graph: Graph, plan: Plan, lowered, values, memories: list[RankMemory]) -> None:
    def work(rank, links):
        memory = memories[rank]
        homes = memory.given.program.homes
        lasting = {s.name for s in memory.given.problem.storages if s.ends == "home"}
        parts = {name: cut(values[name], box).clone() for name, box in homes.items()}
        step = RankExecutor(memory.given, memory.plan, links, CPU)
        step.give({name: part for name, part in parts.items() if name in lasting})
        data = {name: part for name, part in parts.items() if name not in lasting}
        results = [step(data, 0)[1] for _ in range(STEPS)]
        return {name: step.take(name).clone() for name in lasting}, results

    ranks = run_all(plan.cluster.num_devices, work)
    expected, outputs = dict(values), []
    for _ in range(STEPS):
        made = replay(graph, expected)
        expected = advance(graph, expected, made)
        outputs.append(made)
    for rank, (held, results) in enumerate(ranks):
        for name, value in held.items():
            compare(lowered, graph, rank, name, value, expected[name])
        for found, made in zip(results, outputs, strict=True):
            for name, value in found.items():
                compare(lowered, graph, rank, name, value, made[name])


def compare(lowered, graph, rank: int, name: str, value, whole) -> None:
    home = lowered.shardings[name]
    box = boxes(home, graph.tensors[name].type.shape)[home.mesh.devices.index(rank)]
    part = cut(whole, box.tolist())
    assert value.shape == part.shape, name
    if part.numel():
        scale = part.abs().max().clamp(min=1e-3)
        assert float((value - part).abs().max() / scale) < TOLERANCE, name
