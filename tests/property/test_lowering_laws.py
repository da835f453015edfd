"""Lowering is true: the programs of random graphs under random plans, run in threads, leave what a replay on one device leaves."""

from __future__ import annotations

import operator
from dataclasses import replace
from functools import cache
from itertools import combinations
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.errors import InvalidProgram
from graphwright.ir import Graph, TensorType, parse_text, to_text
from graphwright.lower import Lowered, lower, lower_hop
from graphwright.lower.moves import lower_slice
from graphwright.machine import cluster
from graphwright.partition import random_plan
from graphwright.plans import (
    Call,
    Exchange,
    Program,
    as_box,
    boxes,
    verify_program,
    verify_programs,
)
from graphwright.run.program.module import build_module, run_module
from graphwright.simulate import CostModel
from graphwright.tasks import Templates
from programs import check_cover, check_programs, meets, programs_of, shared
from random_plans import any_keep, any_plan, chain, random_graph, two_pass_graph
from reshardings import (
    Formulas,
    check_state,
    distribute,
    random_cluster,
    random_mesh,
    random_sharding,
)
from threads import CPU, largest_difference, run_all

COSTS = CostModel(measured=False)
TOLERANCE = 1e-10
COUNTS = (2, 3, 4, 6)


def in_float64(graph: Graph) -> Graph:
    return parse_text(to_text(graph).replace("float32", "float64"))


def values_of(graph: Graph, seed: int) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(seed)
    shapes = {name: graph.tensors[name].type.shape for name in graph.inputs}
    return {name: torch.from_numpy(rng.standard_normal(shape)) for name, shape in shapes.items()}


GRAPHS = {
    "random": random_graph,
    "two passes": two_pass_graph,
    "chain": lambda rng: chain(rng.randint(2, 6), rng.randint(3, 7)),
}
PLANS = {
    "random": lambda rng, graph, on: random_plan(graph, on, rng.randrange(2**31)),
    "random, kept": lambda rng, graph, on: replace(
        random_plan(graph, on, rng.randrange(2**31)), keep=any_keep(rng, graph)
    ),
    "any": any_plan,
}


class Case:
    """A random graph in float64 under a random plan, with values."""

    def __init__(self, seed: int, graph: str, plan: str, count: int) -> None:
        rng = Random(seed)
        self.graph = in_float64(GRAPHS[graph](rng))
        self.plan = PLANS[plan](rng, self.graph, cluster(f"local:{count}"))
        self.values = values_of(self.graph, seed)

    def __repr__(self) -> str:
        plan = self.plan
        return f"{self.graph}\n{plan} {dict(plan.strategies)} {dict(plan.inputs)} {dict(plan.keep)}"


cases = st.builds(
    Case,
    st.integers(0, 2**32),
    st.sampled_from(sorted(GRAPHS)),
    st.sampled_from(sorted(PLANS)),
    st.sampled_from(COUNTS),
)


def many(test):
    """These cases are small: a law gets three times the usual examples."""
    return settings(max_examples=3 * settings().max_examples)(test)


@many
@given(cases)
def test_a_plan_leaves_what_one_device_leaves(case):
    apart, where = largest_difference(case.graph, case.plan, case.values, costs=COSTS)
    assert apart < TOLERANCE, where


@many
@given(cases)
def test_programs_are_complete_and_agree(case):
    check_programs(lower(case.graph, case.plan, costs=COSTS))


@given(cases)
def test_lowering_again_gives_the_same(case):
    again = lower(case.graph, case.plan, costs=COSTS)
    for rank, program in enumerate(check_programs(lower(case.graph, case.plan, costs=COSTS))):
        assert program == again.program(rank)


@given(cases)
def test_all_that_begins_is_waited_for(case):
    """A message that nobody waits for may be let go before it has left."""
    lowered = lower(case.graph, case.plan, costs=COSTS)
    for rank in range(case.plan.cluster.num_devices):
        module = build_module(lowered.program(rank), object(), CPU)
        begun = [n for n in module.graph.nodes if getattr(n.target, "links", None) is not None]
        for node in begun:
            users = list(node.users)
            if all(user.target is operator.getitem for user in users):  # sums that go together
                users = [user for item in users for user in item.users]
            assert {user.target.__name__ for user in users} == {"finish"}, node


# -- one tensor --------------------------------------------------------------------------------------


