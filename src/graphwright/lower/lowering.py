"""From a graph under a plan to the program of each rank: what was simulated, as instructions.

    computation   a call on the rank's part, with the regions that the description derives
    move          hop by hop the rank's share of a collective or an exchange (`moves`)
    copy          a tensor in a sharding: made by a computation, or at the end of a move; slices on
                  the way are cut when they are asked for

The blocks are those that were simulated (`tasks.blocks`), and their order is that of the simulated
step (`order`), the same for all ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache, singledispatchmethod
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from graphwright.describe import Types, is_random
from graphwright.frozen import FrozenDict
from graphwright.ir import CONSTANT_OP, Attr, Graph, TensorType, collection_paused
from graphwright.lower.buckets import fill_buckets, hop_of
from graphwright.lower.moves import changed_axes, group_of, laid_out, lower_hop, lower_slice
from graphwright.lower.order import Action, find_waits
from graphwright.lower.waiting import LEAST_SLACK, SLACK, UnderWay
from graphwright.machine import Cluster, Device
from graphwright.plans import (
    Box,
    Call,
    Collective,
    Constant,
    Instruction,
    Operand,
    Plan,
    Program,
    Rows,
    Sharding,
    Together,
    Wait,
    as_box,
    boxes,
    local_bytes,
    transfers,
    values_read,
)
from graphwright.rewrite import rejoin
from graphwright.simulate import CostModel, memory, schedule
from graphwright.tasks import (
    Block,
    Computation,
    Copy,
    Costs,
    Expansion,
    GraphFacts,
    Hop,
    Move,
    Order,
    Templates,
    Traffic,
    assemble_blocks,
    blocks,
    staged_bytes,
)

PATIENCE = 4.0
"""Results of what moves are taken to arrive so many times later than predicted: whoever waits for
one in vain holds up all that comes after it."""

_MOST_MOVEMENTS = 1 << 16


def lower(
    graph: Graph, plan: Plan, *, costs: Costs | None = None, optimizer: bool = True
) -> Lowered:
    """Everything that the programs of all ranks have in common; `program(rank)` is one of them.

    Without `costs` the order goes by formulas alone, so that it is the same in every process.
    Without `optimizer` updates stay in parts, which need less memory at once (`rewrite.rejoin`).
    """
    with collection_paused():
        known = (
            _by_formulas(plan.cluster)
            if costs is None
            else Templates(plan.cluster, _Patient(costs))
        )
        lowered = Lowered(graph, plan, known, optimizer)
        known.forget_beyond(_MOST_MOVEMENTS)
        return lowered


@lru_cache(maxsize=8)
def _by_formulas(cluster: Cluster) -> Templates:
    """What formulas say of a cluster, for all plans that are lowered one after the other."""
    return Templates(cluster, _Patient(CostModel(measured=False)))


class _Patient:
    """Costs by which everything that moves takes longer."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs

    def compute(self, op: str, attrs: Mapping[str, Attr], types: Types, device: Device) -> float:
        return self.costs.compute(op, attrs, types, device)

    def communicate(self, traffic: Traffic) -> float:
        return PATIENCE * self.costs.communicate(traffic)


