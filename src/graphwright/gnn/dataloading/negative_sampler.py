"""Edges that are not: negative examples for link prediction, called with a graph and some edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.sampling import global_uniform_negative_sampling, torch_generator
from graphwright.gnn.storage import EdgeType

Pair = tuple[Tensor, Tensor]


class _NegativeSampler:
    """Sources and destinations of negative edges: a pair, or a dictionary of pairs by edge type."""

    def __call__(self, g: DGLGraph, eids: Any) -> Any:
        if isinstance(eids, Mapping):
            named = {g.to_canonical_etype(etype): ids for etype, ids in eids.items()}
            return {etype: self._generate(g, ids, etype) for etype, ids in named.items()}
        return self._generate(g, eids, g.meta.etypes[g.meta.edge(None)])

    def _generate(self, g: DGLGraph, eids: Tensor, canonical_etype: EdgeType) -> Pair:
        raise NotImplementedError(f"{type(self).__name__} has to define _generate")


class PerSourceUniform(_NegativeSampler):
    """For each edge, k pairs of its source with destinations drawn evenly among all nodes."""

    def __init__(self, k: int) -> None:
        self.k = k

    def _generate(self, g: DGLGraph, eids: Tensor, canonical_etype: EdgeType) -> Pair:
        src, _ = g.find_edges(eids, etype=canonical_etype)
        src = src.repeat_interleave(self.k)
        most = g.num_nodes(canonical_etype[2])
        drawn = torch.randint(0, most, (len(src),), generator=torch_generator())
        return src, drawn.to(g.device, g.idtype)


Uniform = PerSourceUniform


class GlobalUniform(_NegativeSampler):
    """For each edge, k pairs drawn evenly among all that have no edge."""

    def __init__(
        self,
        k: int,
        exclude_self_loops: bool = True,
        replace: bool = False,
        redundancy: float | None = None,
    ) -> None:
        self.k, self.exclude_self_loops, self.replace = k, exclude_self_loops, replace
        self.redundancy = redundancy

    def _generate(self, g: DGLGraph, eids: Tensor, canonical_etype: EdgeType) -> Pair:
        return global_uniform_negative_sampling(
            g, len(eids) * self.k, self.exclude_self_loops, self.replace, canonical_etype,
            self.redundancy,
        )  # fmt: skip
