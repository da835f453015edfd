"""Assign nodes to parts of about one size with few edges between them, in the manner of METIS.

Karypis and Kumar (1998), in short:

    coarsen   merge each node with the neighbour it has the heaviest edge to, again and again
    divide    the coarsest graph, by growing parts from node to neighbour, several times
    refine    from coarse to fine, move nodes to the part that most of their edges lead to, while
              no part grows beyond its limit

Edges count both ways. The result depends on the seed alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.storage import DGLError
from graphwright.gnn.transforms import adjacency, to_homogeneous
from graphwright.tasks import compiled

_SLACK, _TRIES, _PASSES = 1.03, 8, 12


def metis_partition_assignment(
    g: DGLGraph,
    k: int,
    balance_ntypes: Any = None,
    balance_edges: bool = False,
    mode: str = "k-way",
    objtype: str = "cut",
    seed: int = 0,
) -> Tensor:
    """The part of each node, of `k`; parts are balanced by nodes, or by nodes and edges together.

    The nodes of a graph with types are numbered type after type.
    """
    if balance_ntypes is not None:
        raise DGLError(
            "balance_ntypes is not supported; parts are balanced over all types together"
        )
    if k < 1:
        raise DGLError(f"the number of parts has to be at least 1. Got {k}.")
    flat: DGLGraph = g if g.is_homogeneous else to_homogeneous(g, store_type=False)
    matrix = adjacency(flat).astype(np.float64)
    matrix = (matrix + matrix.T).tocsr()
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    sizes = np.ones(flat.num_nodes())
    if balance_edges:
        sizes += flat.in_degrees().cpu().numpy()
    return torch.from_numpy(_multilevel(matrix, sizes, k, np.random.default_rng(seed)))


def edge_cut(g: DGLGraph, parts: Tensor) -> int:
    """The number of edges between different parts."""
    flat: DGLGraph = g if g.is_homogeneous else to_homogeneous(g, store_type=False)
    src, dst = flat.relation().coo
    return int((parts[src.long().cpu()] != parts[dst.long().cpu()]).sum())


def _multilevel(matrix: Any, sizes: Any, k: int, rng: np.random.Generator) -> Any:
    from scipy.sparse import csr_matrix

    graphs: list[tuple[Any, Any, Any]] = [(matrix, sizes, None)]
    while graphs[-1][0].shape[0] > max(20 * k, 64):
        fine, weights, _ = graphs[-1]
        name = np.full(fine.shape[0], -1, np.int64)
        order = rng.permutation(fine.shape[0])
        limit = 1.5 * sizes.sum() / max(20 * k, 64)
        count = _match(fine.indptr, fine.indices, fine.data, weights, order, limit, name)
        if count > 0.9 * fine.shape[0]:
            break
        places = (np.ones(len(name)), (name, np.arange(len(name))))
        merge = csr_matrix(places, shape=(count, len(name)))
        coarse = (merge @ fine @ merge.T).tocsr()
        coarse.setdiag(0)
        coarse.eliminate_zeros()
        graphs.append((coarse, np.asarray(merge @ weights), name))
    coarse, weights, _ = graphs[-1]
    best, least = np.zeros(len(weights), np.int64), np.inf
    for _ in range(_TRIES if k > 1 else 0):
        parts = _grown(coarse, weights, k, rng)
        _improve(coarse, weights, k, parts, rng)
        cut = coarse.data[
            parts[np.repeat(np.arange(len(parts)), np.diff(coarse.indptr))] != parts[coarse.indices]
        ].sum()
        if cut < least:
            best, least = parts, cut
    for (_, _, name), (fine, weights, _) in zip(graphs[:0:-1], graphs[-2::-1], strict=True):
        best = best[name]
        _improve(fine, weights, k, best, rng)
    return best


def _grown(matrix: Any, sizes: Any, k: int, rng: np.random.Generator) -> Any:
    """Parts cut from a breadth-first order that begins anywhere."""
    from scipy.sparse.csgraph import breadth_first_order

    left = np.diff(matrix.indptr) > 0
    order = [rng.permutation(np.nonzero(~left)[0])]
    for start in rng.permutation(len(sizes)):
        if left[start]:
            found = breadth_first_order(matrix, start, directed=False, return_predecessors=False)
            found = found[left[found]]
            left[found] = False
            order.append(found)
    sequence = np.concatenate(order[::-1])
    reached = np.cumsum(sizes[sequence]) - sizes[sequence] / 2
    parts = np.empty(len(sizes), np.int64)
    parts[sequence] = np.minimum(reached * k / max(sizes.sum(), 1), k - 1).astype(np.int64)
    return parts


def _improve(matrix: Any, sizes: Any, k: int, parts: Any, rng: np.random.Generator) -> None:
    limit = max(_SLACK * sizes.sum() / k, sizes.sum() / k + (sizes.max() if len(sizes) else 0) / 2)
    loads = np.bincount(parts, sizes, k)
    for _ in range(_PASSES):
        order = rng.permutation(len(sizes))
        if not _refine(
            matrix.indptr, matrix.indices, matrix.data, sizes, order, limit, loads, parts
        ):
            break


@compiled
def _match(
    indptr: Any, indices: Any, weights: Any, sizes: Any, order: Any, limit: Any, name: Any
) -> Any:
    """Give each node and the one it is merged with one name; how many names there are.

    A node whose neighbours are all taken is merged with another such node of the same neighbour:
    leaves of a hub, or nodes without edges, would otherwise remain.
    """
    count = 0
    waiting = np.full(len(name) + 1, -1, np.int64)
    for node in order:
        if name[node] >= 0:
            continue
        best, heaviest, hub, most = node, 0.0, len(name), 0.0
        for entry in range(indptr[node], indptr[node + 1]):
            other = indices[entry]
            if weights[entry] > most:
                hub, most = other, weights[entry]
            fits = name[other] < 0 and other != node and sizes[node] + sizes[other] <= limit
            if fits and weights[entry] > heaviest:
                best, heaviest = other, weights[entry]
        if best == node:
            partner = waiting[hub]
            if partner >= 0 and sizes[node] + sizes[partner] <= limit:
                name[node], waiting[hub] = name[partner], -1
                continue
            waiting[hub] = node
        name[node] = name[best] = count
        count += 1
    return count


@compiled
def _refine(
    indptr: Any, indices: Any, weights: Any, sizes: Any, order: Any, limit: Any, loads: Any,
    parts: Any,
) -> Any:  # fmt: skip
    """Move nodes once through; how many were moved."""
    linked, moved = np.zeros(len(loads)), 0
    for node in order:
        own = parts[node]
        for entry in range(indptr[node], indptr[node + 1]):
            linked[parts[indices[entry]]] += weights[entry]
        crowded = loads[own] > limit
        best, gain = own, 0.0
        for part in range(len(loads)):
            if part == own or loads[part] + sizes[node] > limit:
                continue
            more = linked[part] - linked[own]
            lighter = loads[part] + sizes[node] < loads[own]
            balances = best == own and (crowded or (more == 0 and lighter))
            if more > gain or balances:
                best, gain = part, more
        if best != own:
            parts[node] = best
            loads[own] -= sizes[node]
            loads[best] += sizes[node]
            moved += 1
        for entry in range(indptr[node], indptr[node + 1]):
            linked[parts[indices[entry]]] = 0.0
        linked[own] = 0.0
    return moved