class Lowered:
    """A graph under a plan, in the order in which it runs.

    `numbers` are those of nodes where nothing is put together: a draw has the same under each plan.
    """

    def __init__(self, graph: Graph, plan: Plan, known: Templates, optimizer: bool = True) -> None:
        self.numbers = {node.name: number for number, node in enumerate(graph.nodes)}
        graph, plan = rejoin(graph, plan, optimizer=optimizer)
        self.graph, self.plan = graph, plan
        self.expansion = Expansion(GraphFacts(graph), plan, known.costs, known)
        self.blocks = blocks(self.expansion)
        tasks = assemble_blocks(self.blocks)
        times = schedule(tasks)
        self.slack = max(SLACK * float(memory(tasks, times).peak.max()), LEAST_SLACK)
        waits = find_waits(self.blocks, tasks, times, self.slack)
        joined = fill_buckets(self.expansion, waits)
        order = joined.order()
        self.actions = [joined.actions[a] for a in order]
        self.begins, self.ends = joined.begins[order].tolist(), joined.ends[order].tolist()

    def program(self, rank: int) -> Program:
        """What one rank does."""
        with collection_paused():
            return Lowering(self, rank).run()

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """All groups of ranks that gather or reduce something together, of more than one."""
        groups: set[tuple[int, ...]] = set()
        seen: set[object] = set()
        for action in self.actions:
            hop = hop_of(action)
            if hop is not None and isinstance(hop.kind, transfers.CollectiveKind):
                mesh, axes = hop.source.mesh, changed_axes(hop)
                if (mesh, axes) not in seen:
                    seen.add((mesh, axes))
                    groups |= {group_of(mesh, axes, rank) for rank in mesh.devices}
        return tuple(sorted(group for group in groups if len(group) > 1))

    @cached_property
    def shardings(self) -> dict[str, Sharding]:
        """Where every input lives between steps, and where every result is."""
        shardings = {name: self.expansion.source(name) for name in self.graph.inputs}
        for name in sorted(self.expansion.facts.results):
            shardings[name] = self.expansion.result(name)
        return shardings

    @cached_property
    def digest(self) -> str:
        """A fingerprint of the graph and of everything that is done, in its order."""
        digest = blake2b(self.graph.hash.encode(), digest_size=16)
        for action in self.actions:
            name = action.block.name
            words: object = name
            if isinstance(name, Copy):
                words = name.tensor, str(name.sharding), action.stage
            digest.update(repr(words).encode())
        return digest.hexdigest()


