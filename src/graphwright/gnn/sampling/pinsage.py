"""Neighbours by visits of short random walks (PinSAGE, Ying et al. 2018).

From each seed, walks go along a path of types that leads back to the seed's own type, again and
again; each time round they end with a probability. The nodes visited most often are its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.sampling.neighbours import select_topk
from graphwright.gnn.sampling.walks import random_walk
from graphwright.gnn.storage import DGLError, Frame, Metagraph, Relation
from graphwright.gnn.transforms import to_simple


class RandomWalkNeighborSampler:
    """A call takes seeds and returns a graph with edges from the most visited nodes to each.

    `weight_column` is the edge feature that has the number of visits.
    """

    def __init__(
        self,
        G: DGLGraph,  # noqa: N803
        num_traversals: int,
        termination_prob: float,
        num_random_walks: int,
        num_neighbors: int,
        metapath: Sequence[Any] | None = None,
        weight_column: str = "weights",
    ) -> None:
        self.G, self.num_random_walks, self.num_neighbors = G, num_random_walks, num_neighbors
        self.weight_column = weight_column
        if metapath is None:
            if len(G.ntypes) > 1 or len(G.etypes) > 1:
                raise DGLError("Metapath must be specified if the graph is not homogeneous.")
            metapath = [G.canonical_etypes[0]]
        path = [G.to_canonical_etype(etype) for etype in metapath]
        if path[0][0] != path[-1][2]:
            raise DGLError("The beginning and ending node type of the metapath must be the same.")
        self.ntype, self.metapath_hops = path[0][0], len(path)
        self.full_metapath = path * num_traversals
        self.restart_prob = torch.zeros(len(self.full_metapath))
        self.restart_prob[self.metapath_hops :: self.metapath_hops] = termination_prob

    def __call__(self, seed_nodes: Any) -> DGLGraph:
        seeds = self.G.node_ids(seed_nodes, self.ntype, what="seed_nodes")
        starts = seeds.repeat_interleave(self.num_random_walks)
        traces = random_walk(
            self.G, starts, metapath=self.full_metapath, restart_prob=self.restart_prob
        )[0]
        visited = traces[:, self.metapath_hops :: self.metapath_hops]
        seen = visited >= 0
        visits = self._graph(visited[seen], starts[:, None].expand_as(visited)[seen])
        counted: DGLGraph = to_simple(visits, return_counts=self.weight_column)
        return select_topk(counted, self.num_neighbors, self.weight_column, torch.unique(seeds))

    def _graph(self, src: Tensor, dst: Tensor) -> DGLGraph:
        count = self.G.num_nodes(self.ntype)
        relation = Relation(num_src=count, num_dst=count, made_coo=(src, dst))
        meta = Metagraph((self.ntype,), ((self.ntype, "_E", self.ntype),))
        return DGLGraph(meta, [relation], [Frame(count)])


class PinSAGESampler(RandomWalkNeighborSampler):
    """The same for a graph of two node types with an edge type each way."""

    def __init__(
        self,
        G: DGLGraph,  # noqa: N803
        ntype: str,
        other_type: str,
        num_traversals: int,
        termination_prob: float,
        num_random_walks: int,
        num_neighbors: int,
        weight_column: str = "weights",
    ) -> None:
        path = [
            self._only(G, ntype, other_type),
            self._only(G, other_type, ntype),
        ]
        super().__init__(
            G,
            num_traversals,
            termination_prob,
            num_random_walks,
            num_neighbors,
            path,
            weight_column,
        )

    @staticmethod
    def _only(g: DGLGraph, src: str, dst: str) -> Any:
        found = [etype for etype in g.canonical_etypes if (etype[0], etype[2]) == (src, dst)]
        if len(found) != 1:
            raise DGLError(
                f"PinSAGE needs one edge type from '{src}' to '{dst}', but there are {found}; with "
                "several, use RandomWalkNeighborSampler and a metapath."
            )
        return found[0]
