"""Mini-batches of edges, for edge classification and link prediction.

The edges of a mini-batch, and as many negative ones as asked for, are graphs between the nodes at
their ends; blocks compute those nodes. An edge that is to be predicted must not carry messages, so
it, and its reverse, can be excluded from the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.dataloading.samplers import Sampler, set_edge_lazy_features
from graphwright.gnn.graph import NID, DGLGraph, edge_subgraph, heterograph
from graphwright.gnn.storage import DGLError
from graphwright.gnn.transforms import compact_graphs


def find_exclude_eids(
    g: DGLGraph,
    seed_edges: Any,
    exclude: Any,
    reverse_eids: Any = None,
    reverse_etypes: Any = None,
    output_device: Any = None,
) -> Any:
    """The edges that blocks for `seed_edges` have to do without: a tensor, or by edge type.

    `exclude` is None, "self", "reverse_id" (with `reverse_eids`, the reverse of each edge),
    "reverse_types" (with `reverse_etypes`, the reverse of each type, with the same edge ids), or a
    function of the seed edges.
    """
    if exclude is None:
        return None
    if callable(exclude):
        return exclude(seed_edges)
    if exclude == "self":
        return seed_edges
    if exclude == "reverse_id":
        if reverse_eids is None:
            raise DGLError('exclude="reverse_id" needs reverse_eids')
        if isinstance(seed_edges, Mapping):
            return {
                etype: torch.cat([ids, reverse_eids[etype][ids.long()].to(ids)])
                for etype, ids in seed_edges.items()
            }
        return torch.cat([seed_edges, reverse_eids[seed_edges.long()].to(seed_edges)])
    if exclude == "reverse_types":
        if reverse_etypes is None:
            raise DGLError('exclude="reverse_types" needs reverse_etypes')
        named = {g.to_canonical_etype(etype): ids for etype, ids in seed_edges.items()}
        back = {
            g.to_canonical_etype(one): g.to_canonical_etype(other)
            for one, other in reverse_etypes.items()
        }
        found: dict[Any, Tensor] = dict(named)
        for etype, ids in named.items():
            if etype in back:
                other = found.get(back[etype], ids[:0])
                found[back[etype]] = torch.cat([other, ids])
        return {etype: torch.unique(ids) for etype, ids in found.items()}
    raise DGLError(
        f'exclude has to be None, "self", "reverse_id", "reverse_types" or a function. '
        f"Got {exclude!r}."
    )


class EdgePredictionSampler(Sampler):
    """A sampler of blocks as one of edges; `as_edge_prediction_sampler` makes it.

    A mini-batch is (input nodes, graph of the edges, graph of negative edges, blocks), without the
    third where there is no negative sampler.
    """

    def __init__(
        self,
        sampler: Any,
        exclude: Any = None,
        reverse_eids: Any = None,
        reverse_etypes: Any = None,
        negative_sampler: Callable[[DGLGraph, Any], Any] | None = None,
        prefetch_labels: Any = None,
    ) -> None:
        self.sampler, self.exclude, self.negative_sampler = sampler, exclude, negative_sampler
        self.reverse_eids, self.reverse_etypes = reverse_eids, reverse_etypes
        self.prefetch_labels = prefetch_labels or []
        self.output_device = getattr(sampler, "output_device", None)

    def sample(self, g: DGLGraph, seed_edges: Any) -> Any:
        """The mini-batch of some edges."""
        positive = edge_subgraph(g, seed_edges, relabel_nodes=False)
        if self.negative_sampler is None:
            graphs = [compact_graphs(positive)]
        else:
            negative = self._negative(g, self.negative_sampler(g, seed_edges))
            graphs = compact_graphs([positive, negative])
        excluded = find_exclude_eids(
            g, seed_edges, self.exclude, self.reverse_eids, self.reverse_etypes
        )
        inputs, _, blocks = self.sampler.sample(g, graphs[0].ndata[NID], excluded)
        set_edge_lazy_features(graphs[0], self.prefetch_labels)
        return inputs, *graphs, blocks

    @staticmethod
    def _negative(g: DGLGraph, drawn: Any) -> DGLGraph:
        if not isinstance(drawn, Mapping):
            drawn = {g.canonical_etypes[0]: drawn}
        none = torch.empty(0, dtype=g.idtype, device=g.device)
        named = {g.to_canonical_etype(etype): pair for etype, pair in drawn.items()}
        edges = {etype: named.get(etype, (none, none)) for etype in g.canonical_etypes}
        return heterograph(edges, {ntype: g.num_nodes(ntype) for ntype in g.ntypes})


def as_edge_prediction_sampler(
    sampler: Any,
    exclude: Any = None,
    reverse_eids: Any = None,
    reverse_etypes: Any = None,
    negative_sampler: Callable[[DGLGraph, Any], Any] | None = None,
    prefetch_labels: Any = None,
) -> EdgePredictionSampler:
    """A sampler of edges that computes their ends with the blocks of `sampler`."""
    return EdgePredictionSampler(
        sampler, exclude, reverse_eids, reverse_etypes, negative_sampler, prefetch_labels
    )
