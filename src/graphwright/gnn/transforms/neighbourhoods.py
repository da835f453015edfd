"""Graphs of paths: who is reached in k steps, along types, or from edge to edge.

`khop_graph` has an edge for every path of k edges, `metapath_reachable_graph` one edge for all
paths along given types; both are products of adjacency matrices. A `line_graph` has the edges as
nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphwright.gnn.graph import DGLGraph, node_subgraph, row_entries
from graphwright.gnn.storage import DGLError, Frame, Metagraph, Relation
from graphwright.gnn.transforms.parts import (
    count_up,
    homogeneous,
    ids_where,
    nodes_by_type,
    require_homogeneous,
)


def adjacency(g: DGLGraph, etype: Any = None, weights: Tensor | None = None) -> Any:
    """The SciPy matrix of an edge type, rows for sources: the number of edges, or their weights."""
    from scipy.sparse import coo_matrix

    relation = g.relation(etype)
    src, dst = (ends.cpu().numpy() for ends in relation.coo)
    values = np.ones(len(src), np.int64) if weights is None else weights.detach().cpu().numpy()
    return coo_matrix((values, (src, dst)), shape=(relation.num_src, relation.num_dst)).tocsr()


def khop_adj(g: DGLGraph, k: int) -> Tensor:
    """The k-th power of the adjacency matrix, dense, rows for sources."""
    require_homogeneous(g, "khop_adj")
    power = _power(adjacency(g), k).toarray()
    return torch.from_numpy(power.astype(np.float32)).to(g.device)


def khop_graph(g: DGLGraph, k: int, copy_ndata: bool = True) -> DGLGraph:
    """An edge for every path of k edges, in the order of sources, then destinations."""
    require_homogeneous(g, "khop_graph")
    paths = _power(adjacency(g), k).tocsr()
    paths.sort_indices()
    paths = paths.tocoo()
    ends = [
        torch.from_numpy(np.repeat(at, paths.data).astype(np.int64)).to(g.device, g.idtype)
        for at in (paths.row, paths.col)
    ]
    nodes = g.node_frame()
    return homogeneous(
        ends[0], ends[1], g.num_nodes(), nodes.copy() if copy_ndata else Frame(nodes.num_rows)
    )


def _power(matrix: Any, k: int) -> Any:
    if k < 0:
        raise DGLError(f"k has to be at least 0. Got {k}.")
    from scipy.sparse import eye_array

    made = eye_array(matrix.shape[0], dtype=matrix.dtype, format="csr")
    for _ in range(k):
        made = made @ matrix
    return made


def metapath_reachable_graph(g: DGLGraph, metapath: Sequence[Any]) -> DGLGraph:
    """One edge from each node to each that edges of the given types, in that order, lead to."""
    if not metapath:
        raise DGLError("metapath has no edge types; give at least one")
    etypes = [g.to_canonical_etype(etype) for etype in metapath]
    for one, following in pairwise(etypes):
        if one[2] != following[0]:
            raise DGLError(f"metapath cannot go from {one} to {following}: the node types differ")
    reached = adjacency(g, etypes[0]) > 0
    for etype in etypes[1:]:
        reached = (reached.astype(np.int64) @ adjacency(g, etype)) > 0
    found = reached.tocsr().sorted_indices().tocoo()
    src, dst = (
        torch.from_numpy(at.astype(np.int64)).to(g.device, g.idtype)
        for at in (found.row, found.col)
    )
    head, tail = etypes[0][0], etypes[-1][2]
    relation = Relation(num_src=g.num_nodes(head), num_dst=g.num_nodes(tail), made_coo=(src, dst))
    meta = Metagraph.of([(head, "_E", tail)])
    return DGLGraph(meta, [relation], [g.node_frame(ntype).copy() for ntype in meta.ntypes])


def line_graph(g: DGLGraph, backtracking: bool = True, shared: bool = False) -> DGLGraph:
    """A node for each edge, and an edge from each one to those that go on where it ends.

    Without `backtracking`, an edge does not go on to one that leads straight back. With `shared`,
    edge features become node features.
    """
    require_homogeneous(g, "line_graph")
    relation = g.relation()
    src, dst = relation.coo
    entries, place = row_entries(relation.csr.indptr, dst)
    following, edges = relation.csr.numbered()[entries], count_up(g, len(src))[place]
    if not backtracking:
        onward = dst[following.long()] != src[place]
        following, edges = following[onward], edges[onward]
    frame = g.edge_frame().copy() if shared else Frame(len(src))
    frame.what = "node"
    return homogeneous(edges, following, len(src), frame)


def khop_in_subgraph(
    graph: DGLGraph,
    nodes: Any,
    k: int,
    *,
    relabel_nodes: bool = True,
    store_ids: bool = True,
    output_device: Any = None,
) -> Any:
    """The subgraph of all nodes that lead to some within k steps, and the places of those in it."""
    return _khop(graph, nodes, k, relabel_nodes, store_ids, output_device, inward=True)


def khop_out_subgraph(
    graph: DGLGraph,
    nodes: Any,
    k: int,
    *,
    relabel_nodes: bool = True,
    store_ids: bool = True,
    output_device: Any = None,
) -> Any:
    """The subgraph of all nodes that some lead to within k steps, and the places of those in it."""
    return _khop(graph, nodes, k, relabel_nodes, store_ids, output_device, inward=False)


def _khop(
    g: DGLGraph, nodes: Any, k: int, relabel: bool, store: bool, device: Any, inward: bool
) -> Any:
    if g.is_block:
        raise DGLError("Extracting subgraph of a block graph is not allowed.")
    seeds = nodes_by_type(g, nodes)
    reached = {
        ntype: torch.zeros(g.num_nodes(ntype), dtype=torch.bool, device=g.device)
        for ntype in g.ntypes
    }
    for ntype, ids in seeds.items():
        reached[ntype][ids.long()] = True
    edge = {ntype: mask.clone() for ntype, mask in reached.items()}
    for _ in range(k):
        found = {ntype: torch.zeros_like(mask) for ntype, mask in reached.items()}
        for etype in g.canonical_etypes:
            relation = g.relation(etype) if not inward else g.relation(etype).reverse
            begin, end = (etype[0], etype[2]) if not inward else (etype[2], etype[0])
            entries, _ = row_entries(relation.csr.indptr, ids_where(g, edge[begin]))
            found[end][relation.csr.indices[entries].long()] = True
        edge = {ntype: mask & ~reached[ntype] for ntype, mask in found.items()}
        reached = {ntype: mask | edge[ntype] for ntype, mask in reached.items()}
    kept = {ntype: ids_where(g, mask) for ntype, mask in reached.items()}
    made = node_subgraph(g, kept, relabel_nodes=relabel, store_ids=store, output_device=device)
    if not relabel:
        return made
    places = {
        ntype: (torch.cumsum(reached[ntype], 0)[ids.long()] - 1).to(g.idtype)
        for ntype, ids in seeds.items()
    }
    return made, (places if len(g.ntypes) > 1 else places[g.ntypes[0]])
