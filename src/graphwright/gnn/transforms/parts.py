"""What transforms share: ids in a graph's own type, rows for new edges, sets of nodes by type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.storage import DGLError, EdgeType, Frame, Metagraph, Relation


def count_up(graph: DGLGraph, count: int) -> Tensor:
    """0, 1, ..., as ids of a graph."""
    return torch.arange(count, dtype=graph.idtype, device=graph.device)


def ids_where(graph: DGLGraph, mask: Tensor) -> Tensor:
    """The places where a mask is true, as ids of a graph."""
    return mask.nonzero().reshape(-1).to(graph.idtype)


def relation_of(like: Relation, src: Tensor, dst: Tensor) -> Relation:
    """Other edges between the nodes of a relation."""
    return Relation(num_src=like.num_src, num_dst=like.num_dst, made_coo=(src, dst))


def homogeneous(src: Tensor, dst: Tensor, num_nodes: int, nodes: Frame | None = None) -> DGLGraph:
    """A graph with one type of nodes and one of edges."""
    relation = Relation(num_src=num_nodes, num_dst=num_nodes, made_coo=(src, dst))
    meta = Metagraph(("_N",), (("_N", "_E", "_N"),))
    return DGLGraph(meta, [relation], [Frame(num_nodes) if nodes is None else nodes])


def require_homogeneous(graph: DGLGraph, name: str) -> None:
    """Refuse a graph with several types."""
    if not graph.is_homogeneous:
        raise DGLError(
            f"{name} takes a homogeneous graph, but this one has node types {graph.ntypes} and "
            f"edge types {graph.canonical_etypes}; take one edge type: g[etype]."
        )


def require_same_ends(etype: EdgeType, name: str) -> None:
    """Refuse an edge type that joins different types of nodes."""
    if etype[0] != etype[2]:
        raise DGLError(
            f"{name} does not support unidirectional bipartite graphs: {etype}. Please make sure "
            "the types of head node and tail node are identical."
        )


def nodes_by_type(graph: DGLGraph, nodes: Any, what: str = "nodes") -> dict[str, Tensor]:
    """Nodes as a user gives them, for the only type or as a dictionary, as checked tensors."""
    if not isinstance(nodes, Mapping):
        if len(graph.ntypes) != 1:
            raise DGLError(
                f'Argument "{what}" has to be a dictionary from node types to ids: the graph has '
                f"node types {graph.ntypes}."
            )
        nodes = {graph.ntypes[0]: nodes}
    return {ntype: graph.node_ids(ids, ntype, what=what) for ntype, ids in nodes.items()}


def reduce_rows(values: Tensor, ends: Tensor, count: int, how: str) -> Tensor:
    """Rows of `values` combined by their ends: "sum", "mean", "max", "min" or "prod".

    Ends without a row get zeros.
    """
    names = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin", "prod": "prod"}
    if how not in names:
        raise DGLError(f"features are aggregated by one of {sorted(names)}. Got {how!r}.")
    at = ends.long().reshape(-1, *[1] * (values.dim() - 1)).expand_as(values)
    zeros = values.new_zeros((count, *values.shape[1:]))
    return zeros.scatter_reduce(0, at, values, names[how], include_self=False)
