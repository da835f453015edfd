"""One graph of several: unions, and sums and products of adjacency matrices with gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.graph import DGLGraph, row_entries
from graphwright.gnn.storage import DGLError, FeatureMismatch, Frame, Metagraph, Relation


def merge(graphs: Sequence[DGLGraph]) -> DGLGraph:
    """Homogeneous graphs over the same nodes, with the edges of all, one graph after another."""
    if not graphs:
        raise DGLError("the list of graphs to merge is empty")
    if any(not g.is_homogeneous for g in graphs):
        raise DGLError("merge takes homogeneous graphs")
    count = max(g.num_nodes() for g in graphs)
    ends = [g.relation().coo for g in graphs]
    coo = torch.cat([src for src, _ in ends]), torch.cat([dst for _, dst in ends])
    relation = Relation(num_src=count, num_dst=count, made_coo=coo)
    nodes, edges = Frame(count), Frame(relation.num_edges, what="edge")
    for g in graphs:
        for name in g.ndata:
            column = g.ndata[name]
            if name not in nodes:
                nodes[name] = column.new_zeros(count, *column.shape[1:])
            nodes.put_rows(name, torch.arange(g.num_nodes(), device=g.device), column)
    for name in {name for g in graphs for name in g.edata}:
        parts = [g.edata.get(name) for g in graphs]
        like = next(part for part in parts if part is not None)
        edges[name] = torch.cat(
            [
                like.new_zeros(g.num_edges(), *like.shape[1:]) if part is None else part
                for g, part in zip(graphs, parts, strict=True)
            ]
        )
    return DGLGraph(graphs[0].meta, [relation], [nodes], [edges])


def adj_product_graph(
    A: DGLGraph,  # noqa: N803
    B: DGLGraph,  # noqa: N803
    weight_name: str,
    etype: str = "_E",
) -> DGLGraph:
    """The graph whose weighted adjacency matrix is the product of those of two simple graphs.

    Weights have gradients. An edge whose weight happens to be 0 stays.
    """
    first, second = _simple(A, "adj_product_graph"), _simple(B, "adj_product_graph")
    if first.num_dst != second.num_src:
        raise DGLError(
            f"the destinations of A have to be the sources of B. Got {first.num_dst} and "
            f"{second.num_src}."
        )
    src, middle = first.coo
    entries, place = row_entries(second.csr.indptr, middle)
    edges = second.csr.numbered()[entries].long()
    ends = src[place], second.csr.indices[entries]
    weights = _weights(A, weight_name)[place] * _weights(B, weight_name)[edges]
    (head, _, _), (_, _, tail) = A.canonical_etypes[0], B.canonical_etypes[0]
    counts = {head: first.num_src, tail: second.num_dst}
    return _summed(ends, weights, counts, (head, etype, tail), weight_name)


def adj_sum_graph(graphs: Sequence[DGLGraph], weight_name: str) -> DGLGraph:
    """The graph whose weighted adjacency matrix is the sum of those of simple graphs."""
    if not graphs:
        raise DGLError("the list of graphs to sum is empty")
    relations = [_simple(g, "adj_sum_graph") for g in graphs]
    shapes = {(relation.num_src, relation.num_dst) for relation in relations}
    if len(shapes) > 1:
        raise DGLError(f"the graphs have to have the same nodes. Got {sorted(shapes)}.")
    ends = [relation.coo for relation in relations]
    coo = torch.cat([src for src, _ in ends]), torch.cat([dst for _, dst in ends])
    weights = torch.cat([_weights(g, weight_name) for g in graphs])
    head, name, tail = graphs[0].canonical_etypes[0]
    counts = {head: relations[0].num_src, tail: relations[0].num_dst}
    return _summed(coo, weights, counts, (head, name, tail), weight_name)


def _simple(g: DGLGraph, name: str) -> Relation:
    if len(g.canonical_etypes) != 1:
        raise DGLError(f"{name} takes graphs with one edge type. Got {g.canonical_etypes}.")
    if g.is_multigraph:
        raise DGLError(f"{name} takes graphs without parallel edges; call dgl.to_simple before")
    return g.relation()


def _weights(g: DGLGraph, name: str) -> Tensor:
    weights: Tensor = g.edge_frame()[name]
    if weights.dim() > 1 and weights.shape[1:].numel() != 1:
        raise FeatureMismatch(
            f"edge feature '{name}' has to be one number for each edge. Got rows of shape "
            f"{tuple(weights.shape[1:])}."
        )
    return weights.reshape(-1)


def _summed(
    ends: tuple[Tensor, Tensor], weights: Tensor, counts: dict[str, int], etype: Any, name: str
) -> DGLGraph:
    """A simple graph of edges of which some are parallel: their weights are added up."""
    width = counts[etype[2]]
    pairs, place = torch.unique(ends[0].long() * width + ends[1].long(), return_inverse=True)
    coo = tuple(end.to(ends[0].dtype) for end in (pairs // max(width, 1), pairs % max(width, 1)))
    meta = Metagraph.of([etype])
    relation = Relation(
        num_src=counts[etype[0]], num_dst=counts[etype[2]], made_coo=(coo[0], coo[1])
    )
    made = DGLGraph(meta, [relation], [Frame(counts[ntype]) for ntype in meta.ntypes])
    made.edata[name] = weights.new_zeros(len(pairs)).index_add(0, place, weights)
    return made
