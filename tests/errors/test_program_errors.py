"""Programs that no rank could run: each message names the rule, the rank and the instruction."""

from dataclasses import replace
from functools import cache

import pytest

from graphwright.errors import InvalidProgram
from graphwright.ir import Attrs, TensorType
from graphwright.lower import lower
from graphwright.machine import cluster
from graphwright.partition import random_plan
from graphwright.plans import (
    Call,
    Collective,
    Cut,
    Exchange,
    Operand,
    Program,
    Replicated,
    Sharding,
    Together,
    Wait,
    verify_program,
    verify_programs,
    whole_mesh,
)
from graphwright.plans.transfers import AllGather, AllReduce
from graphwright.simulate import CostModel
from random_plans import zoo_graph

TYPE = TensorType((4, 6), "float32")
BOX = ((0, 2), (0, 6))


def call(value=0, output=9, **changes) -> Call:
    fields = {
        "node": "y",
        "op": "aten.relu",
        "attrs": Attrs({}),
        "inputs": (Operand(value=value),),
        "outputs": (output,),
        "box": BOX,
    }
    return Call(**fields | changes)


def gather(rank=0, **changes) -> Collective:
    fields = {"kind": AllGather(), "tensor": "x", "group": (0, 1), "value": 0, "output": 1}
    return Collective(**fields | {"dim": 0, "sizes": (2, 2)} | changes)


def exchange(rank=0, **changes) -> Exchange:
    """Each rank gives its two rows, and gets those of the other beside its own."""
    mine, theirs = ((0, 2), (0, 6)), ((2, 4), (0, 6))
    kept, got = (mine, theirs) if rank == 0 else (theirs, mine)
    fields = {"tensor": "x", "tag": 3, "value": 0, "output": 2, "type": TYPE}
    fields |= {"sends": ((1 - rank, mine),), "receives": ((1 - rank, got),), "own": ((mine, kept),)}
    return Exchange(**fields | changes)


def program(rank=0, *instructions, **changes) -> Program:
    fields = {
        "rank": rank,
        "inputs": {"x": 0},
        "homes": {"x": ((2 * rank, 2 * rank + 2), (0, 6))},
        "instructions": instructions,
        "updates": {},
        "results": {},
        "shardings": {"x": Sharding(whole_mesh(cluster("local:2")), ("S0",))},
        "groups": ((0, 1),),
        "digest": "same",
    }
    return Program(**fields | changes)


def both(make, **changes) -> list[Program]:
    return [program(rank, make(rank), **changes) for rank in (0, 1)]


def test_programs_that_are_right():
    verify_programs(both(gather))
    verify_programs(both(exchange))
    verify_program(program(0, gather(), Wait(begun=0), call(1, box=((0, 4), (0, 6)))))


BEYOND = Operand(value=0, region=((0, 3), (0, 6)))
FILLED = Operand(value=0, region=((-1, 3), (0, 6)), fills=(0.0, None))
ALONE = [
    ((call(5),), r"value: rank 0 reads %5 before it is made\n  at  %9 = aten\.relu\(%5\)"),
    ((call(output=0),), r"value: rank 0 makes %0 twice"),
    ((gather(), gather()), r"value: rank 0 makes %1 twice"),
    (
        (call(inputs=(BEYOND,)),),
        r"region: rank 0 reads %0\[0:3, 0:6\] of a value of shape \(2, 6\)",
    ),
    ((Cut(value=0, output=1, region=((0, 2), (5, 7))),), "region: .* of shape"),
    ((gather(sizes=(1, 3)),), "region: rank 0 has 2 along dim 0 for a all_gather"),
    ((gather(sizes=(2,)),), "group: rank 0 has 1 sizes for 2 ranks"),
    ((gather(group=(1, 2)),), r"group: rank 0 does a collective of ranks \(1, 2\)"),
    ((gather(group=(0, 1, 2), sizes=(2, 1, 1)),), "group: .* none of its groups"),
    ((Wait(begun=0),), "wait: rank 0 waits for what has not begun"),
    ((call(), Wait(begun=0)), "wait: rank 0 waits for what has not begun"),
    ((gather(), Wait(begun=0), Wait(begun=0)), "wait: .* has been waited for"),
    ((exchange(receives=()),), "cover: rank 0 does not get every element"),
    ((exchange(own=((BOX, ((0, 1), (0, 6))),)),), "cover"),
    ((exchange(sends=((1, ((0, 3), (0, 6))),)),), "region"),
    ((exchange(value=None),), "value: rank 0 sends a part of nothing"),
    ((exchange(output=None),), "value: rank 0 receives a part of nothing"),
]


@pytest.mark.parametrize(("instructions", "message"), ALONE)
def test_a_program_that_breaks_a_rule_is_refused(instructions, message):
    with pytest.raises(InvalidProgram, match=message) as caught:
        verify_program(program(0, *instructions))
    assert caught.value.rank == 0
    assert message.startswith(caught.value.rule)