class Lowering:
    """One rank's walk through all actions; `act` has a case for each kind of block."""

    def __init__(self, lowered: Lowered, rank: int) -> None:
        self.lowered, self.rank, self.x = lowered, rank, lowered.expansion
        self.graph, self.facts = lowered.graph, lowered.expansion.facts
        self.instructions: list[Instruction] = []
        self.types: list[TensorType] = []
        self.copies: dict[Copy, int] = {}
        self.hops: dict[tuple[Copy, int], int] = {}
        self.shown: dict[tuple[str, Copy], int] = {}
        self.inputs: dict[str, int] = {}
        self.homes: dict[str, Box] = {}
        self.under_way = UnderWay(lowered.slack)

    def run(self) -> Program:
        for name in self.graph.inputs:
            home = self.x.source(name)
            if self.is_in(home):
                value = self.new_value(self._part_type(name, home))
                self.copies[Copy(name, home, 0)] = self.inputs[name] = value
                self.homes[name] = self._box(name, home)
        for number, action in enumerate(self.lowered.actions):
            self.act(action.block, action, number)
        updates = {
            old: self.value(Copy(new, self.x.source(old), 0))
            for old, new in self.graph.updates.items()
            if self.is_in(self.x.source(old))
        }
        shardings = self.lowered.shardings
        results = {
            name: self.value(Copy(name, shardings[name], 0))
            for name in sorted(self.facts.results)
            if self.is_in(shardings[name])
        }
        return Program(
            rank=self.rank,
            inputs=self.inputs,
            homes=self.homes,
            instructions=tuple(self.instructions),
            updates=updates,
            results=results,
            shardings=shardings,
            groups=self.lowered.groups,
            digest=self.lowered.digest,
            types=FrozenDict(dict(enumerate(self.types))),
        )

    @singledispatchmethod
    def act(self, block: Block, action: Action, number: int) -> None:
        """Emit what this rank does in an action: a case for each kind of block."""
        raise TypeError(f"no instructions are known for {block}")

    @act.register
    def _(self, block: Computation, action: Action, number: int) -> None:
        if self.rank in block.placed.mesh.devices:
            self.wait(number)
            self._compute(block)

    @act.register
    def _(self, block: Move, action: Action, number: int) -> None:
        self.wait(number)
        start = len(self.instructions)
        for each in (*action.before, action):
            assert isinstance(each.block, Move)
            self._hop(each.block, each.stage, number)
        if action.before:
            self._go_together(start)

    def wait(self, number: int) -> None:
        """Wait for what should have ended when an action begins."""
        for late in self.under_way.overdue(self.lowered.begins[number]):
            self.emit(Wait(begun=late))

    # -- nodes ------------------------------------------------------------------------------------

    def _compute(self, block: Computation) -> None:
        node = self.graph.nodes[block.node]
        values = [
            None if name is None or copy is None else self._show(name, copy)
            for name, copy in zip(node.inputs, block.arguments, strict=True)
        ]
        made = zip(node.outputs, block.placed.outputs, self._call(block.node, values), strict=True)
        for name, sharding, value in made:
            self.copies[Copy(name, sharding, 0)] = value

    def _call(self, i: int, values: list[int | None]) -> tuple[int, ...]:
        """Emit a node's call on this rank's part."""
        node, placed = self.graph.nodes[i], self.x.placed[i]
        types = self.facts.types[i]
        if node.op == CONSTANT_OP:
            constant = self.new_value(types.outputs[0])
            self.emit(
                Constant(
                    node=node.name,
                    value=node.attrs["value"],
                    type=types.outputs[0],
                    output=constant,
                )
            )
            return (constant,)
        tiling, part = placed.tiling, int(placed.part_of[placed.mesh.devices.index(self.rank)])
        call = tiling.classes[tiling.class_of[part]]
        outputs = tuple(map(self.new_value, call.types.outputs))
        operands: list[Operand | None] = []
        for arg, value in enumerate(values):
            regions, name = tiling.inputs[arg], node.inputs[arg]
            if value is None or regions is None or name is None:
                operands.append(None)
                continue
            have = np.array(self._box(name, self._needed(i, arg)), dtype=np.int64).reshape(-1, 2)
            region = as_box(regions[part] - have[:, :1])
            whole = tuple((0, int(b - a)) for a, b in have)
            fills = tuple(tiling.fills.get((arg, dim)) for dim in range(len(region)))
            cut = region != whole
            operands.append(
                Operand(value=value, region=region if cut else None, fills=fills if cut else ())
            )
        rows = tuple(
            Rows(
                index=mask.index, dims=mask.dims, scattered=mask.scattered,
                low=int(bounds[part, 0]), end=int(bounds[part, 1]), size=int(bounds.max()),
            )
            for mask, bounds in zip(tiling.masks, tiling.bounds, strict=True)
            if mask is not None
        )  # fmt: skip
        made = call.types.outputs[0]
        self.emit(
            Call(
                node=node.name,
                op=node.op,
                attrs=call.attrs,
                inputs=tuple(operands),
                outputs=outputs,
                rows=rows,
                number=i,
                draw=self.lowered.numbers.get(node.name),
                shape=types.outputs[0].shape,
                box=as_box(tiling.outputs[0][part]),
                is_random=is_random(self.graph, node),
                alike=tuple(a for a, t in enumerate(call.types.inputs) if t == made),
                by_element=self.facts.writes_over[i],
            )
        )
        return outputs

    def _show(self, name: str, copy: Copy) -> int:
        """The value of a tensor; of a view perhaps made anew from a copy of what it shows."""
        if copy.tensor == name:
            return self.value(copy)
        value = self.shown.get((name, copy))
        if value is None:
            view, output = self.facts.producer[name]
            viewed, arg = self.facts.viewed(view)
            values: list[int | None] = [None] * len(self.graph.nodes[view].inputs)
            values[arg] = self._show(viewed, copy)
            value = self.shown[name, copy] = self._call(view, values)[output]
        return value

    # -- hops -------------------------------------------------------------------------------------

    def _hop(self, move: Move, k: int, number: int) -> None:
        hop = move.movement.hops[k]
        gives, gets = self.is_in(hop.source), self.is_in(hop.target)
        if not gives and not gets:
            return
        value = self._on_way(move, k) if gives else None
        output = self.new_value(self._part_type(move.tensor, hop.target)) if gets else None
        type = self.graph.tensors[move.tensor].type
        on = self.lowered.plan.cluster
        order = self.facts.order.get(move.tensor)
        what = lower_hop(hop, move.tensor, type, on, self.rank, value, output, number)
        self.emit(laid_out(what, order))
        if not hop.kind.in_place:
            ends = self.lowered.ends[number]
            self.under_way.begin(
                len(self.instructions) - 1, output, self._held(hop, type, order), ends
            )
        if output is not None:
            self.hops[move.name, k] = output

    def _go_together(self, start: int) -> None:
        """Put the sums among the last instructions into one, behind what was cut for them."""
        latest = self.instructions[start:]
        sums = tuple(i for i in latest if isinstance(i, Collective))
        others = [i for i in latest if not isinstance(i, Collective)]
        self.instructions[start:] = [*others, *([Together(sums=sums)] if sums else [])]

    def _on_way(self, move: Move, k: int) -> int:
        """The value before hop k of a move; after the last one for k beyond."""
        if k == 0:
            return self.value(move.source)
        copy, hop = move.name, move.movement.hops[k - 1]
        value = self.hops.get((copy, k - 1))
        if value is None:
            assert hop.first == hop.end, f"{move.tensor}: {hop.kind} comes too late"
            value = self.hops[copy, k - 1] = self._local_hop(move, k - 1)
        return value

    def _local_hop(self, move: Move, k: int) -> int:
        """A hop in which nobody lacks anything.

        Who has nothing of the tensor needs nothing of it either.
        """
        hop, type = move.movement.hops[k], self.graph.tensors[move.tensor].type
        value = self._on_way(move, k) if self.is_in(hop.source) else None
        result = self.new_value(self._part_type(move.tensor, hop.target))
        if value is not None:
            self.emit(lower_slice(hop, type, self.rank, value, result))
        else:
            on = self.lowered.plan.cluster
            self.emit(lower_hop(hop, move.tensor, type, on, self.rank, None, result, tag=0))
        return result

    def value(self, copy: Copy) -> int:
        """The value that this rank has of a copy."""
        value = self.copies.get(copy)
        if value is None:
            move = self.lowered.blocks.maker(copy)
            assert isinstance(move, Move), f"{copy} comes too late"
            value = self.copies[copy] = self._on_way(move, len(move.movement.hops))
        return value

    # -- places -----------------------------------------------------------------------------------

    def _needed(self, i: int, arg: int) -> Sharding:
        needed = self.x.placed[i].inputs[arg]
        assert needed is not None
        return needed

    def is_in(self, sharding: Sharding) -> bool:
        """Whether this rank has a part under a sharding."""
        return self.rank in sharding.mesh.devices

    def _box(self, name: str, sharding: Sharding) -> Box:
        place = sharding.mesh.devices.index(self.rank)
        return as_box(boxes(sharding, self.graph.tensors[name].type.shape)[place])

    def _part_type(self, name: str, sharding: Sharding) -> TensorType:
        """The type of this rank's part of a tensor."""
        shape = tuple(stop - start for start, stop in self._box(name, sharding))
        return TensorType(shape, self.graph.tensors[name].type.dtype)

    def _held(self, hop: Hop, type: TensorType, order: Order) -> int:
        """What is held until a transfer has ended, besides its result."""
        if isinstance(hop.kind, transfers.GroupKind):
            copies = self._part(
                staged_bytes(hop.kind, hop.source, hop.target, type, order), hop.source
            )
        else:
            copies = sum(self._part(local_bytes(s, type), s) for s in (hop.source, hop.target))
        return copies + self._part(local_bytes(hop.source, type), hop.source)

    def _part(self, numbers: NDArray[np.int64], sharding: Sharding) -> int:
        """This rank's among numbers of all devices in the order of a mesh; 0 if it has none."""
        devices = sharding.mesh.devices
        return int(numbers[devices.index(self.rank)]) if self.rank in devices else 0

    def emit(self, instruction: Instruction) -> None:
        """Write an instruction behind the others."""
        self.instructions.append(instruction)
        for value in values_read(instruction):
            self.under_way.read(value)

    def new_value(self, type: TensorType) -> int:
        """The number of a value that an instruction is about to make."""
        self.types.append(type)
        return len(self.types) - 1
