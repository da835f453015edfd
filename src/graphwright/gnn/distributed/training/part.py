"""One worker's part of a graph: a range of vertices, their features and the edges into them.

    bounds   0 | 4 | 4 | 9         worker 0 has vertices 0 to 3, worker 1 none, worker 2 has 4 to 8

The halo of a part is its remote sources, sorted, and hence grouped by worker. Each worker tells the
others which of their rows it needs, once; from then on rows travel without their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.distributed.training.clock import LayerClock
from graphwright.gnn.distributed.training.halo import HaloExchange, Routes
from graphwright.gnn.distributed.training.store import GraphStore
from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.storage import (
    Column,
    Compressed,
    Frame,
    Metagraph,
    NotDistributable,
    PartRelation,
    Relation,
)
from graphwright.run import RowLinks


class PartGraph(DGLGraph):
    """A part of a graph, as a model sees it: its nodes are the worker's own vertices."""

    def batch_num_nodes(self, ntype: str | None = None) -> Tensor:
        raise NotDistributable(
            "a readout was computed over a worker's own vertices, and it needs those of all; "
            "compute it from the outputs of the whole graph, after distributing"
        )

    def batch_num_edges(self, etype: Any = None) -> Tensor:
        return self.batch_num_nodes()

    def lent(self, features: str) -> list[Tensor]:
        """What a device may hold for a part of the time: features of vertices and edges."""
        return [self.ndata[features], *self.edata.values()]

    def make_forms(self) -> None:
        """Make the edges' forms now, which otherwise come into being during the first pass."""
        relation = self.relation()
        assert isinstance(relation, PartRelation)
        for each in (relation.whole, relation.inner, relation.outer):
            _ = each.coo, each.csr, each.csc

    def lasting(self, features: str) -> list[Tensor]:
        """What a device holds all the time: labels, masks, and the edges in all forms so far."""
        tensors = [values for name, values in self.ndata.items() if name != features]
        relation = self.relation()
        assert isinstance(relation, PartRelation)
        for each in (relation, relation.whole, relation.inner, relation.outer):
            tensors += each.made_coo or ()
            for form in (each.made_csr, each.made_csc):
                tensors += [] if form is None else [form.indptr, form.indices]
                tensors += [] if form is None or form.edge_ids is None else [form.edge_ids]
        return tensors

    @property
    def halo(self) -> HaloExchange:
        """What connects this part with the others."""
        relation = self.relation()
        assert isinstance(relation, PartRelation) and isinstance(relation.halo, HaloExchange)
        return relation.halo


def cut_part(
    store: GraphStore, bounds: Sequence[int], links: RowLinks, device: torch.device
) -> PartGraph:
    """This worker's part; all workers call this with the same bounds."""
    low, high = bounds[links.rank], bounds[links.rank + 1]
    indptr = store.indptr[low : high + 1].long()
    first, last = int(indptr[0]), int(indptr[-1])
    sources = store.sources[first:last].long()
    is_own = (sources >= low) & (sources < high)
    halo = torch.unique(sources[~is_own])
    rows = torch.repeat_interleave(torch.arange(high - low), indptr.diff())
    kind: Any = {"dtype": store.indptr.dtype, "device": device}
    inner = _relation(rows[is_own], sources[is_own] - low, high - low, high - low, kind)
    places = torch.searchsorted(halo, sources[~is_own])
    outer = _relation(rows[~is_own], places, len(halo), high - low, kind)
    ends = torch.empty_like(sources)
    ends[is_own], ends[~is_own] = sources[is_own] - low, places + (high - low)
    number = torch.empty_like(sources)
    number[is_own] = torch.arange(inner.num_edges)
    number[~is_own] = torch.arange(outer.num_edges) + inner.num_edges
    whole = Relation(
        num_src=high - low + len(halo),
        num_dst=high - low,
        made_csc=Compressed((indptr - first).to(**kind), ends.to(**kind), number.to(**kind)),
    )
    exchange = HaloExchange(links, _routes(halo, bounds, links, device), LayerClock(device))
    relation = PartRelation(
        whole=whole, inner=inner, outer=outer, halo=exchange,
        out_degrees=store.out_degrees[low:high].to(**kind),
    )  # fmt: skip
    edges = store.edge_ids[first:last].long()
    edges = torch.cat([edges[is_own], edges[~is_own]])
    nodes = {name: Column(x[low:high].clone().to(device)) for name, x in store.node.items()}
    edge_features = {name: Column(x[edges].to(device)) for name, x in store.edge.items()}
    return PartGraph(
        Metagraph(("_N",), (("_N", "_E", "_N"),)),
        [relation],
        [Frame(high - low, nodes, "node")],
        [Frame(len(edges), edge_features, "edge")],
    )


def _relation(rows: Tensor, ends: Tensor, num_src: int, num_dst: int, kind: Any) -> Relation:
    """Edges that are sorted by destination, and numbered so."""
    indptr = torch.zeros(num_dst + 1, dtype=torch.long)
    torch.cumsum(torch.bincount(rows, minlength=num_dst), 0, out=indptr[1:])
    made = Compressed(indptr.to(**kind), ends.to(**kind))
    return Relation(num_src=num_src, num_dst=num_dst, made_csc=made)


def _routes(halo: Tensor, bounds: Sequence[int], links: RowLinks, device: torch.device) -> Routes:
    """Tell the others which of their rows are needed here, and hear which of ours are."""
    edges = torch.searchsorted(halo, torch.tensor(bounds))
    wanted = edges.diff()
    asked = links.gather(wanted.to(device)).cpu()  # asked[r, s]: rows of s that r needs
    received, sent = wanted.tolist(), asked[:, links.rank].tolist()
    rows = links.trade(halo.to(device), received, sent).wait()
    send_rows = rows - bounds[links.rank]
    return Routes(send_rows=send_rows, sent=tuple(sent), received=tuple(received))
