"""Subgraphs as mini-batches: around nodes (ShaDow), at random (GraphSAINT), or of clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.data import load_tensors, save_tensors
from graphwright.gnn.dataloading.samplers import (
    Sampler,
    set_edge_lazy_features,
    set_node_lazy_features,
)
from graphwright.gnn.distributed import metis_partition_assignment
from graphwright.gnn.graph import EID, NID, DGLGraph, edge_subgraph, node_subgraph
from graphwright.gnn.sampling import random_walk, sample_neighbors, torch_generator
from graphwright.gnn.storage import DGLError
from graphwright.gnn.transforms import remove_edges, to_block


class ShaDowKHopSampler(Sampler):
    """The subgraph of all nodes that `NeighborSampler` would reach (Zeng et al. 2021).

    A mini-batch is (input nodes, output nodes, subgraph), whose first nodes are the output.
    """

    def __init__(
        self,
        fanouts: Sequence[Any],
        replace: bool = False,
        prob: str | None = None,
        prefetch_node_feats: Any = None,
        prefetch_edge_feats: Any = None,
        output_device: Any = None,
    ) -> None:
        self.fanouts, self.replace, self.prob = list(fanouts), replace, prob
        self.prefetch_node_feats = prefetch_node_feats or []
        self.prefetch_edge_feats = prefetch_edge_feats or []
        self.output_device = output_device

    def sample(self, g: DGLGraph, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        """Input nodes, output nodes and the subgraph of some seeds."""
        nodes = seed_nodes
        for fanout in reversed(self.fanouts):
            frontier = sample_neighbors(
                g, nodes, fanout, prob=self.prob, replace=self.replace, exclude_edges=exclude_eids,
                copy_ndata=False, copy_edata=False,
            )  # fmt: skip
            nodes = to_block(frontier, nodes).srcdata[NID]
        made = node_subgraph(g, nodes, output_device=self.output_device)
        if exclude_eids is not None:
            made = _without(made, exclude_eids)
        set_node_lazy_features(made, self.prefetch_node_feats)
        set_edge_lazy_features(made, self.prefetch_edge_feats)
        return nodes, seed_nodes, made


def _without(part: DGLGraph, exclude: Any) -> DGLGraph:
    """A subgraph without edges that are named by their ids in the whole graph."""
    if not isinstance(exclude, Mapping):
        exclude = {part.canonical_etypes[0]: exclude}
    for etype, ids in exclude.items():
        there = torch.isin(part.edge_frame(etype)[EID], torch.as_tensor(ids).to(part.device))
        part = remove_edges(part, there.nonzero().reshape(-1).to(part.idtype), etype)
    return part


class ClusterGCNSampler(Sampler):
    """Subgraphs of clusters of nodes with few edges between them (Chiang et al. 2019).

    The indices of a loader are clusters, 0 to k - 1. They are found once, and kept in `cache_path`
    if one is given.
    """

    def __init__(
        self,
        g: DGLGraph,
        k: int,
        cache_path: str | None = None,
        balance_ntypes: Any = None,
        balance_edges: bool = False,
        mode: str = "k-way",
        prefetch_ndata: Any = None,
        prefetch_edata: Any = None,
        output_device: Any = None,
    ) -> None:
        if cache_path is not None and Path(cache_path).exists():
            self.clusters = load_tensors(cache_path)["clusters"]
        else:
            self.clusters = metis_partition_assignment(g, k, balance_ntypes, balance_edges, mode)
            if cache_path is not None:
                save_tensors(cache_path, {"clusters": self.clusters})
        if len(self.clusters) != g.num_nodes():
            raise DGLError(
                f"{cache_path} has clusters of {len(self.clusters)} nodes, but the graph has "
                f"{g.num_nodes()}; remove it."
            )
        self.prefetch_ndata, self.prefetch_edata = prefetch_ndata or [], prefetch_edata or []
        self.output_device = output_device

    def sample(self, g: DGLGraph, partition_ids: Any) -> DGLGraph:
        """The subgraph of some clusters."""
        wanted = torch.isin(self.clusters, torch.as_tensor(partition_ids).to(self.clusters))
        nodes = wanted.nonzero().reshape(-1).to(g.device, g.idtype)
        made = node_subgraph(g, nodes, output_device=self.output_device)
        set_node_lazy_features(made, self.prefetch_ndata)
        set_edge_lazy_features(made, self.prefetch_edata)
        return made


class SAINTSampler(Sampler):
    """Random subgraphs (GraphSAINT, Zeng et al. 2020); indices only count the mini-batches.

    `mode` "node" draws `budget` nodes by their in-degrees, "edge" draws `budget` edges by the
    inverse degrees of their ends, "walk" takes `budget` = (number of roots, length of walks).
    """

    def __init__(
        self,
        mode: str,
        budget: Any,
        cache: bool = True,
        prefetch_ndata: Any = None,
        prefetch_edata: Any = None,
        output_device: Any = "cpu",
    ) -> None:
        if mode not in ("node", "edge", "walk"):
            raise DGLError(f"Expect mode to be 'node', 'edge' or 'walk', got {mode}.")
        self.mode, self.budget, self.output_device = mode, budget, output_device
        self.prefetch_ndata, self.prefetch_edata = prefetch_ndata or [], prefetch_edata or []

    def sample(self, g: DGLGraph, indices: Any) -> DGLGraph:
        """A subgraph; the indices do not matter."""
        made = node_subgraph(g, getattr(self, f"_{self.mode}")(g), output_device=self.output_device)
        set_node_lazy_features(made, self.prefetch_ndata)
        set_edge_lazy_features(made, self.prefetch_edata)
        return made

    def _node(self, g: DGLGraph) -> Tensor:
        weights = g.in_degrees().double()
        return _drawn(g, weights, self.budget)

    def _edge(self, g: DGLGraph) -> Tensor:
        src, dst = g.edges()
        weights = 1 / g.in_degrees()[dst.long()].double() + 1 / g.out_degrees()[src.long()].double()
        part = edge_subgraph(g, _drawn(g, weights, self.budget))
        nodes: Tensor = part.ndata[NID]
        return nodes

    def _walk(self, g: DGLGraph) -> Tensor:
        count, length = self.budget
        roots = torch.randint(0, g.num_nodes(), (count,), generator=torch_generator())
        traces = random_walk(g, roots.to(g.device, g.idtype), length=length)[0]
        return _distinct(g, traces[traces >= 0])


def _drawn(g: DGLGraph, weights: Tensor, count: int) -> Tensor:
    """Distinct ids of `count` draws by weight."""
    chosen = torch.multinomial(weights.cpu(), count, replacement=True, generator=torch_generator())
    return _distinct(g, chosen)


def _distinct(g: DGLGraph, ids: Tensor) -> Tensor:
    kept: Tensor = torch.unique(ids).to(g.device, g.idtype)
    return kept
