"""Why a plan does what it does: the program in groups of operators, each with its split, its costs and the next best split.

    h.0 to 11   x12
      attention.query  matmul +13    batch in 2 over nodes; columns in 8 within a node    0.8 ms   12 MB moved   40 MB held
                                     next best: batch in 16, +1.2 ms

Costs are those of the tasks that would run: `compute_time` of the busiest device, `moves` what is brought to the group's operators, `memory` what
the group's device holds because of it: parameters and their state, or what the forward pass keeps for the backward pass. The next best is
by the additive estimate, everything else being as it is (`partition.why`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from graphwright.errors import PlanMismatch
from graphwright.ir import Graph, TensorType, format_bytes
from graphwright.machine import PICOSECONDS
from graphwright.partition import Coarse, Group, Reason, Weight, coarsen, evaluate, typical
from graphwright.partition import explain as find_reasons
from graphwright.plans import Plan, Sharding, check_plan, local_bytes
from graphwright.report.explain.module_paths import follows, split_path
from graphwright.report.explain.split_words import Words
from graphwright.simulate import CostModel
from graphwright.tasks import Copy, Costs, Expansion, Movement


@dataclass(frozen=True, slots=True)
class Moved:
    """A tensor that is brought somewhere: by which collectives, how many bytes in all, and seconds if nothing is in the way."""

    tensor: str
    kind: str
    nbytes: int
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Operators that are split together; the first named is the one whose split gives the words.

    `instead` is the next best split, and `extra_time` and `extra_memory` what the step would take more with it; None where there is none.
    """

    label: str
    op: str
    kind: str
    num_nodes: int
    strategy: str
    words: str
    compute_time: float
    moves: tuple[Moved, ...]
    memory: int
    nodes: tuple[int, ...]
    instead: str | None = None
    extra_time: float = 0.0
    extra_memory: float = 0.0

    @property
    def nbytes(self) -> int:
        return sum(move.nbytes for move in self.moves)

    @property
    def moving_time(self) -> float:
        return sum(move.time for move in self.moves)


@dataclass(frozen=True, slots=True)
class Block:
    """The lines of a module, or of `count` modules that follow one another and are alike."""

    path: str
    last: str
    count: int
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        """The modules in a few letters: `layers.1 to 10`."""
        if self.count == 1:
            return self.path or "the step itself"
        return f"{self.path} to {self.last.rpartition('.')[2]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A plan, explained; `notes` say what could not be."""

    plan: Plan
    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = ()


def explain_plan(graph: Graph, plan: Plan, costs: Costs | None = None) -> Explanation:
    """Explain a plan of a graph; one without figures is simulated for them."""
    check_plan(plan, graph)
    costs = CostModel() if costs is None else costs
    if plan.figures is None:
        plan = evaluate(graph, plan, costs)
    coarse = coarsen(graph)
    expansion = Expansion(coarse.site, plan, costs)
    notes = []
    reasons: Sequence[Reason] | None = None
    try:
        reasons = find_reasons(coarse, plan, costs)
    except PlanMismatch as error:
        notes.append(f"no next best is known: {error}")
    free = coarse.group_of.count(-1)
    if free:
        notes.append(f"{free} operators on single numbers are left out; every device does them")
    lines = Lines(coarse, plan, expansion, reasons)
    every = [lines.line(g) for g in range(len(coarse.groups))]
    return Explanation(plan=plan, blocks=find_blocks(coarse, every), notes=tuple(notes))


