"""Graphs from formulas, the same for the same seed: for tests and benchmarks without a download.

erdos_renyi         every pair with the same probability
rmat                a skewed, web-like graph (Chakrabarti et al. 2004; Graph500's shares)
planted_partition   blocks of nodes with more edges within than between (Condon and Karp 2001)
barabasi_albert     new nodes prefer those with many edges: degrees follow a power law
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from graphwright.gnn.graph import DGLGraph, graph, heterograph
from graphwright.gnn.sampling import advance, next_seed, stream, uniform
from graphwright.gnn.storage import DGLError
from graphwright.tasks import compiled


def erdos_renyi(
    num_nodes: int, probability: float, *, seed: int = 0, directed: bool = True
) -> DGLGraph:
    """An edge from each node to each other with a probability; undirected edges go both ways."""
    _check(0 <= probability <= 1, f"probability has to be from 0 to 1. Got {probability}.")
    rng = np.random.default_rng(seed)
    total = num_nodes * (num_nodes - 1) // (1 if directed else 2)
    pairs = np.sort(_distinct(rng, total, int(rng.binomial(total, probability))))
    if directed:
        src, dst = np.divmod(pairs, max(num_nodes - 1, 1))
        return _graph(src, dst + (dst >= src), num_nodes)
    high, low = _below_diagonal(pairs)
    return _graph(np.concatenate([low, high]), np.concatenate([high, low]), num_nodes)


def _below_diagonal(pairs: Any) -> tuple[Any, Any]:
    """Row and column of entries that are numbered row by row below the diagonal."""
    row = ((1 + np.sqrt(1 + 8 * pairs.astype(np.float64))) / 2).astype(np.int64)
    row -= row * (row - 1) // 2 > pairs  # the root may have been rounded up
    row += (row + 1) * row // 2 <= pairs
    return row, pairs - row * (row - 1) // 2


def rmat(
    scale: int,
    num_edges: int,
    *,
    a: float = 0.57,
    b: float = 0.19,
    c: float = 0.19,
    seed: int = 0,
) -> DGLGraph:
    """2^scale nodes; each edge falls into a quarter of the matrix with shares a, b, c, the rest.

    There may be loops and parallel edges, as in Graph500; nodes are numbered in a random order.
    """
    _check(min(a, b, c, 1 - a - b - c) >= 0, f"shares {a}, {b}, {c} exceed 1 or are negative")
    rng = np.random.default_rng(seed)
    src, dst = np.zeros(num_edges, np.int64), np.zeros(num_edges, np.int64)
    for _ in range(scale):
        draw = rng.random(num_edges)
        src = 2 * src + (draw >= a + b)
        dst = 2 * dst + (((draw >= a) & (draw < a + b)) | (draw >= a + b + c))
    name = rng.permutation(1 << scale)
    return _graph(name[src], name[dst], 1 << scale)


def planted_partition(
    num_blocks: int, block_size: int, p_in: float, p_out: float, *, seed: int = 0
) -> DGLGraph:
    """Undirected edges, both ways, within blocks and between; `ndata["label"]` is the block."""
    for share in (p_in, p_out):
        _check(0 <= share <= 1, f"p_in and p_out have to be from 0 to 1. Got {share}.")
    rng = np.random.default_rng(seed)
    within = num_blocks * (block_size * (block_size - 1) // 2)
    block, pairs = np.divmod(
        _distinct(rng, within, int(rng.binomial(within, p_in))),
        max(block_size * (block_size - 1) // 2, 1),
    )
    row, column = _below_diagonal(pairs)
    ends = [(block * block_size + row, block * block_size + column)]
    between = num_blocks * (num_blocks - 1) // 2 * block_size**2
    block, pairs = np.divmod(
        _distinct(rng, between, int(rng.binomial(between, p_out))), block_size**2
    )
    high, low = _below_diagonal(block)
    row, column = np.divmod(pairs, block_size)
    ends.append((high * block_size + row, low * block_size + column))
    one, other = (np.concatenate(part) for part in zip(*ends, strict=True))
    made = _graph(
        np.concatenate([one, other]), np.concatenate([other, one]), num_blocks * block_size
    )
    made.ndata["label"] = torch.arange(num_blocks).repeat_interleave(block_size)
    return made


def barabasi_albert(num_nodes: int, num_edges_per_node: int, *, seed: int = 0) -> DGLGraph:
    """Each new node has edges, both ways, to distinct earlier ones, chosen by their degrees."""
    m = num_edges_per_node
    _check(1 <= m < num_nodes, f"num_edges_per_node has to be from 1 to {num_nodes - 1}. Got {m}.")
    ends = np.empty((m * (num_nodes - m), 2), np.int64)
    _attach(m, num_nodes, np.uint64(seed), ends)
    one, other = ends.T
    return _graph(np.concatenate([one, other]), np.concatenate([other, one]), num_nodes)


@compiled
def _attach(m: Any, num_nodes: Any, seed: Any, ends: Any) -> None:
    """The first new node has edges to all of the first m; others draw ends of earlier edges."""
    count, state = 0, stream(seed, 0)
    for node in range(m, num_nodes):
        known = 2 * count
        first = count
        for place in range(m):
            while True:
                if known == 0:
                    pick = place
                else:
                    state = advance(state)
                    slot = np.int64(uniform(state) * known)
                    pick = ends[slot // 2, slot % 2]
                new = True
                for earlier in range(first, count):
                    if ends[earlier, 1] == pick:
                        new = False
                if new:
                    break
            ends[count, 0], ends[count, 1] = node, pick
            count += 1


def rand_graph(
    num_nodes: int, num_edges: int, idtype: torch.dtype = torch.int64, device: Any = "cpu"
) -> DGLGraph:
    """A graph of distinct random pairs; `dgl.seed` makes it reproducible."""
    rng = np.random.default_rng(int(next_seed()))
    src, dst = np.divmod(_distinct(rng, num_nodes**2, num_edges), max(num_nodes, 1))
    return graph((src, dst), num_nodes=num_nodes, idtype=idtype, device=device)


def rand_bipartite(
    utype: str,
    etype: str,
    vtype: str,
    num_src_nodes: int,
    num_dst_nodes: int,
    num_edges: int,
    idtype: torch.dtype = torch.int64,
    device: Any = "cpu",
) -> DGLGraph:
    """The same between two types of nodes."""
    rng = np.random.default_rng(int(next_seed()))
    pairs = _distinct(rng, num_src_nodes * num_dst_nodes, num_edges)
    counts = {utype: num_src_nodes, vtype: num_dst_nodes}
    ends = np.divmod(pairs, max(num_dst_nodes, 1))
    return heterograph({(utype, etype, vtype): tuple(ends)}, counts, idtype, device)


def _distinct(rng: np.random.Generator, total: int, count: int) -> Any:
    """Distinct numbers below `total`, each set of them as likely."""
    _check(count <= total, f"there are only {total} pairs, but {count} edges were asked for")
    if 3 * count >= total:
        return rng.permutation(total)[:count]
    found = np.empty(0, np.int64)
    while len(found) < count:
        more = rng.integers(0, total, int(1.2 * (count - len(found))) + 8)
        found = np.concatenate([found, more])
        _, first = np.unique(found, return_index=True)
        found = found[np.sort(first)]
    return found[:count]


def _graph(src: Any, dst: Any, num_nodes: int) -> DGLGraph:
    return graph((torch.from_numpy(src), torch.from_numpy(dst)), num_nodes=num_nodes)


def _check(right: bool, message: str) -> None:
    if not right:
        raise DGLError(message)
