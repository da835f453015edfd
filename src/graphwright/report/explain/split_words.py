"""Strategies in words, without names of indices: what is cut, in how many parts, between whom.

    aten.mm with i i | j j j      batch in 4 over nodes, columns in 8 within a node
    aten.mm with k k k            rows in 8 (sums)
    aten.add with i0 i0 -         batch in 4, 2 copies
    aten.mm with nothing split    every device does all of it

"rows" and "columns" are those of the weight, as it is multiplied; "(sums)" are terms that are
added up when their sum is needed.
"""

from __future__ import annotations

from itertools import groupby
from math import prod

from graphwright.describe import Combine, Concat, Soap, Split, node_splits, sample_dims, soap
from graphwright.ir import Node, Phase, Role, TensorType
from graphwright.machine import Cluster
from graphwright.plans import Along, Choice, Keep, Replicate, Sharding, Strategy
from graphwright.tasks import GraphFacts

_IMAGE = ("batch", "channels", "height", "width")
_SEQUENCE = {2: ("rows", "features"), 3: ("rows", "positions", "features")}
_HEADS = ("rows", "heads", "positions", "features")
_ON_HEADS = ("attention", "matmul", "bmm", "softmax")
_KERNEL = ("output channels", "input channels", "kernel height", "kernel width")
_MATRIX = ("rows", "columns")


class Words:
    """Strategies of one graph's nodes on one cluster, in words; each call is analysed once."""

    def __init__(self, facts: GraphFacts, cluster: Cluster) -> None:
        self.facts, self.cluster = facts, cluster
        self._samples = sample_dims(facts.graph)
        self._images = any("convolution" in node.op for node in facts.graph.nodes)
        self._known: dict[tuple[int, str], str] = {}

    def strategy(self, i: int, strategy: Strategy) -> str:
        """What a strategy does with node number i."""
        if strategy.mesh is None:
            levels = [axis.level for axis in self.cluster.axes]
            sizes = [axis.size for axis in self.cluster.axes]
            return self._levels(i, strategy.choices, sizes, levels) or "one device does it"
        shape = strategy.mesh.shape
        there = _devices(strategy.mesh.devices)
        inside = self._levels(i, strategy.choices, shape, [0] * len(shape))
        return f"{inside} on {there}" if inside else f"all of it on {there}"

    def sharding(self, sharding: Sharding, type: TensorType) -> str:
        """Where a parameter is: `in 8 by rows`, or `whole` on every device."""
        ways = [(dim, sharding.ways(dim)) for dim in range(type.rank)]
        return (
            " and ".join(f"in {n} by {_parameter(type.rank, d)}" for d, n in ways if n > 1)
            or "whole"
        )

    def _levels(
        self,
        i: int,
        choices: tuple[Choice, ...],
        sizes: tuple[int, ...] | list[int],
        levels: list[int],
    ) -> str:
        if not choices:
            return ""
        if len(set(choices)) == 1:
            if isinstance(choices[0], Replicate):
                return "every device does all of it"
            return self._factor(i, choices[0], prod(sizes))
        used = sorted(set(levels))
        parts = []
        for level, axes in groupby(range(len(choices)), key=lambda a: levels[a]):
            ways: dict[Choice, int] = {}
            for axis in axes:
                ways[choices[axis]] = ways.get(choices[axis], 1) * sizes[axis]
            order = sorted(ways.items(), key=lambda item: isinstance(item[0], Replicate))
            factors = ", ".join(self._factor(i, choice, count) for choice, count in order)
            parts.append(f"{factors}{self._place(level, used)}")
        return "; ".join(parts)

    def _place(self, level: int, used: list[int]) -> str:
        """Between which devices: nothing where there is one level only."""
        if len(used) == 1:
            return ""
        if level == used[0]:
            return f" over {_plural(self.cluster.levels[level].name)}"
        outer = self.cluster.levels[used[used.index(level) - 1]].name
        return f" within a {outer}"

    def _factor(self, i: int, choice: Choice, count: int) -> str:
        match choice:
            case Along(index):
                word = self.index(i, index)
                name, _, sums = word.partition(" (")
                return f"{name} in {count}" + (f" ({sums}" if sums else "")
            case Keep(_):
                return f"{count} terms passed on"
            case _:
                return f"{count} copies"

    def index(self, i: int, index: str) -> str:
        """The word for an index of a node."""
        key = (i, index)
        if key not in self._known:
            node = self.facts.graph.nodes[i]
            split = next((s for s in node_splits(self.facts.graph, node) if s.index == index), None)
            self._known[key] = index if split is None else self._word(i, node, split)
        return self._known[key]

    def _word(self, i: int, node: Node, split: Split) -> str:
        reducer = next((j.reducer for j in split.joins if isinstance(j, Combine)), None)
        suffix = "" if reducer is None else " (sums)" if reducer == "sum" else f" ({reducer})"
        return self._cut(i, node, split, reducer is not None) + suffix

    def _cut(self, i: int, node: Node, split: Split, reduces: bool) -> str:
        made = next(((o, j.dim) for o, j in enumerate(split.joins) if isinstance(j, Concat)), None)
        if node.phase is Phase.UPDATE and made is not None:
            return _parameter(self.facts.types[i].outputs[made[0]].rank, made[1])
        if soap(split, node, self.facts.graph, self._samples) is Soap.SAMPLE:
            return "batch"
        weights = [(a, d) for a, d in sorted(split.cut_dims) if self._is_weight(node.inputs[a])]
        if weights and "convolution" in node.op:
            return _named(_KERNEL, weights[0][1])
        if weights:
            return "rows" if reduces else "columns"
        if made is not None:
            return self._dim(node.op, self.facts.types[i].outputs[made[0]].rank, made[1])
        for argument, dim in sorted(split.cut_dims):
            type = self.facts.types[i].inputs[argument]
            if type is not None:
                return self._dim(node.op, type.rank, dim)
        return split.index

    def _dim(self, op: str, rank: int, dim: int) -> str:
        """The word for a dim of data: of images, of heads, of sequences."""
        if rank > 3 and self._images:
            return _named(_IMAGE, dim)
        if rank == 4 and any(word in op for word in _ON_HEADS):
            return _named(_HEADS, dim)
        return _named(_SEQUENCE.get(rank, ()), dim)

    def _is_weight(self, name: str | None) -> bool:
        """Whether a tensor is a parameter of two dims or more, or a view of one."""
        if name is None:
            return False
        tensor = self.facts.graph.tensors[self.facts.root[name]]
        return tensor.role is Role.PARAMETER and tensor.type.rank >= 2


def _parameter(rank: int, dim: int) -> str:
    return _named(_MATRIX if rank == 2 else _KERNEL if rank > 2 else ("elements",), dim)


def _named(names: tuple[str, ...], dim: int) -> str:
    return names[dim] if dim < len(names) else f"dim {dim}"


def _plural(name: str) -> str:
    return f"{name}es" if name.endswith("s") else f"{name}s"


def _devices(devices: tuple[int, ...]) -> str:
    if len(devices) == 1:
        return f"device {devices[0]}"
    if devices == tuple(range(devices[0], devices[-1] + 1)):
        return f"devices {devices[0]} to {devices[-1]}"
    return f"devices {', '.join(map(str, devices))}"
