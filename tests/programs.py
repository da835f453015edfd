"""What the programs of all ranks have to be: complete, in an order that never waits for ever, and with every message sent and received."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from graphwright.lower import Lowered
from graphwright.plans import (
    Box,
    Call,
    Collective,
    Constant,
    Cut,
    Exchange,
    Instruction,
    Program,
    Sharding,
    Together,
    Wait,
    boxes,
)


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
    for program in programs:
        check_values(program)
        check_groups(program, lowered)
    check_meetings(programs)
    check_messages(lowered, programs)
    check_covers(lowered, programs)
    return programs


# -- values ------------------------------------------------------------------------------------------


def reads(instruction: Instruction) -> list[int]:
    match instruction:
        case Call():
            return [o.value for o in instruction.inputs if o is not None]
        case Constant():
            return []
        case Collective() | Cut():
            return [instruction.value]
        case Together():
            return [each.value for each in instruction.sums]
        case Exchange():
            return [] if instruction.value is None else [instruction.value]
        case Wait():
            return []


def makes(instruction: Instruction) -> tuple[int, ...]:
    match instruction:
        case Call():
            return instruction.outputs
        case Exchange():
            return () if instruction.output is None else (instruction.output,)
        case Together():
            return tuple(each.output for each in instruction.sums)
        case Wait():
            return ()
        case _:
            return (instruction.output,)


def check_values(program: Program) -> None:
    """Every value is made once, before it is read; nothing is left over that was asked for."""
    known = set(program.inputs.values())
    assert len(known) == len(program.inputs)
    assert program.inputs.keys() == program.homes.keys()
    for instruction in program.instructions:
        assert known.issuperset(reads(instruction)), instruction
        assert known.isdisjoint(makes(instruction)), instruction
        known.update(makes(instruction))
    assert known.issuperset(program.updates.values())
    assert known.issuperset(program.results.values())


def check_groups(program: Program, lowered: Lowered) -> None:
    """Groups have this rank, and are among those that all ranks make."""
    for i in shared(program):
        if isinstance(i, Collective):
            assert program.rank in i.group
            assert i.group in lowered.groups or len(i.group) == 1


# -- order -------------------------------------------------------------------------------------------


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


def check_meetings(programs: list[Program]) -> None:
    """Any two ranks come to what they do together in the same order."""
    for a, b in combinations(programs, 2):
        assert meets(a, b.rank) == meets(b, a.rank), (a.rank, b.rank)


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
    """What one rank sends is what the other receives: the same regions of the tensor, in the same order."""
    sent: dict[tuple[int, int, int], list] = {}
    received: dict[tuple[int, int, int], list] = {}
    for program in programs:
        for i in program.instructions:
            if not isinstance(i, Exchange):
                continue
            block = lowered.blocks[i.tag] if i.sends or i.receives else None
            if block is None:
                continue
            assert block.move is not None and block.move.tensor == i.tensor
            hop = block.move.movement.hops[block.hop]
            shape = lowered.graph.tensors[i.tensor].type.shape
            for rank, region in i.sends:
                origin = _origin(hop.source, shape, program.rank, i.order)
                sent.setdefault((i.tag, program.rank, rank), []).append(_global(region, origin))
            for rank, region in i.receives:
                origin = _origin(hop.target, shape, program.rank, i.order)
                received.setdefault((i.tag, rank, program.rank), []).append(_global(region, origin))
    assert sent == received


def check_covers(lowered: Lowered, programs: list[Program]) -> None:
    """Every element of an exchange's output comes from somewhere, and from one place only unless the source's pieces overlap."""
    for program in programs:
        for i in program.instructions:
            if isinstance(i, Exchange) and i.output is not None:
                overlapping = False
                if i.sends or i.receives:
                    move, k = lowered.blocks[i.tag].move, lowered.blocks[i.tag].hop
                    assert move is not None
                    overlapping = bool(move.movement.hops[k].source.pieces)
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
                found[i.kind] += 1
            case Cut():
                found["zero" if i.zero else "cut"] += 1
            case _:
                found[type(i).__name__.lower()] += 1
    return found
