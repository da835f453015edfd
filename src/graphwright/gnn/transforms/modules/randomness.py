"""Random changes for augmentation; `torch.manual_seed` makes them reproducible."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.storage import Frame
from graphwright.gnn.transforms.loops import add_edges, remove_edges, remove_nodes
from graphwright.gnn.transforms.modules.structure import BaseTransform
from graphwright.gnn.transforms.parts import ids_where


def _chosen(g: DGLGraph, count: int, p: float) -> Tensor:
    return ids_where(g, (torch.rand(count) < p).to(g.device))


class NodeShuffle(BaseTransform):
    """The features of nodes in a random order, one for all features of a type; edges stay."""

    def __call__(self, g: DGLGraph) -> DGLGraph:
        shuffled: list[Frame] = []
        for frame in g._node_frames:
            shuffled.append(frame.select(torch.randperm(frame.num_rows, device=g.device)))
        return g.with_parts(node_frames=shuffled)


@dataclass(frozen=True, repr=False)
class DropNode(BaseTransform):
    """Each node removed with probability p."""

    p: float = 0.5

    def __call__(self, g: DGLGraph) -> DGLGraph:
        for ntype in g.ntypes:
            g = remove_nodes(g, _chosen(g, g.num_nodes(ntype), self.p), ntype)
        return g


@dataclass(frozen=True, repr=False)
class DropEdge(BaseTransform):
    """Each edge removed with probability p."""

    p: float = 0.5

    def __call__(self, g: DGLGraph) -> DGLGraph:
        for etype in g.canonical_etypes:
            g = remove_edges(g, _chosen(g, g.num_edges(etype), self.p), etype)
        return g


@dataclass(frozen=True, repr=False)
class AddEdge(BaseTransform):
    """Edges between random nodes, `ratio` times as many as there are of each type."""

    ratio: float = 0.2

    def __call__(self, g: DGLGraph) -> DGLGraph:
        for etype in g.canonical_etypes:
            relation = g.relation(etype)
            count = int(self.ratio * relation.num_edges)
            src, dst = (
                torch.randint(0, most, (count,)).to(g.device, g.idtype)
                for most in (relation.num_src, relation.num_dst)
            )
            g = add_edges(g, src, dst, etype=etype)
        return g