class Moved:
    """A tensor on a random cluster, as it is and as it is needed: with halos, terms, other devices."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.cluster = random_cluster(rng, 8)
        shape = tuple(rng.randint(1, 9) for _ in range(rng.randint(0, 3)))
        mesh = random_mesh(rng, self.cluster)
        other = mesh if rng.random() < 0.6 else random_mesh(rng, self.cluster)
        self.type = TensorType(shape, "int64")
        reducer = rng.choice([None, "sum", "sum", "max", "prod"])
        wanted = rng.choice([None, None, "sum"])
        halos = rng.random() < 0.3
        self.source = random_sharding(rng, mesh, shape, reducer=reducer, halos=halos)
        self.target = random_sharding(rng, other, shape, reducer=wanted, halos=True)
        self.whole = np.random.default_rng(seed).integers(-50, 50, shape)
        self.terms = distribute(rng, self.whole, self.source)
        self.movement = Templates(self.cluster, Formulas()).movement(
            self.type, self.source, self.target
        )

    def __repr__(self) -> str:
        where = f"{self.source.mesh}, {self.target.mesh}"
        return f"{self.type} {self.source} -> {self.target} on {where} of {self.cluster}"

    def program(self, rank: int) -> Program:
        """The way of the tensor as one rank's program."""
        value = 0 if rank in self.source.mesh.devices else None
        instructions, made = [], 1
        for number, hop in enumerate(self.movement.hops):
            gets = rank in hop.target.mesh.devices
            output = made if gets else None
            if hop.first == hop.end and value is not None and output is not None:
                instructions.append(lower_slice(hop, self.type, rank, value, output))
            elif value is not None or output is not None:
                on = self.cluster
                instructions.append(lower_hop(hop, "x", self.type, on, rank, value, output, number))
            value, made = output, made + 1
        has = rank in self.source.mesh.devices
        box = as_box(boxes(self.source, self.type.shape)[self.source.mesh.devices.index(rank)]) if has else ()  # fmt: skip
        return Program(
            rank=rank,
            inputs={"x": 0} if has else {},
            homes={"x": box} if has else {},
            instructions=tuple(instructions),
            updates={},
            results={} if value is None else {"x": value},
            shardings={},
            groups=(),
            digest="",
        )


moved = st.integers(0, 2**32).map(Moved)


@many
@given(moved)
def test_every_hop_leaves_what_its_target_says(case):
    def work(rank, links):
        module = build_module(case.program(rank), links, CPU)
        held = {"x": torch.tensor(np.asarray(case.terms[rank]))} if rank in case.terms else {}
        return run_module(module, held, 0)[1].get("x")

    found = run_all(case.cluster.num_devices, work)
    state = {rank: found[rank].numpy() for rank in case.target.mesh.devices}
    check_state(state, case.target, case.whole)
    for rank, value in enumerate(found):
        assert (value is None) == (rank not in case.target.mesh.devices)


@many
@given(moved)
def test_every_output_of_an_exchange_is_covered(case):
    for rank in range(case.cluster.num_devices):
        for i in case.program(rank).instructions:
            if isinstance(i, Exchange) and i.output is not None:
                overlapping = bool(case.movement.hops[i.tag].source.pieces)
                check_cover(i, overlapping)


# -- what would be noticed ---------------------------------------------------------------------------


@cache
def small() -> Case:
    return Case(7, "random", "random", 4)


def test_a_wrong_value_is_noticed(monkeypatch):
    case, real = small(), Lowered.program

    def wrong(self, rank):
        """Rank 0 adds twice of what it is to add."""
        program = real(self, rank)
        changed = [
            replace(i, attrs={"alpha": 2}) if rank == 0 and i.op == "aten.add.Tensor" else i
            for i in program.instructions
            if isinstance(i, Call)
        ]
        calls = iter(changed)
        instructions = [next(calls) if isinstance(i, Call) else i for i in program.instructions]
        return replace(program, instructions=tuple(instructions))

    monkeypatch.setattr(Lowered, "program", wrong)
    apart, _ = largest_difference(case.graph, case.plan, case.values, costs=COSTS)
    assert apart > TOLERANCE


def test_a_wrong_order_is_noticed():
    programs = programs_of(lower(small().graph, small().plan, costs=COSTS))
    verify_programs(programs)
    first = programs[0]
    meeting = [n for n, i in enumerate(first.instructions) if i in shared(first)]
    swapped = (swap(first, a, b) for a, b in combinations(meeting, 2))
    wrong = next(p for p in swapped if is_valid(p) and meets(p, 1) != meets(first, 1))
    with pytest.raises(InvalidProgram, match=r"order: rank \d waits for rank \d, which is at"):
        verify_programs([wrong, *programs[1:]])


def swap(program: Program, a: int, b: int) -> Program:
    order = list(program.instructions)
    order[a], order[b] = order[b], order[a]
    return replace(program, instructions=tuple(order))


def is_valid(program: Program) -> bool:
    try:
        verify_program(program)
    except InvalidProgram:
        return False
    return True