def test_beyond_the_edge_stands_a_fill_value():
    verify_program(program(0, call(inputs=(FILLED,))))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"results": {"y": 7}}, "value: rank 0 leaves %7 as y, which nothing makes"),
        ({"updates": {"w": 0}}, "input: rank 0 updates w, which it does not take"),
        ({"homes": {}}, "input: rank 0 has x among its inputs or its homes"),
        ({"updates": {"x": 1}}, r"input: rank 0 updates x of \(2, 6\) with \(4, 6\)"),
    ],
)
def test_what_is_taken_and_left(changes, message):
    with pytest.raises(InvalidProgram, match=message):
        verify_program(program(0, gather(), **changes))


def sums(rank, names, **changes) -> Together:
    common = {"kind": AllReduce(), "sizes": (), "value": 0} | changes
    return Together(
        sums=tuple(gather(tensor=n, output=o, **common) for o, n in enumerate(names, 1))
    )


def test_sums_that_go_together_are_over_one_group():
    verify_programs([program(rank, sums(rank, "ab")) for rank in (0, 1)])
    one, other = sums(0, "ab").sums
    with pytest.raises(InvalidProgram, match="group: rank 0 adds up together what differs"):
        verify_program(program(0, Together(sums=(one, replace(other, reducer="max")))))


TOGETHER = [
    (
        [program(0, gather(), gather(output=2, tensor="z")), program(1, gather(output=1))],
        "order: rank 0 waits for rank 1, which never comes to it\n  at  %2 = all_gather",
    ),
    (
        [
            program(0, gather(), gather(output=2, tensor="z")),
            program(1, gather(tensor="z"), gather(output=2)),
        ],
        "order: rank 0 waits for rank 1, which is at  %1 = all_gather\\(%0; z",
    ),
    ([program(0, exchange(0, tag=4)), program(1, exchange(1))], "order: rank 0 waits for rank 1"),
    (
        [
            program(0, exchange(0, sends=((1, ((0, 1), (0, 6))),))),
            program(1, exchange(1)),
        ],
        r"message: rank 0 sends rank 1 .*\(1, 6\).*, which receives .*\(2, 6\).*\(tag 3\)",
    ),
    (
        [
            program(0, exchange(0)),
            program(1, exchange(1, type=TensorType((4, 6), "float64"))),
        ],
        "message: rank",
    ),
    ([program(0), program(1, digest="other")], "alike: rank 1 has other digest than rank 0"),
    ([program(0), program(1, groups=())], "alike: rank 1 has other groups"),
    ([program(1), program(0)], "alike: rank 1 stands at place 0"),
    ([program(0), program(1, inputs={}, homes={})], "alike: rank 1 has no x, which is .S0."),
    ([program(0), program(1, homes={"x": ((1, 4), (0, 6))})], "alike: rank . has .* of x"),
]


@pytest.mark.parametrize(("programs", "message"), TOGETHER)
def test_programs_that_do_not_fit_together_are_refused(programs, message):
    with pytest.raises(InvalidProgram, match=message):
        verify_programs(programs)


def test_values_of_one_sum_have_one_shape():
    """Both programs are right alone, with an input that lives in other parts on each rank."""
    whole = {"x": Sharding(whole_mesh(cluster("local:2")), (Replicated(),))}
    total = gather(kind=AllReduce(), sizes=(), value=2, output=3)
    programs = [
        program(
            rank,
            Cut(value=0, output=2, region=((0, 1 + rank), (0, 6))),
            total,
            homes={"x": ((0, 2), (0, 6))},
            shardings=whole,
        )
        for rank in (0, 1)
    ]
    with pytest.raises(InvalidProgram, match=r"shape: rank 1 has a value of shape \(2, 6\)"):
        verify_programs(programs)


def test_a_circle_of_three_is_noticed():
    """Any two ranks agree on the order of what they do together, and yet all wait for ever."""
    everywhere = Sharding(whole_mesh(cluster("local:3")), (Replicated(),))
    pairs = {0: ((0, 1), (0, 2)), 1: ((1, 2), (0, 1)), 2: ((0, 2), (1, 2))}
    programs = [
        program(
            rank,
            *(
                gather(tensor="t", group=group, kind=AllReduce(), sizes=(), output=output)
                for output, group in enumerate(pairs[rank], 1)
            ),
            homes={"x": BOX},
            shardings={"x": everywhere},
            groups=((0, 1), (0, 2), (1, 2)),
        )
        for rank in range(3)
    ]
    with pytest.raises(InvalidProgram, match="order: rank 0 waits for rank 1, which is at"):
        verify_programs(programs)


@cache
def of_a_model() -> tuple[Program, ...]:
    graph, on = zoo_graph("lenet"), cluster("local:3")
    lowered = lower(graph, random_plan(graph, on, 5), costs=CostModel(measured=False))
    return tuple(lowered.program(rank) for rank in range(3))


@pytest.mark.parametrize("kind", [Collective, Exchange])
def test_a_transfer_that_is_left_out_is_noticed(kind):
    first, *others = of_a_model()
    verify_programs([first, *others])
    at = next(n for n, i in enumerate(first.instructions) if isinstance(i, kind))
    kept = first.instructions[:at] + first.instructions[at + 1 :]
    with pytest.raises(InvalidProgram):
        verify_programs([replace(first, instructions=kept), *others])
