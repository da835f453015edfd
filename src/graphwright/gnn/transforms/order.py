"""Nodes and edges in another order, for locality: `reorder_graph`, and rows sorted by a tag."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.graph import EID, DGLGraph, node_subgraph
from graphwright.gnn.storage import Compressed, DGLError, Relation, as_ids
from graphwright.gnn.transforms.neighbourhoods import adjacency
from graphwright.gnn.transforms.parts import require_homogeneous


def reorder_graph(
    g: DGLGraph,
    node_permute_algo: str | None = None,
    edge_permute_algo: str | None = "src",
    store_ids: bool = True,
    permute_config: Mapping[str, Any] | None = None,
) -> DGLGraph:
    """The graph with nodes and edges numbered anew; old ids are `dgl.NID` and `dgl.EID`.

    Nodes: None leaves them, "rcmk" narrows the band of the adjacency matrix (reverse
    Cuthill-McKee), "custom" takes permute_config["nodes_perm"], the old node of each new one.
    Edges: "src" and "dst" sort by an end, "custom" takes permute_config["edges_perm"].
    """
    require_homogeneous(g, "reorder_graph")
    config = dict(permute_config or {})
    match node_permute_algo:
        case None:
            order = g.nodes()
        case "rcmk":
            from scipy.sparse.csgraph import reverse_cuthill_mckee

            found = reverse_cuthill_mckee(adjacency(g), symmetric_mode=False)
            order = torch.from_numpy(found.copy()).to(g.device, g.idtype)
        case "custom":
            order = _given(g, config, "nodes_perm", g.num_nodes())
        case _:
            raise DGLError(
                f'node_permute_algo has to be None, "rcmk" or "custom". Got {node_permute_algo!r}.'
            )
    made = node_subgraph(g, order, store_ids=store_ids)
    src, dst = made.relation().coo
    match edge_permute_algo:
        case None:
            edges = torch.arange(len(src), device=g.device)
        case "src":
            edges = torch.argsort(src, stable=True)
        case "dst":
            edges = torch.argsort(dst, stable=True)
        case "custom":
            edges = _given(g, config, "edges_perm", len(src)).long()
        case _:
            raise DGLError(
                f'edge_permute_algo has to be "src", "dst" or "custom". Got {edge_permute_algo!r}.'
            )
    old = made.edata[EID][edges] if store_ids else None
    frame = made.edge_frame().select(edges.to(g.idtype))
    if old is not None:
        frame[EID] = old
    return made.with_parts(relations=[made.relation().take_edges(edges)], edge_frames=[frame])


def _given(g: DGLGraph, config: Mapping[str, Any], name: str, count: int) -> Tensor:
    if config.get(name) is None:
        raise DGLError(f'a "custom" order needs permute_config["{name}"]')
    order = as_ids(config[name], g.idtype, g.device, name, count)
    if len(order) != count or len(torch.unique(order)) != count:
        raise DGLError(f'permute_config["{name}"] has to be a permutation of 0 to {count - 1}.')
    return order


def sort_csr_by_tag(
    g: DGLGraph, tag: Any, tag_offset_name: str = "_TAG_OFFSET", tag_type: str = "node"
) -> DGLGraph:
    """The graph with each node's out-edges sorted by the tag of their destination, or their own.

    The feature `tag_offset_name` of a node says where each tag begins among its edges.
    """
    return _sort_by_tag(g, torch.as_tensor(tag), tag_offset_name, tag_type, outward=True)


def sort_csc_by_tag(
    g: DGLGraph, tag: Any, tag_offset_name: str = "_TAG_OFFSET", tag_type: str = "node"
) -> DGLGraph:
    """The same for in-edges and the tag of their source."""
    return _sort_by_tag(g, torch.as_tensor(tag), tag_offset_name, tag_type, outward=False)


def _sort_by_tag(g: DGLGraph, tag: Tensor, name: str, tag_type: str, outward: bool) -> DGLGraph:
    if len(g.canonical_etypes) > 1:
        raise DGLError("Only support homograph and bipartite graph")
    relation = g.relation()
    form = relation.csr if outward else relation.csc
    rows = torch.repeat_interleave(
        torch.arange(len(form.indptr) - 1, device=g.device), form.indptr.diff().long()
    )
    if tag_type == "node":
        tagged = relation.num_dst if outward else relation.num_src
    elif tag_type == "edge":
        tagged = relation.num_edges
    else:
        raise DGLError(f'tag_type has to be "node" or "edge". Got {tag_type!r}.')
    if len(tag) != tagged:
        raise DGLError(f"tag has {len(tag)} entries for {tagged} {tag_type}s.")
    tags = tag.long()[(form.indices if tag_type == "node" else form.numbered()).long()]
    kinds = int(tag.max()) + 1 if len(tag) else 0
    order = torch.argsort(rows * max(kinds, 1) + tags, stable=True)
    made = Compressed(form.indptr, form.indices[order], form.numbered()[order])
    counts = torch.zeros(len(form.indptr) - 1, kinds + 1, dtype=g.idtype, device=g.device)
    ones = torch.ones(len(tags), dtype=g.idtype, device=g.device)
    counts.index_put_((rows, tags + 1), ones, accumulate=True)
    sorted_relation = Relation(
        num_src=relation.num_src,
        num_dst=relation.num_dst,
        made_coo=relation.coo,
        made_csr=made if outward else None,
        made_csc=None if outward else made,
    )
    result = g.with_parts(relations=[sorted_relation])
    side = result.ends()[0 if outward else 1]
    side[name] = torch.cumsum(counts, 1).to(g.idtype)
    return result