class Lines:
    """One line for every group of a graph."""

    def __init__(
        self, coarse: Coarse, plan: Plan, expansion: Expansion, reasons: Sequence[Reason] | None
    ) -> None:
        self.coarse, self.plan, self.expansion, self.reasons = coarse, plan, expansion, reasons
        self.words = Words(coarse.site, plan.cluster)

    def line(self, g: int) -> Line:
        """The line of a group."""
        group, site = self.coarse.groups[g], self.coarse.site
        i = typical(group.slots[group.lead])
        node = site.graph.nodes[i]
        strategy = self.plan.strategy(node.name)
        line = Line(
            label="",
            op=node.op,
            kind=str(group.weight),
            num_nodes=len(group.nodes),
            strategy=str(strategy),
            words=self.words.strategy(i, strategy) + self._elsewhere(group) + self._home(group, i),
            compute_time=self._compute_time(group),
            moves=tuple(move for n in group.nodes for move in self.moves.get(n, ())),
            memory=self._residents(group) + self._held.get(g, 0),
            nodes=group.nodes,
        )
        reason = None if self.reasons is None else self.reasons[g]
        if reason is None or reason.instead is None:
            return line
        return replace(
            line,
            instead=self._other(i, strategy, reason),
            extra_time=reason.extra_time,
            extra_memory=reason.extra_memory,
        )

    def _other(self, i: int, strategy: object, reason: Reason) -> str:
        assert reason.instead is not None
        if reason.instead == strategy:
            if reason.group.weight is Weight.UPDATE:
                return "the same, stored otherwise"
            return "the same, others of the group otherwise"
        return self.words.strategy(i, reason.instead)

    def _elsewhere(self, group: Group) -> str:
        nodes = self.coarse.site.graph.nodes
        meshes = {self.plan.strategy(nodes[n].name).mesh for n in group.nodes}
        return ", others elsewhere" if len(meshes) > 1 else ""

    def _home(self, group: Group, i: int) -> str:
        """Where a parameter lives between steps, if that is not where its update is computed."""
        if group.weight is not Weight.UPDATE or not group.inputs:
            return ""
        name = group.inputs[0]
        home = self.expansion.source(name)
        if home == self.expansion.placed[i].outputs[0]:
            return ""
        return f"; stored {self.words.sharding(home, self.coarse.site.graph.tensors[name].type)}"

    def _compute_time(self, group: Group) -> float:
        """Seconds of the busiest device."""
        busy = np.zeros(self.plan.cluster.num_devices)
        for n in group.nodes:
            busy[list(self.expansion.placed[n].mesh.devices)] += self.expansion.duration(n)
        return float(busy.max(initial=0.0)) / PICOSECONDS

    def _residents(self, group: Group) -> int:
        tensors = self.coarse.site.graph.tensors
        return sum(_most(self.expansion.source(name), tensors[name].type) for name in group.inputs)

    @cached_property
    def moves(self) -> dict[int, list[Moved]]:
        """What is brought to each node, by its number; new values that are put where the old ones were go with their makers."""
        expansion, site = self.expansion, self.coarse.site
        found: dict[int, list[Moved]] = {}
        for name in site.graph.tensors:
            moves = expansion.moves(name)
            if not moves:
                continue
            first = expansion.needs(name)
            for key, move in moves.items():
                total = int(move.movement.nbytes.sum())
                reader = first[key]
                if reader is None:
                    reader = site.producer[name][0] if name in site.producer else 0
                if total:
                    kinds = [hop.kind for hop in move.movement.hops if hop.kind != "slice"]
                    moved = Moved(name, " + ".join(kinds), total, _seconds(move.movement))
                    found.setdefault(reader, []).append(moved)
        return found

    @cached_property
    def _held(self) -> dict[int, int]:
        """Bytes that the forward pass keeps for later nodes, by the group that makes or first needs them."""
        expansion, site = self.expansion, self.coarse.site
        held: dict[Copy, int] = {}
        for name, readers in site.readers.items():
            for reader, argument in readers:
                if not site.late[reader]:
                    continue
                needed = expansion.placed[reader].inputs[argument]
                assert needed is not None
                copy = expansion.reading(name, needed, reader)
                if copy.turn:
                    copy = Copy(copy.tensor, expansion.start(copy), 0)
                owner = self._owner(copy)
                if owner is not None:
                    root = site.root[copy.tensor]
                    if copy.sharding == expansion.source(copy.tensor):
                        copy = Copy(root, expansion.source(root), 0)
                    held[copy] = owner
        found: dict[int, int] = {}
        for copy, owner in held.items():
            type = site.graph.tensors[copy.tensor].type
            found[owner] = found.get(owner, 0) + _most(copy.sharding, type)
        return found

    def _owner(self, copy: Copy) -> int | None:
        """The group that a copy of the forward pass belongs to, None for inputs at home and for what is made later."""
        site = self.coarse.site
        if copy.sharding == self.expansion.source(copy.tensor):
            made = site.producer.get(site.root[copy.tensor])
            node = None if made is None else made[0]
        else:
            needs = self.expansion.needs(copy.tensor)
            node = needs.get((copy.sharding, 0))
        if node is None or site.late[node] or self.coarse.group_of[node] < 0:
            return None
        return self.coarse.group_of[node]


