"""One rank's program as a memory problem: instructions with time, values with storage.

    operators     all instructions that compute or transfer; views are made anew where they are read
    storages      a value and its views; sizes rounded up to ALIGNMENT
    transfers     begin and end in one operator, and keep their order: whatever else is moved, this
                  rank meets the others in the order in which they meet it
    in place      the new value of a parameter is written over the old one by the instruction that
                  makes it, behind all readers of the old one; where that is impossible, a copy at
                  the end does it: the operator `copy:NAME`
    kept          the results of the step
    times         those of the instructions, and of copying what they make to its place

So ranks need not agree on their memory plans. A transfer is never made again; random operators may
be, since they draw each element by its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from graphwright.ir import Phase, TensorType
from graphwright.machine import PICOSECONDS, Cluster
from graphwright.memory.problems.graph import COPY, aligned, is_given
from graphwright.plans import (
    CATEGORIES,
    Call,
    Collective,
    Constant,
    Cut,
    Exchange,
    Instruction,
    MemoryProblem,
    Operator,
    Program,
    Storage,
    Together,
    Wait,
    values_made,
    values_read,
)
from graphwright.tasks import GraphFacts

_BEFORE_THE_END = "keep:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What an operator does: instructions of the program, on values in storages.

    `given` and `made` are values by number with the names of the storages that they are in. The
    last instruction is the operator's own, those before it make views. `tag` is that of a transfer.
    """

    instructions: tuple[Instruction, ...]
    given: Mapping[int, str]
    made: Mapping[int, str]
    tag: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramProblem:
    """The problem of a program, and what connects the two.

    `pieces` say what operators do, `results` how what the step returns is shown, `types` are those
    of the storages, `categories` what they are held for.
    """

    program: Program
    problem: MemoryProblem
    pieces: Mapping[str, Piece]
    results: Mapping[str, Piece]
    types: Mapping[str, TensorType]
    categories: Mapping[str, int]
    positions: Mapping[str, int]


def problem_of_program(
    program: Program, facts: GraphFacts, cluster: Cluster, times: Sequence[int]
) -> ProgramProblem:
    """The memory problem of a rank's program; `times` are the picoseconds of its instructions."""
    return _Builder(program, facts, cluster, times).build()


