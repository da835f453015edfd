"""What programs have to be beyond what `verify_programs` sees in them alone.

Every message is the region of the tensor that its move says, and none comes twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from graphwright.lower import Lowered
from graphwright.plans import (
    Box,
    Call,
    Collective,
    Cut,
    Exchange,
    Instruction,
    Program,
    Sharding,
    Together,
    boxes,
    verify_programs,
)
from graphwright.tasks import Move


def programs_of(lowered: Lowered) -> list[Program]:
    return [lowered.program(rank) for rank in range(lowered.plan.cluster.num_devices)]


def shared(program: Program) -> list[Collective | Exchange]:
    """What a rank does together with others; sums that go together one by one."""
    return [
        i
        for i in instructions_of(program)
        if isinstance(i, Collective) or (isinstance(i, Exchange) and (i.sends or i.receives))
    ]


def instructions_of(program: Program) -> Iterator[Instruction]:
    """The instructions, with sums that go together one by one."""
    for i in program.instructions:
        if isinstance(i, Together):
            yield from i.sums
        else:
            yield i


def check_programs(lowered: Lowered) -> list[Program]:
    """All laws at once."""
    programs = programs_of(lowered)
    verify_programs(programs)
    check_messages(lowered, programs)
    check_covers(lowered, programs)
    return programs


def meets(program: Program, other: int) -> list[tuple]:
    """What a rank does together with another one, in its order."""
    found: list[tuple] = []
    for i in shared(program):
        if isinstance(i, Collective):
            if other in i.group:
                found.append((i.kind, i.tensor, i.group, i.reducer, i.dim, i.sizes, i.order))
        elif any(rank == other for rank, _ in (*i.sends, *i.receives)):
            found.append(("exchange", i.tensor, i.tag, i.order))
    return found


# -- messages ----------------------------------------------------------------------------------------


def _origin(
    sharding: Sharding, shape: tuple[int, ...], rank: int, order: tuple[int, ...] | None
) -> np.ndarray:
    start = boxes(sharding, shape)[sharding.mesh.devices.index(rank)][:, :1]
    return start if order is None else start[list(order)]


def _global(region: Box, origin: np.ndarray) -> tuple[tuple[int, int], ...]:
    bounds = np.array(region, dtype=np.int64).reshape(-1, 2) + origin
    return tuple(map(tuple, bounds.tolist()))


def check_messages(lowered: Lowered, programs: list[Program]) -> None:
    """What is sent is what is received: the same regions of the tensor, in the same order."""
    sent: dict[tuple[int, int, int], list] = {}
    received: dict[tuple[int, int, int], list] = {}
    for program in programs:
        for i in program.instructions:
            if not isinstance(i, Exchange):
                continue
            if not i.sends and not i.receives:
                continue
            action = lowered.actions[i.tag]
            assert isinstance(action.block, Move) and action.block.tensor == i.tensor
            hop = action.block.movement.hops[action.stage]
            shape = lowered.graph.tensors[i.tensor].type.shape
            for rank, region in i.sends:
                origin = _origin(hop.source, shape, program.rank, i.order)
                sent.setdefault((i.tag, program.rank, rank), []).append(_global(region, origin))
            for rank, region in i.receives:
                origin = _origin(hop.target, shape, program.rank, i.order)
                received.setdefault((i.tag, rank, program.rank), []).append(_global(region, origin))
    assert sent == received


def check_covers(lowered: Lowered, programs: list[Program]) -> None:
    """Every element that an exchange makes comes from one place, or more if pieces overlap."""
    for program in programs:
        for i in program.instructions:
            if isinstance(i, Exchange) and i.output is not None:
                overlapping = False
                if i.sends or i.receives:
                    action = lowered.actions[i.tag]
                    assert isinstance(action.block, Move)
                    overlapping = bool(action.block.movement.hops[action.stage].source.pieces)
                check_cover(i, overlapping)


def check_cover(exchange: Exchange, overlapping: bool = False) -> None:
    count = np.zeros(exchange.type.shape, dtype=np.int64)
    for region in (*(to for _, to in exchange.own), *(to for _, to in exchange.receives)):
        for (start, stop), size in zip(region, exchange.type.shape, strict=True):
            assert 0 <= start < stop <= size, exchange
        count[tuple(slice(*bounds) for bounds in region)] += 1
    assert (count >= 1).all(), exchange
    if not overlapping:
        assert (count == 1).all(), exchange


def kinds_of(program: Program) -> Counter[str]:
    """How many of each instruction there are, calls by their operator."""
    found: Counter[str] = Counter()
    for i in instructions_of(program):
        match i:
            case Call():
                found[i.op] += 1
            case Collective():
                found[i.kind.name] += 1
            case Cut():
                found["zero" if i.zero else "cut"] += 1
            case _:
                found[type(i).__name__.lower()] += 1
    return found
