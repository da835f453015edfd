"""Transforms of structure: loops, reverse edges, parallel edges, paths, line and Levi graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.storage import EdgeType, Frame, Metagraph, Relation
from graphwright.gnn.transforms.loops import add_edges, add_self_loop, remove_self_loop
from graphwright.gnn.transforms.neighbourhoods import (
    khop_graph,
    line_graph,
    metapath_reachable_graph,
)
from graphwright.gnn.transforms.parts import count_up, require_homogeneous
from graphwright.gnn.transforms.simple import to_simple


class BaseTransform:
    """What a transform of your own derives from: define `__call__(self, g)`."""

    def __call__(self, g: DGLGraph) -> DGLGraph:
        raise NotImplementedError(f"{type(self).__name__} has to define __call__(self, g)")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


@dataclass(frozen=True, repr=False)
class Compose(BaseTransform):
    """Several transforms, one after another."""

    transforms: Sequence[Callable[[DGLGraph], DGLGraph]]

    def __call__(self, g: DGLGraph) -> DGLGraph:
        for transform in self.transforms:
            g = transform(g)
        return g

    def __repr__(self) -> str:
        return f"Compose([\n{''.join(f'  {step},{chr(10)}' for step in self.transforms)}])"


@dataclass(frozen=True, repr=False)
class AddSelfLoop(BaseTransform):
    """A loop at each node, for edge types between nodes of one type.

    Loops that there are go first, unless `allow_duplicate`. With `new_etypes` the loops of a node
    type are an edge type "self" of their own.
    """

    allow_duplicate: bool = False
    new_etypes: bool = False
    edge_feat_names: Sequence[str] | None = None
    fill_data: float | str = 1.0

    def __call__(self, g: DGLGraph) -> DGLGraph:
        if self.new_etypes and not g.is_homogeneous:
            loops = {}
            for ntype in g.ntypes:
                ids = count_up(g, g.num_nodes(ntype))
                loops[(ntype, "self", ntype)] = (ids, ids)
            return with_edge_types(g, loops)
        for etype in g.canonical_etypes:
            if etype[0] == etype[2]:
                if not self.allow_duplicate:
                    g = remove_self_loop(g, etype)
                g = add_self_loop(g, self.edge_feat_names, self.fill_data, etype)
        return g


class RemoveSelfLoop(BaseTransform):
    """No loops, in all edge types between nodes of one type."""

    def __call__(self, g: DGLGraph) -> DGLGraph:
        for etype in g.canonical_etypes:
            if etype[0] == etype[2]:
                g = remove_self_loop(g, etype)
        return g


@dataclass(frozen=True, repr=False)
class AddReverse(BaseTransform):
    """For each edge one the other way: of the same type between nodes of one type, else "rev_...".

    With `sym_new_etype` always of a type of its own, except in a homogeneous graph. Their features
    are those of the edges that they reverse (`copy_edata`), or zeros.
    """

    copy_edata: bool = False
    sym_new_etype: bool = False

    def __call__(self, g: DGLGraph) -> DGLGraph:
        made, added = g, {}
        for src, name, dst in g.canonical_etypes:
            etype = (src, name, dst)
            ends = g.relation(etype).coo
            if src == dst and (g.is_homogeneous or not self.sym_new_etype):
                data = dict(g.edge_frame(etype)) if self.copy_edata else None
                made = add_edges(made, ends[1], ends[0], data, etype)
            else:
                added[(dst, f"rev_{name}", src)] = (ends[1], ends[0])
        if not added:
            return made
        made = with_edge_types(made, added)
        if self.copy_edata:
            for src, name, dst in added:
                frame = g.edge_frame((dst, name.removeprefix("rev_"), src))
                for field, values in frame.items():
                    made.edge_frame((src, name, dst))[field] = values
        return made


@dataclass(frozen=True, repr=False)
class ToSimple(BaseTransform):
    """One edge for all parallel ones, with their number as feature `return_counts`."""

    return_counts: str = "count"
    aggregator: str = "arbitrary"

    def __call__(self, g: DGLGraph) -> DGLGraph:
        made: DGLGraph = to_simple(
            g, self.return_counts, copy_ndata=True, copy_edata=True, aggregator=self.aggregator
        )
        return made


@dataclass(frozen=True, repr=False)
class LineGraph(BaseTransform):
    """A node for each edge, with its features."""

    backtracking: bool = True

    def __call__(self, g: DGLGraph) -> DGLGraph:
        return line_graph(g, self.backtracking, shared=True)


@dataclass(frozen=True, repr=False)
class KHopGraph(BaseTransform):
    """An edge for each path of k edges."""

    k: int

    def __call__(self, g: DGLGraph) -> DGLGraph:
        return khop_graph(g, self.k)


@dataclass(frozen=True, repr=False)
class AddMetaPaths(BaseTransform):
    """An edge type for each named path of types: an edge to each node that it leads to."""

    metapaths: Mapping[str, Sequence[EdgeType]]
    keep_orig_edges: bool = True

    def __call__(self, g: DGLGraph) -> DGLGraph:
        added = {}
        for name, path in self.metapaths.items():
            reached = metapath_reachable_graph(g, path)
            src, _, dst = reached.canonical_etypes[0]
            added[(src, name, dst)] = reached.relation().coo
        return with_edge_types(g, added, self.keep_orig_edges)


class ToLevi(BaseTransform):
    """Nodes and edges as nodes of types "node" and "edge", joined where an edge has its ends."""

    def __call__(self, g: DGLGraph) -> DGLGraph:
        require_homogeneous(g, "ToLevi")
        src, dst = g.relation().coo
        edges = count_up(g, len(src))
        nodes = g.num_nodes()
        meta = Metagraph(("edge", "node"), (("edge", "e2n", "node"), ("node", "n2e", "edge")))
        relations = [
            Relation(num_src=len(src), num_dst=nodes, made_coo=(edges, dst)),
            Relation(num_src=nodes, num_dst=len(src), made_coo=(src, edges)),
        ]
        former_edges = Frame(len(src), g.edge_frame().columns)
        return DGLGraph(meta, relations, [former_edges, g.node_frame().copy()])


def with_edge_types(
    g: DGLGraph,
    added: Mapping[EdgeType, tuple[torch.Tensor, torch.Tensor]],
    keep: bool = True,
) -> DGLGraph:
    """A graph with more edge types between its nodes, with or without those that it has."""
    parts: dict[EdgeType, tuple[Relation, Frame]] = {}
    if keep:
        parts = {e: (g.relation(e), g.edge_frame(e).copy()) for e in g.canonical_etypes}
    for (src, name, dst), ends in added.items():
        relation = Relation(
            num_src=g.num_nodes(src), num_dst=g.num_nodes(dst), made_coo=(ends[0], ends[1])
        )
        parts[(src, name, dst)] = relation, Frame(len(ends[0]), what="edge")
    etypes = sorted(parts)
    return DGLGraph(
        Metagraph(g.meta.ntypes, tuple(etypes)),
        [parts[etype][0] for etype in etypes],
        [frame.copy() for frame in g._node_frames],
        [parts[etype][1] for etype in etypes],
    )
