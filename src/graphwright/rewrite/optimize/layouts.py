"""Layouts of images in memory: in the order of their dims, or with their channels last.

A call runs in one layout: it reads its images so, and makes its own so if its kernel keeps it. What
is made in one layout and read in the other is copied, once for all that read it. The cheapest
layouts

    minimise   sum of price(call, its layout) + sum of copy(tensor), where one that reads it differs

are a minimum cut. Calls on the source's side keep the order of dims, those on the sink's have
channels last:

    source -> call    what it costs with channels last       call -> sink     in the order of dims
    maker -> a -> readers          a copy for those with channels last, the maker's end costs it
    readers -> b -> maker          a copy for those in the order of dims
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from graphwright.describe import Types, types_of
from graphwright.ir import Attr, Graph, Node, TensorType

Price = Callable[[str, Mapping[str, Attr], Types], float]
"""Seconds that an ATen call takes: its name, attributes and types."""

IN_ORDER, LAST = -1, -2
"""In the place of a call: what has its layout anyhow."""
WHOLE, ENDLESS = 1 << 29, (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class ChannelsLast:
    """What calls do with images whose channels are last in memory.

    `price` is that of a call which reads them so, `keeps` tells whether its result is so as well,
    and `copy` is the price of bringing a tensor from one layout to the other.
    """

    price: Price
    keeps: Callable[[str, Mapping[str, Attr], Types], bool]
    copy: Callable[[TensorType], float]


def is_image(type: TensorType) -> bool:
    """Whether the two layouts of a tensor differ."""
    if len(type.shape) != 4:
        return False
    _, channels, height, width = type.shape
    return channels > 1 and height * width > 1


@dataclass(slots=True)
class Placement:
    """The choice of layouts: calls with two prices, and which tensors they pass to each other."""

    prices: list[tuple[float, float]] = field(default_factory=list)
    tensors: dict[object, tuple[int, float, set[int]]] = field(default_factory=dict)

    def call(self, in_order: float, last: float) -> int:
        """A call, by what it costs in each layout; returns its number."""
        self.prices.append((in_order, last))
        return len(self.prices) - 1

    def read(self, tensor: object, maker: int, reader: int, copy: float) -> None:
        """A call reads a tensor of another one; either may be IN_ORDER or LAST."""
        self.tensors.setdefault(tensor, (maker, copy, set()))[2].add(reader)

    def solve(self) -> tuple[float, list[bool]]:
        """The least cost, and which calls have channels last for it."""
        least = sum(map(min, self.prices))
        for label in (True, False):
            labels = [label] * len(self.prices)
            if self._cost(labels) <= least * (1 + 1e-9):
                return least, labels
        labels = self._cut()
        return self._cost(labels), labels

    def _cost(self, labels: Sequence[bool]) -> float:
        total = sum(pair[label] for pair, label in zip(self.prices, labels, strict=True))
        known = [*labels, True, False]  # LAST is -2, IN_ORDER -1
        for maker, copy, readers in self.tensors.values():
            if any(known[reader] != known[maker] for reader in readers):
                total += copy
        return total

    def _cut(self) -> list[bool]:
        source = len(self.prices)
        sink, size = source + 1, source + 2
        capacity: dict[tuple[int, int], float] = {}

        def edge(a: int, b: int, price: float) -> None:
            if a != b:
                capacity[a, b] = capacity.get((a, b), 0.0) + price

        for number, (in_order, last) in enumerate(self.prices):
            least = min(in_order, last)
            edge(source, number, last - least)
            edge(number, sink, in_order - least)
        ends = {IN_ORDER: source, LAST: sink}
        for maker, copy, readers in self.tensors.values():
            made, (a, b) = ends.get(maker, maker), (size, size + 1)
            size += 2
            edge(made, a, copy)
            edge(b, made, copy)
            for reader in readers:
                edge(a, ends.get(reader, reader), np.inf)
                edge(ends.get(reader, reader), b, np.inf)
        finite = sum(price for price in capacity.values() if price < np.inf)
        scale = WHOLE / (finite or 1.0)
        whole = [ENDLESS if p == np.inf else round(p * scale) for p in capacity.values()]
        at, to = (np.array(each, dtype=np.int32) for each in zip(*capacity, strict=True))
        limits = np.array(whole, dtype=np.int32)
        matrix = coo_array((limits, (at, to)), shape=(size, size)).tocsr()
        left = csr_array(matrix - maximum_flow(matrix, source, sink).flow)
        left.eliminate_zeros()
        near = set(breadth_first_order(left, source, return_predecessors=False).tolist())
        return [number not in near for number in range(source)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layouts:
    """The cheapest layouts of a graph: its cost with them, the nodes that read and make images with
    channels last, by name, and the tensors that are made so.
    """

    cost: float
    nodes: frozenset[str]
    made: frozenset[str]


def layouts_of(
    graph: Graph, price: Price, last: ChannelsLast, fixed: frozenset[str] = frozenset()
) -> Layouts:
    """The cheapest layouts of all that does not depend on weights alone.

    Inputs and outputs of the graph are in the order of their dims.
    """
    placement, cost = Placement(), 0.0
    maker = {n: IN_ORDER for n in graph.inputs if n not in fixed}
    calls: dict[int, tuple[Node, bool]] = {}
    for node in graph.nodes:
        if fixed.issuperset(node.outputs):
            continue
        types = types_of(graph, node)
        given = [n for n in node.inputs if n is not None and n in maker]
        read = [n for n in given if is_image(graph.tensors[n].type)]
        seconds = price(node.op, node.attrs, types)
        number = IN_ORDER
        if not read:
            cost += seconds
        else:
            own = placement.call(seconds, last.price(node.op, node.attrs, types))
            keeps = last.keeps(node.op, node.attrs, types)
            calls[own] = node, keeps
            for name in read:
                placement.read(name, maker[name], own, last.copy(graph.tensors[name].type))
            number = own if keeps else IN_ORDER
        maker.update(dict.fromkeys(node.outputs, number))
    for name in graph.outputs:
        if name in maker and is_image(graph.tensors[name].type):
            placement.read(name, maker[name], IN_ORDER, last.copy(graph.tensors[name].type))
    least, labels = placement.solve()
    chosen = [calls[number] for number, label in enumerate(labels) if label]
    return Layouts(
        cost=cost + least,
        nodes=frozenset(node.name for node, _ in chosen),
        made=frozenset(name for node, keeps in chosen if keeps for name in node.outputs),
    )