class _Builder:
    def __init__(
        self, program: Program, facts: GraphFacts, cluster: Cluster, times: Sequence[int]
    ) -> None:
        self.program, self.facts, self.cluster, self.times = program, facts, cluster, times
        self.types = program.types
        self.device = cluster.devices[program.rank]
        self.maker: dict[int, int] = {}
        self.views: dict[int, int] = {}
        """Values that are made anew, with what they show."""
        for at, instruction in enumerate(program.instructions):
            for value in values_made(instruction):
                self.maker[value] = at
            if isinstance(instruction, Call) and self._is_view(instruction):
                (shown,) = values_read(instruction)
                self.views.update(dict.fromkeys(instruction.outputs, shown))
        self.inputs = {value: name for name, value in program.inputs.items()}
        self.storage_of: dict[int, str] = {}
        self.operators: list[Operator] = []
        self.pieces: dict[str, Piece] = {}
        self.numbers: dict[str, int] = {}
        self.storage_types: dict[str, TensorType] = {}
        self.categories: dict[str, int] = {}
        self.positions: dict[str, int] = {}
        self.node = 0

    def build(self) -> ProgramProblem:
        program = self.program
        for name, value in program.inputs.items():
            self._add_storage(name, value, self.facts.category[name])
        in_place = self._find_in_place()
        for at, instruction in enumerate(program.instructions):
            made = values_made(instruction)
            if isinstance(instruction, Wait) or (made and made[0] in self.views):
                continue
            for output, value in enumerate(made):
                if value in in_place:
                    self.storage_of[value] = in_place[value]
                else:
                    self._add_storage(
                        self._name(instruction, output, value), value, self._category(instruction)
                    )
            self._add_instruction(at, instruction)
        results = self._end(in_place)
        kept = {name for piece in results.values() for name in piece.given.values()}
        problem = MemoryProblem(
            operators=tuple(self.operators),
            storages=tuple(self._storage(name, kept) for name in self.numbers),
            before=self._before(),
            graph_hash=program.digest,
        )
        return ProgramProblem(
            program=program,
            problem=problem,
            pieces=self.pieces,
            results=results,
            types=self.storage_types,
            categories=self.categories,
            positions=self.positions,
        )

    # -- values and storages ----------------------------------------------------------------------

    def _is_view(self, call: Call) -> bool:
        """Whether a call shows all of what it reads another way."""
        given = [operand for operand in call.inputs if operand is not None]
        is_whole = len(given) == 1 and given[0].region is None and not call.rows
        return is_whole and self.facts.is_view[call.number]

    def _root(self, value: int) -> int:
        while value in self.views:
            value = self.views[value]
        return value

    def _find_in_place(self) -> dict[int, str]:
        """New values that are written over the old ones: nobody who reads those comes later."""
        program = self.program
        last: dict[int, int] = {}
        for at, instruction in enumerate(program.instructions):
            for value in values_read(instruction):
                last[self._root(value)] = at
        news = list(program.updates.values())
        for value in (*news, *program.results.values()):
            if self._root(value) in self.inputs:  # read when the step ends
                last[self._root(value)] = len(program.instructions)
        in_place: dict[int, str] = {}
        for name, new in program.updates.items():
            old = program.inputs[name]
            made = self.maker.get(new)
            if made is None or new in self.views or news.count(new) > 1:
                continue
            if self.types[old] == self.types[new] and last.get(old, -1) <= made:
                in_place[new] = name
        return in_place

    def _name(self, instruction: Instruction, output: int, value: int) -> str:
        """A name for what an instruction makes: that of the tensor, where no other value has it."""
        match instruction:
            case Call():
                name = self.facts.graph.nodes[instruction.number].outputs[output]
            case Constant():
                name = instruction.node
            case Exchange():
                name = instruction.tensor
            case Collective():
                name = instruction.tensor
            case Together():
                name = instruction.sums[output].tensor
            case _:
                name = "part"
        return name if name not in self.numbers else f"{name}@{value}"

    def _category(self, instruction: Instruction) -> int:
        if isinstance(instruction, Call):
            return self.facts.category[self.facts.graph.nodes[instruction.number].outputs[0]]
        word = "activation" if isinstance(instruction, Constant | Cut) else "communication"
        return CATEGORIES.index(word)

    def _add_storage(self, name: str, value: int, category: int) -> None:
        self.numbers[name] = len(self.numbers)
        self.storage_of[value], self.storage_types[name] = name, self.types[value]
        self.categories[name] = category

    def _storage(self, name: str, kept: set[str]) -> Storage:
        rank, exact = self.program.rank, self.storage_types[name].nbytes
        to_host = self.cluster.to_host(rank, both=True)
        from_host = self.cluster.from_host(rank, both=True)
        is_input = name in self.program.inputs
        lasts = is_input and not is_given(name, self.facts.graph.tensors[name].role)
        return Storage(
            name=name,
            nbytes=aligned(exact),
            out_time=round((to_host.latency + exact / to_host.bandwidth) * PICOSECONDS),
            in_time=round((from_host.latency + exact / from_host.bandwidth) * PICOSECONDS),
            begins_on_host=is_input,
            ends="home" if lasts else "kept" if name in kept else "free",
        )

    # -- operators --------------------------------------------------------------------------------

    def _add_instruction(self, at: int, instruction: Instruction) -> None:
        made = {value: self.storage_of[value] for value in values_made(instruction)}
        tag = transfer_tag(instruction)
        updates = False
        if isinstance(instruction, Call):
            self.node = instruction.number
            updates = self.facts.graph.nodes[self.node].phase is Phase.UPDATE
        self._add(
            _describe(instruction),
            self._piece(instruction, made, tag),
            self._duration(at, instruction),
            over=self._over(instruction, made),
            repeats=tag is None,
            updates=updates,
        )

    def _piece(
        self, instruction: Instruction, made: Mapping[int, str], tag: int | None = None
    ) -> Piece:
        read = dict.fromkeys(values_read(instruction))
        shown = self._show(read)
        given = {self._root(v): self.storage_of[self._root(v)] for v in read}
        return Piece(instructions=(*shown, instruction), given=given, made=made, tag=tag)

    def _show(self, values: Mapping[int, None]) -> list[Instruction]:
        """The instructions that make views anew, each behind those that it reads from."""
        needed: set[int] = set()
        for value in values:
            while value in self.views:
                needed.add(self.maker[value])
                value = self.views[value]
        return [self.program.instructions[at] for at in sorted(needed)]

    def _add(
        self, name: str, piece: Piece, duration: int, *,
        over: int | None = None, repeats: bool = False, updates: bool = False,
    ) -> None:  # fmt: skip
        if name in self.pieces:
            name = f"{name} ({len(self.operators)})"
        made = list(piece.made.values())
        writes = [s for s in made if s in self.program.inputs]
        reads = dict.fromkeys((*piece.given.values(), *writes))
        self.pieces[name], self.positions[name] = piece, self.node
        self.operators.append(
            Operator(
                name=name,
                reads=tuple(self.numbers[s] for s in reads),
                makes=tuple(self.numbers[s] for s in made if s not in self.program.inputs),
                writes=tuple(self.numbers[s] for s in writes),
                duration=duration,
                over=over,
                repeats=repeats and not writes,
                updates=updates,
            )
        )

    def _over(self, instruction: Instruction, made: Mapping[int, str]) -> int | None:
        """The operand whose place the first output may take."""
        names = list(made.values())
        if len(names) != 1 or names[0] in self.program.inputs:
            return None
        if isinstance(instruction, Call) and instruction.by_element:
            operands = [instruction.inputs[arg] for arg in instruction.alike]
            values = [o.value for o in operands if o is not None and o.region is None]
        elif isinstance(instruction, Collective) and instruction.kind.in_place:
            values = [instruction.value]
        else:
            return None
        for value in values:
            own = value not in self.views and value not in self.inputs
            if own and self.storage_of[value] not in self.program.inputs:
                return self.numbers[self.storage_of[value]]
        return None

    def _duration(self, at: int, instruction: Instruction) -> int:
        copies = isinstance(instruction, Cut) or (
            isinstance(instruction, Exchange) and transfer_tag(instruction) is None
        )
        if isinstance(instruction, Call):
            copies = self.facts.is_view[instruction.number]
        placed = sum(self._copy_time(self.types[v]) for v in values_made(instruction))
        return placed if copies else self.times[at] + placed

    def _copy_time(self, type: TensorType) -> int:
        device = self.device
        return round((device.launch + 2 * type.nbytes / device.bandwidth) * PICOSECONDS)

    # -- the end ----------------------------------------------------------------------------------

    def _end(self, in_place: Mapping[int, str]) -> dict[str, Piece]:
        """Copies that bring new values home, and how results are shown."""
        program = self.program
        self.node = max(0, len(self.facts.graph.nodes) - 1)
        late = {n: v for n, v in program.updates.items() if v not in in_place}
        late = {n: v for n, v in late.items() if v != program.inputs[n]}
        aside: dict[int, str] = {}
        results: dict[str, Piece] = {}
        for value in (*late.values(), *program.results.values()):
            root = self._root(value)
            if self.inputs.get(root) in program.updates and root not in aside:
                aside[root] = self._set_aside(root)
        for name, value in late.items():
            self._add(
                f"{COPY}{name}",
                self._shown(value, aside, {value: name}),
                self._copy_time(self.types[value]),
                updates=True,
            )
        for name, value in program.results.items():
            results[name] = self._shown(value, aside, {})
        return results

    def _set_aside(self, root: int) -> str:
        """Copy what lasts before it is written over: its old value is needed at the end."""
        name = f"{_BEFORE_THE_END}{self.inputs[root]}"
        self.numbers[name] = len(self.numbers)
        self.storage_types[name] = self.types[root]
        self.categories[name] = CATEGORIES.index("activation")
        piece = Piece(instructions=(), given={root: self.inputs[root]}, made={root: name})
        self._add(name, piece, self._copy_time(self.types[root]))
        return name

    def _shown(self, value: int, aside: Mapping[int, str], made: Mapping[int, str]) -> Piece:
        root = self._root(value)
        given = {root: aside.get(root, self.storage_of[root])}
        return Piece(
            instructions=tuple(self._show({value: None})), given=given, made=made or {value: ""}
        )

    # -- order ------------------------------------------------------------------------------------

    def _before(self) -> tuple[tuple[int, int], ...]:
        """Who reads comes before who writes, who reads that behind; transfers keep their order."""
        pairs: list[tuple[int, int]] = []
        readers: dict[int, list[int]] = {}
        writer: dict[int, int] = {}
        for i, op in enumerate(self.operators):
            for s in op.reads:
                if s in writer:
                    pairs.append((writer[s], i))
                if s not in op.writes:
                    readers.setdefault(s, []).append(i)
            for s in op.writes:
                pairs += [(r, i) for r in readers.get(s, ())]
                writer[s] = i
        meetings = [
            i for i, op in enumerate(self.operators) if self.pieces[op.name].tag is not None
        ]
        return (*pairs, *pairwise(meetings))


def transfer_tag(instruction: Instruction) -> int | None:
    """The tag of what several ranks do together, None for what a rank does alone."""
    match instruction:
        case Collective():
            return instruction.tag
        case Together():
            return instruction.sums[0].tag
        case Exchange() if instruction.sends or instruction.receives:
            return instruction.tag
        case _:
            return None


def _describe(instruction: Instruction) -> str:
    """What an operator is called."""
    match instruction:
        case Call() | Constant():
            return instruction.node
        case Collective():
            return f"{instruction.kind} {instruction.tensor}"
        case Exchange():
            return f"exchange {instruction.tensor}"
        case Together():
            return f"all_reduce {instruction.sums[0].tensor} and {len(instruction.sums) - 1} others"
        case Cut():
            return f"cut %{instruction.output}"
        case Wait():
            return str(instruction)
