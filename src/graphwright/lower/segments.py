"""From the programs of all ranks to segments: tasks for a scheduler that moves what they read.

A program tells a rank when to meet the others. A scheduler such as Dask's knows only tasks and what
they read, so programs are cut where they meet:

    exchange         the sender cuts out pieces, the receiver puts them together
    all_gather       the receiver puts values together
    reduce_scatter   every rank sends each other one its piece, which adds its own up
    all_reduce       two ranks read each other's terms; more let one of them add up small terms and
                     read its sum, and reduce pieces of large ones

Between these, whatever a rank does is one task if it hangs together: a value's *level* is how often
data has changed ranks on the way to it, and the steps of one rank and level that read each other
are a segment. A path that leaves such a segment comes to a higher level, so segments wait for each
other in no circle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from graphwright.ir import Graph, TensorType
from graphwright.plans import (
    Assemble,
    Box,
    Call,
    Collective,
    Concat,
    Constant,
    Cut,
    Exchange,
    Fetch,
    Instruction,
    Piece,
    Program,
    Reduce,
    Ref,
    Segment,
    SegmentGraph,
    SegmentStep,
    Share,
    Together,
    Wait,
    as_box,
    boxes,
    refs_made,
    refs_read,
    transfers,
    values_made,
)

ROOT_BYTES = 1 << 18
"""Terms of so many bytes are added up in pieces by all ranks, smaller ones by one of them."""


def cut_into_segments(graph: Graph, programs: Sequence[Program]) -> SegmentGraph:
    """The tasks of a graph's programs, all ranks' together."""
    steps = _Writer(graph, programs).write()
    inputs: dict[str, dict[int, Ref]] = defaultdict(dict)
    results: dict[str, dict[int, Ref]] = defaultdict(dict)
    homes: dict[str, dict[int, Box]] = defaultdict(dict)
    for program in programs:
        for name, value in program.inputs.items():
            inputs[name][program.rank] = program.rank, value
            homes[name][program.rank] = program.homes[name]
        for name, value in program.results.items():
            results[name][program.rank] = program.rank, value
            shape = graph.tensors[name].type.shape
            sharding = program.shardings[name]
            place = sharding.mesh.devices.index(program.rank)
            homes[name][program.rank] = as_box(boxes(sharding, shape)[place])
    given = {ref for parts in inputs.values() for ref in parts.values()}
    wanted = {ref for parts in results.values() for ref in parts.values()}
    return SegmentGraph(
        segments=tuple(_segments(steps, given, wanted)),
        inputs=dict(inputs),
        results=dict(results),
        homes=dict(homes),
        shardings=dict(programs[0].shardings),
    )


# -- steps -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Meeting:
    """What the ranks of a group bring to a collective, by rank."""

    values: dict[int, Ref] = field(default_factory=dict)
    outputs: dict[int, Ref] = field(default_factory=dict)
    pieces: dict[tuple[int, int], Ref] = field(default_factory=dict)
    sums: dict[int, Ref] = field(default_factory=dict)


Key = tuple[object, ...]
Steps = list[tuple[int, SegmentStep]]


class _Writer:
    """Writes the steps of all ranks in two passes: first what each sends, then what it reads."""

    def __init__(self, graph: Graph, programs: Sequence[Program]) -> None:
        self.graph, self.programs = graph, programs
        self.next = {p.rank: 1 + max(_values(p), default=-1) for p in programs}
        self.sent: dict[Key, list[Ref]] = defaultdict(list)
        self.meetings: dict[Key, _Meeting] = defaultdict(_Meeting)

    def write(self) -> list[Steps]:
        """The steps of each rank, in its order."""
        for program in self.programs:
            for instruction, key in _with_keys(program):
                self._offer(program.rank, instruction, key)
        return [
            [
                (program.rank, step)
                for instruction, key in _with_keys(program)
                for step in self._steps(program.rank, instruction, key)
            ]
            for program in self.programs
        ]

    def _new(self, rank: int) -> Ref:
        self.next[rank] += 1
        return rank, self.next[rank] - 1

    def _offer(self, rank: int, what: Instruction, key: Key) -> None:
        """Number what a rank sends."""
        match what:
            case Exchange():
                for receiver, _ in what.sends:
                    self.sent[what.tensor, what.tag, rank, receiver].append(self._new(rank))
            case Collective():
                meeting = self.meetings[key]
                meeting.values[rank] = rank, what.value
                meeting.outputs[rank] = rank, what.output
                if self._is_in_pieces(what):
                    meeting.sums[rank] = self._new(rank)
                    for other in what.group:
                        meeting.pieces[rank, other] = self._new(rank)
            case _:
                pass

    def _is_in_pieces(self, what: Collective) -> bool:
        if isinstance(what.kind, transfers.AllReduce):
            large = self.graph.tensors[what.tensor].type.nbytes >= ROOT_BYTES
            return large and len(what.group) > 2
        return isinstance(what.kind, transfers.ReduceScatter)

    def _steps(self, rank: int, what: Instruction, key: Key) -> Iterator[SegmentStep]:
        match what:
            case Call() | Cut() | Constant():
                yield what
            case Exchange():
                yield from self._exchange(rank, what)
            case Collective():
                yield from _collective(rank, what, self.meetings[key])
            case Together() | Wait():
                pass

    def _exchange(self, rank: int, what: Exchange) -> Iterator[SegmentStep]:
        taken: dict[int, int] = defaultdict(int)
        for receiver, region in what.sends:
            assert what.value is not None
            ref = self.sent[what.tensor, what.tag, rank, receiver][taken[receiver]]
            taken[receiver] += 1
            cut = tuple((d, *ends) for d, ends in enumerate(_turned(region, what.order)))
            yield Piece(value=what.value, region=cut, output=ref[1])
        if what.output is None:
            return
        parts: list[tuple[Ref, Box]] = []
        for source, target in what.own:
            assert what.value is not None
            own = self._new(rank)
            yield Cut(value=what.value, output=own[1], region=_turned(source, what.order))
            parts.append((own, _turned(target, what.order)))
        arrived: dict[int, int] = defaultdict(int)
        for sender, region in what.receives:
            ref = self.sent[what.tensor, what.tag, sender, rank][arrived[sender]]
            arrived[sender] += 1
            parts.append((ref, _turned(region, what.order)))
        type = TensorType(_turned(what.type.shape, what.order), what.type.dtype)
        yield Assemble(parts=tuple(parts), type=type, output=what.output)


def _collective(rank: int, what: Collective, met: _Meeting) -> Iterator[SegmentStep]:
    dim = what.dim if what.order is None else what.order[what.dim]
    group = what.group
    terms = tuple(met.values[other] for other in group)
    if isinstance(what.kind, transfers.AllGather):
        yield Concat(parts=terms, dim=dim, output=what.output)
    elif met.pieces:
        bounds = [0, *accumulate(what.sizes)]
        for number, other in enumerate(group):
            output = met.pieces[rank, other][1]
            if what.sizes:
                region = ((dim, bounds[number], bounds[number + 1]),)
                yield Piece(value=what.value, region=region, output=output)
            else:
                yield Share(value=what.value, number=number, count=len(group), output=output)
        pieces = tuple(met.pieces[other, rank] for other in group)
        output = what.output if what.sizes else met.sums[rank][1]
        yield Reduce(terms=pieces, reducer=what.reducer, output=output)
        if not what.sizes:
            sums = tuple(met.sums[other] for other in group)
            yield Concat(parts=sums, dim=0, output=what.output, like=what.value)
    elif len(group) == 2 or rank == group[0]:
        yield Reduce(terms=terms, reducer=what.reducer, output=what.output)
    else:
        yield Fetch(source=met.outputs[group[0]], output=what.output)


def _with_keys(program: Program) -> Iterator[tuple[Instruction, Key]]:
    """Instructions, each sum on its own; the ranks of a collective find each other by its key."""
    times: dict[Key, int] = defaultdict(int)
    for instruction in program.instructions:
        for each in instruction.sums if isinstance(instruction, Together) else (instruction,):
            key: Key = ()
            if isinstance(each, Collective):
                kind = each.tensor, each.kind.name, each.group
                key = (*kind, times[kind])
                times[kind] += 1
            yield each, key


def _values(program: Program) -> Iterator[int]:
    yield from program.inputs.values()
    for instruction in program.instructions:
        yield from values_made(instruction)


def _turned(region: tuple[Any, ...], order: tuple[int, ...] | None) -> tuple[Any, ...]:
    """A region, or a shape, with its dims as the tensor has them and not as they lie in memory."""
    if order is None:
        return region
    return tuple(region[order.index(d)] for d in range(len(order)))


# -- segments --------------------------------------------------------------------------------------


def _segments(steps: Sequence[Steps], given: set[Ref], wanted: set[Ref]) -> Iterator[Segment]:
    """The segments, by level."""
    level_of = dict.fromkeys(given, 0)
    level: list[tuple[int, int, SegmentStep]] = []
    for rank, step in _in_order(steps, given):
        reached = [level_of[ref] + (ref[0] != rank) for ref in refs_read(step, rank)]
        own = max(reached, default=0)
        level_of.update(dict.fromkeys(refs_made(step, rank), own))
        level.append((rank, own, step))
    groups = _Groups(len(level))
    makers: dict[Ref, int] = {}
    readers: dict[Ref, list[int]] = defaultdict(list)
    for number, (rank, own, step) in enumerate(level):
        for ref in refs_read(step, rank):
            readers[ref].append(number)
            maker = makers.get(ref)
            if maker is not None and level[maker][:2] == (rank, own):
                groups.join(maker, number)
        makers.update(dict.fromkeys(refs_made(step, rank), number))
    members: dict[int, list[int]] = defaultdict(list)
    for number in range(len(level)):
        members[groups.find(number)].append(number)
    for numbers in sorted(members.values(), key=lambda own: (level[own[0]][1], own[0])):
        yield _segment([level[n] for n in numbers], set(numbers), readers, wanted)


def _segment(
    own: list[tuple[int, int, SegmentStep]],
    numbers: set[int],
    readers: dict[Ref, list[int]],
    wanted: set[Ref],
) -> Segment:
    rank, level, _ = own[0]
    steps = tuple(step for _, _, step in own)
    made = dict.fromkeys(ref for step in steps for ref in refs_made(step, rank))
    read = dict.fromkeys(ref for step in steps for ref in refs_read(step, rank))
    return Segment(
        rank=rank,
        level=level,
        steps=steps,
        reads=tuple(ref for ref in read if ref not in made),
        makes=tuple(
            ref for ref in made if ref in wanted or any(n not in numbers for n in readers[ref])
        ),
    )


def _in_order(steps: Sequence[Steps], given: set[Ref]) -> Iterator[tuple[int, SegmentStep]]:
    """All ranks' steps, each behind those that make what it reads."""
    known = set(given)
    waiting = [iter(own) for own in steps]
    first = [next(own, None) for own in waiting]
    while any(step is not None for step in first):
        moved = False
        for number, own in enumerate(waiting):
            while (step := first[number]) is not None and known.issuperset(
                refs_read(step[1], step[0])
            ):
                yield step
                known.update(refs_made(step[1], step[0]))
                first[number] = next(own, None)
                moved = True
        assert moved, "programs wait for each other"


class _Groups:
    """Numbers in groups that can be joined."""

    def __init__(self, count: int) -> None:
        self.above = list(range(count))

    def find(self, number: int) -> int:
        while self.above[number] != number:
            self.above[number] = self.above[self.above[number]]
            number = self.above[number]
        return number

    def join(self, a: int, b: int) -> None:
        first, second = sorted((self.find(a), self.find(b)))
        self.above[second] = first
