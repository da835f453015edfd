"""Random array programs in the space and with the costs of Spartan's thesis (sections 2.3.1, 2.3.3 and 2.3.4).

A node group for each array and operator, with two tiling nodes, rows and columns, and, if duplicates are allowed, a
third: duplicated on all workers, which takes the array's size once and serves whoever reads it. One-dimensional
arrays can be tiled but one way.

    newarray   nothing
    map        tiled as its first input: the size of every other input that is not tiled so. With one input it shares
               that input's node group.
    fold       nothing if its input is tiled along the axis, else the input's size; so does a scan
    dot        one of two forms, by the shape (Figure 2.5): with rows <= columns of the first operand it joins columns
               with rows, and every operand that is not tiled so takes its size; else rows with the whole of the
               second, which takes its size. Both forms take the size of the output for its update.
    swapaxis   nothing; the tiling follows from the input's

Where the thesis leaves a choice, Spartan's published code decides: node groups of maps, and equal connectivity goes by
what is at stake. Sizes are bytes. The best tiling is that of the package's exact search for additive problems.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphwright.ir import Graph, Node
from graphwright.partition.estimate import Problem, Table
from graphwright.partition.search import least
from graphwright.partition.tiling import NodeGroups, find_tilings

Floats = NDArray[np.float64]
ROWS, COLUMNS, DUPLICATED = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThesisCosts:
    """What smart tiling and the best tiling take, in bytes."""

    greedy: float
    best: float

    @property
    def equal(self) -> bool:
        return self.greedy <= self.best * (1 + 1e-9)


def in_thesis_space(graph: Graph, *, duplicates: bool = True) -> ThesisCosts:
    """A random program's costs there."""
    groups = _groups(graph, duplicates)
    problem = _problem(groups)
    best = least(problem)
    assert best.exact
    greedy, _ = problem.evaluate(find_tilings(groups), {})
    return ThesisCosts(greedy=float(greedy), best=float(best.time))


def _groups(graph: Graph, duplicates: bool) -> NodeGroups:
    of: dict[str, int] = {}
    own: list[Floats] = []
    edges: list[dict[int, Floats]] = []
    views: list[bool] = []

    def add(name: str, made: float, duplicated: float, *, view: bool = False) -> int:
        of[name] = len(own)
        costs = np.full(_count(graph, name, duplicates), made)
        costs[DUPLICATED:] += duplicated
        own.append(costs)
        edges.append({})
        views.append(view)
        return of[name]

    for name in graph.inputs:
        add(name, 0.0, graph.tensors[name].type.nbytes)
    for node in graph.nodes:
        (made,) = node.outputs
        size = float(graph.tensors[made].type.nbytes)
        match node.op:
            case "aten.exp":
                of[made] = of[node.inputs[0]]
                continue
            case "aten.mm":
                b = add(made, size, size)  # the update
            case "aten.cumsum":
                b = add(made, 0.0, size)
            case _:
                b = add(made, 0.0, 0.0, view=node.op == "aten.permute")
        for argument, name in enumerate(node.inputs):
            a = of[name]
            edge = graph.tensors[name].type.nbytes * _share(
                graph, node, argument, (len(own[a]), len(own[b]))
            )
            edges[a][b] = edges[a].get(b, 0.0) + edge
            edges[b][a] = edges[a][b].T
    return NodeGroups(
        own=own, edges=edges, views=views, held=[np.zeros(len(costs)) for costs in own]
    )


def _count(graph: Graph, name: str, duplicates: bool) -> int:
    return (2 + duplicates) if graph.tensors[name].type.rank == 2 else 1


def _share(graph: Graph, node: Node, argument: int, shape: tuple[int, int]) -> Floats:
    """What share of an argument is read from others: [its tiling, the operator's]."""
    has, makes = np.indices(shape)
    match node.op:
        case "aten.permute":
            turned = np.array([COLUMNS, ROWS, DUPLICATED])
            return np.where(turned[has] == makes, 0.0, np.inf)
        case "aten.sum.dim_IntList" | "aten.cumsum":
            axis = node.attrs["dim"][0] if node.op.startswith("aten.sum") else node.attrs["dim"]
            lies = (has == axis) | (has == DUPLICATED)
        case "aten.mm":
            rows, columns = graph.tensors[node.inputs[0]].type.shape
            joined = ((COLUMNS, ROWS) if rows <= columns else (ROWS, None))[argument]
            lies = (has == joined) | (has == DUPLICATED)
        case _:
            if argument == 0:
                return np.where(has == makes, 0.0, np.inf)
            lies = (has == makes) | (has == DUPLICATED)
    return np.where(lies, 0.0, 1.0)


def _problem(groups: NodeGroups) -> Problem:
    def table(costs: Floats) -> Table:
        return Table(costs[..., None], np.zeros((*costs.shape, 1)))

    return Problem(
        tuple(table(costs) for costs in groups.own),
        {
            (a, b): table(edge)
            for a, others in enumerate(groups.edges)
            for b, edge in others.items()
            if a < b
        },
    )
