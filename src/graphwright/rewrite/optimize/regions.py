"""Cut a large graph at narrow places, so that each piece can be searched by itself.

    x -[ conv relu conv ]- y -[ conv relu conv ]- z        one tensor between pieces: narrow

A place between two nodes is as wide as the number of tensors that cross it, weights aside. A piece
ends where a single tensor crosses, so that equal blocks of a model are equal pieces; where there is
no such place nearby, where two cross, else at the narrowest. Rules do not look across the ends of a
piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphwright.ir import Graph, Node

LEAST, NEAR, MOST = 8, 100, 400
"""Nodes of a piece: at least, how far to look for a single tensor, and at most."""


@dataclass(frozen=True, slots=True)
class Region:
    """Consecutive nodes, and which of their results are read behind them."""

    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]


def cut(graph: Graph, fixed: frozenset[str], nodes: Sequence[Node] | None = None) -> list[Region]:
    """The nodes, some or all, that do not depend on weights alone, in pieces."""
    among = graph.nodes if nodes is None else nodes
    nodes = [n for n in among if not fixed.issuperset(n.outputs)]
    widths = _widths(nodes, graph, fixed)
    regions, start = [], 0
    while start < len(nodes):
        end = _end(widths, start, len(nodes))
        regions.append(_region(nodes, start, end, graph))
        start = end
    return regions


def _widths(nodes: Sequence[Node], graph: Graph, fixed: frozenset[str]) -> list[int]:
    """How many tensors cross the place before each node, and the end."""
    made = {name: 0 for name in graph.inputs if name not in fixed}
    last: dict[str, int] = {}
    for place, node in enumerate(nodes):
        made.update(dict.fromkeys(node.outputs, place + 1))
        last.update({name: place for name in node.inputs if name is not None})
    last.update(dict.fromkeys(graph.outputs, len(nodes)))
    steps = [0] * (len(nodes) + 2)
    for name, first in made.items():
        if name in last:
            steps[first] += 1
            steps[last[name] + 1] -= 1
    widths, width = [], 0
    for step in steps[:-1]:
        width += step
        widths.append(width)
    return widths


def _end(widths: Sequence[int], start: int, last: int) -> int:
    for width, reach in ((1, NEAR), (2, NEAR), (1, MOST), (2, MOST)):
        for place in range(start + LEAST, min(start + reach, last) + 1):
            if widths[place] <= width:
                return place
    if last - start <= NEAR:
        return last
    return min(range(start + NEAR // 4, start + NEAR), key=lambda p: (widths[p], -p))


def _region(nodes: Sequence[Node], start: int, end: int, graph: Graph) -> Region:
    here = tuple(nodes[start:end])
    inside, returned = {node.name for node in here}, {*graph.outputs}
    outputs = [
        name
        for node in here
        for name in node.outputs
        if name in returned or any(c.name not in inside for c in graph.consumers(name))
    ]
    return Region(here, tuple(outputs))
