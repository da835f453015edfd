"""Orders in which to visit a graph: breadth first, depth first, topological.

Each function returns a tuple of tensors, the nodes or edges to visit together, for `prop_nodes` and
`prop_edges`. `reverse` goes against the edges. Neighbours come in the order of the edges' ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphwright.gnn.graph import DGLGraph, row_entries
from graphwright.gnn.storage import CyclicGraph, Relation, number_in_order
from graphwright.gnn.transforms import require_homogeneous
from graphwright.tasks import compiled

FORWARD, REVERSE, NONTREE = range(3)


def bfs_nodes_generator(graph: DGLGraph, source: Any, reverse: bool = False) -> tuple[Tensor, ...]:
    """The nodes that are 0, 1, 2, ... edges away from the nearest of some sources."""
    return tuple(nodes for nodes, _ in _breadth_first(graph, source, reverse))


def bfs_edges_generator(graph: DGLGraph, source: Any, reverse: bool = False) -> tuple[Tensor, ...]:
    """The edges by which a breadth-first search first reaches nodes 1, 2, ... edges away."""
    return tuple(edges for _, edges in _breadth_first(graph, source, reverse) if len(edges))


def _breadth_first(graph: DGLGraph, source: Any, reverse: bool) -> Iterator[tuple[Tensor, Tensor]]:
    relation = _relation(graph, reverse)
    csr = relation.csr
    numbers = csr.numbered()
    nodes = number_in_order(graph.node_ids(source, what="source"))[0]
    edges = nodes[:0]
    seen = torch.zeros(relation.num_src, dtype=torch.bool, device=graph.device)
    while len(nodes):
        yield nodes, edges
        seen[nodes.long()] = True
        entries, _ = row_entries(csr.indptr, nodes)
        entries = entries[~seen[csr.indices[entries].long()]]
        nodes, number = number_in_order(csr.indices[entries])
        places = torch.arange(len(entries), device=graph.device)
        first = torch.full((len(nodes),), len(entries), device=graph.device)
        first.scatter_reduce_(0, number.long(), places, "amin")
        edges = numbers[entries[first]]


def topological_nodes_generator(graph: DGLGraph, reverse: bool = False) -> tuple[Tensor, ...]:
    """The nodes whose edges all come from earlier ones, again and again; a cycle is an error."""
    relation = _relation(graph, reverse)
    csr = relation.csr
    waiting = relation.in_degrees().clone()
    nodes = (waiting == 0).nonzero().reshape(-1).to(graph.idtype)
    found, count = [], 0
    while len(nodes):
        found.append(nodes)
        count += len(nodes)
        entries, _ = row_entries(csr.indptr, nodes)
        ends = csr.indices[entries]
        waiting.index_add_(0, ends.long(), torch.full_like(ends, -1))
        ready = ends[waiting[ends.long()] == 0]
        nodes = number_in_order(ready.flip(0))[0].flip(0)  # in the order of their last edge
    if count < relation.num_src:
        cycle = _cycle(relation, waiting)
        shown = " -> ".join(map(str, cycle[:8])) + (" -> ..." if len(cycle) > 8 else "")
        raise CyclicGraph(
            "Error in topological traversal: loop detected in the given graph, of "
            f"{len(cycle) - 1} edges: {shown}. {relation.num_src - count} of {relation.num_src} "
            "nodes cannot be put in order."
        )
    return tuple(found)


def _cycle(relation: Relation, waiting: Tensor) -> list[int]:
    """Nodes along a cycle, the first again at the end: each node that waits has one before it."""
    csc, left = relation.csc, waiting > 0
    node = int(left.nonzero()[0])
    path, place = [node], {node: 0}
    while True:
        before = csc.indices[int(csc.indptr[node]) : int(csc.indptr[node + 1])]
        node = int(before[left[before.long()]][0])
        path.append(node)
        if node in place:
            return path[place[node] :][::-1]
        place[node] = len(path) - 1


def dfs_edges_generator(graph: DGLGraph, source: Any, reverse: bool = False) -> tuple[Tensor, ...]:
    """The edges by which a depth-first search first reaches each node, one at a time.

    From several sources the searches are apart; their first edges come together, then the next.
    """
    edges: tuple[Tensor, ...] = dfs_labeled_edges_generator(
        graph, source, reverse, return_labels=False
    )
    return edges


def dfs_labeled_edges_generator(
    graph: DGLGraph,
    source: Any,
    reverse: bool = False,
    has_reverse_edge: bool = False,
    has_nontree_edge: bool = False,
    return_labels: bool = True,
) -> Any:
    """The edges of a depth-first search, and a label of each: forward 0, reverse 1, non-tree 2.

    A forward edge reaches a new node, and is a reverse edge when the search returns along it; a
    non-tree edge leads to a node that was reached before. The last two are there if asked for.
    """
    relation = _relation(graph, reverse)
    csr = relation.csr.convert(device="cpu")
    table = csr.indptr.numpy(), csr.indices.numpy(), csr.numbered().numpy()
    walks = []
    for start in graph.node_ids(source, what="source").tolist():
        steps = np.empty((2 * relation.num_edges + 1, 2), np.int64)
        count = _depth_first(table, start, has_reverse_edge, has_nontree_edge, steps)
        walks.append(torch.from_numpy(steps[:count].copy()))
    longest = max((len(walk) for walk in walks), default=0)
    merged = [
        torch.stack([walk[step] for walk in walks if step < len(walk)]) for step in range(longest)
    ]
    edges, labels = (
        tuple(step[:, column].to(graph.device, graph.idtype) for step in merged)
        for column in range(2)
    )
    return (edges, labels) if return_labels else edges


@compiled
def _depth_first(table: Any, start: Any, returning: Any, nontree: Any, steps: Any) -> Any:
    indptr, indices, numbers = table
    rows = len(indptr) - 1
    seen = np.zeros(rows, np.bool_)
    following = np.empty(rows, np.int64)
    stack = np.empty((rows + 1, 2), np.int64)
    stack[0, 0], stack[0, 1] = start, -1
    seen[start], following[start], depth, count = True, indptr[start], 0, 0
    while depth >= 0:
        node = stack[depth, 0]
        if following[node] == indptr[node + 1]:
            if returning and depth > 0:
                steps[count, 0], steps[count, 1] = stack[depth, 1], 1
                count += 1
            depth -= 1
            continue
        entry = following[node]
        following[node] += 1
        end = indices[entry]
        if not seen[end]:
            seen[end], following[end] = True, indptr[end]
            depth += 1
            stack[depth, 0], stack[depth, 1] = end, numbers[entry]
            steps[count, 0], steps[count, 1] = numbers[entry], 0
            count += 1
        elif nontree:
            steps[count, 0], steps[count, 1] = numbers[entry], 2
            count += 1
    return count


def _relation(graph: DGLGraph, reverse: bool) -> Relation:
    require_homogeneous(graph, "a traversal")
    return graph.relation().reverse if reverse else graph.relation()