def _most(sharding: Sharding, type: TensorType) -> int:
    """The bytes of the largest part."""
    return int(local_bytes(sharding, type).max(initial=0))


def _seconds(movement: Movement) -> float:
    """How long a movement takes by itself: the longest chain of its transfers."""
    ends = movement.duration.copy()
    for before, after in sorted(zip(*map(np.ndarray.tolist, movement.edges), strict=True)):
        ends[after] = max(ends[after], ends[before] + movement.duration[after])
    return float(ends.max(initial=0)) / PICOSECONDS


# -- blocks -------------------------------------------------------------------------------------------


def find_blocks(coarse: Coarse, lines: Sequence[Line]) -> tuple[Block, ...]:
    """The lines of the groups by module, updates that are alike in one line, and modules that are alike in one block."""
    found: dict[str, list[Line]] = {}
    for group, line in zip(coarse.groups, lines, strict=True):
        path, label = _place(coarse, group)
        found.setdefault(path, []).append(replace(line, label=label))
    blocks: list[Block] = []
    for path, own in found.items():
        block = Block(path, path, 1, _merged(own))
        before = blocks[-1] if blocks else None
        if before is not None and follows(before.last, path) and _alike(before, block):
            blocks[-1] = replace(before, last=path, count=before.count + 1)
        else:
            blocks.append(block)
    return tuple(blocks)


def _place(coarse: Coarse, group: Group) -> tuple[str, str]:
    """The path of a group's block, and what follows that path: the rest of the module's, or the parameter's."""
    node = coarse.site.graph.nodes[group.slots[group.lead][0]]
    path, name = split_path(node.module)
    if group.weight is Weight.UPDATE and node.parameter is not None:
        return path, node.parameter.removeprefix(f"{path}.")
    return path, name


def _merged(lines: list[Line]) -> tuple[Line, ...]:
    """Updates that are split alike in one line, behind all others."""
    kept: list[Line] = []
    updates: dict[tuple[str, str | None], list[Line]] = {}
    for line in lines:
        if line.kind == Weight.UPDATE:
            updates.setdefault((line.words, line.instead), []).append(line)
        else:
            kept.append(line)
    return (*kept, *(_sum(some) for some in updates.values()))


def _sum(lines: list[Line]) -> Line:
    if len(lines) == 1:
        return lines[0]
    names = ", ".join(line.label for line in lines)
    return replace(
        lines[0],
        label=names if len(lines) < 3 else f"{len(lines)} parameters",
        num_nodes=sum(line.num_nodes for line in lines),
        compute_time=sum(line.compute_time for line in lines),
        moves=tuple(move for line in lines for move in line.moves),
        memory=sum(line.memory for line in lines),
        nodes=tuple(n for line in lines for n in line.nodes),
        extra_time=sum(line.extra_time for line in lines),
        extra_memory=sum(line.extra_memory for line in lines),
    )


def _alike(a: Block, b: Block) -> bool:
    return [_key(line) for line in a.lines] == [_key(line) for line in b.lines]


def _key(line: Line) -> tuple[object, ...]:
    figures = line.compute_time, line.nbytes, line.memory, line.extra_time
    shown = (f"{figure:.3g}" for figure in figures)
    return line.label, line.op, line.num_nodes, line.words, line.instead, *shown


def describe_moves(line: Line) -> str:
    """What moves, by kind: `all gather 12 MB, all reduce 3 MB`."""
    kinds: dict[str, int] = {}
    for move in line.moves:
        kinds[move.kind] = kinds.get(move.kind, 0) + move.nbytes
    return ", ".join(
        f"{kind.replace('_', ' ')} {format_bytes(n)}"
        for kind, n in sorted(kinds.items(), key=lambda item: -item[1])
    )
