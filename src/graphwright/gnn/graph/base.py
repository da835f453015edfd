"""What a graph holds: its types, the edges of each type, and the features of each type.

    metagraph            node types and edge types
    relations[i]         the edges of the i-th edge type
    node_frames[i]       features of the i-th node type; its number of rows is the number of nodes
    edge_frames[i]       features of the i-th edge type

A homogeneous graph is one with one node type, `_N`, and one edge type, `_E`: there is no second
representation. A graph is made of values, and changing it replaces them: relations are never
written to, so graphs that share one do not see each other's changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor

from graphwright.gnn.storage import (
    EdgeType,
    Frame,
    InvalidIds,
    Metagraph,
    Relation,
    Side,
    as_ids,
)

NID = "_ID"
EID = "_ID"
NTYPE = "_TYPE"
ETYPE = "_TYPE"
ALL = "__ALL__"


class GraphBase:
    """Storage, and the ways in which the other classes reach it."""

    num_expanded: int | None = None
    """In a sampled neighbourhood, how many of the first nodes have in-edges; others are inputs."""

    def __init__(
        self,
        metagraph: Metagraph,
        relations: Sequence[Relation],
        node_frames: Sequence[Frame],
        edge_frames: Sequence[Frame] | None = None,
    ) -> None:
        self._metagraph = metagraph
        self._relations = list(relations)
        self._node_frames = list(node_frames)
        self._edge_frames = (
            [Frame(relation.num_edges, what="edge") for relation in relations]
            if edge_frames is None
            else list(edge_frames)
        )
        self._batch_num_nodes: dict[int, Tensor] | None = None
        self._batch_num_edges: dict[int, Tensor] | None = None
        assert len(self._relations) == len(self._edge_frames) == len(metagraph.etypes)
        assert len(self._node_frames) == len(metagraph.ntypes)

    def with_parts(
        self,
        relations: Sequence[Relation] | None = None,
        node_frames: Sequence[Frame] | None = None,
        edge_frames: Sequence[Frame] | None = None,
        metagraph: Metagraph | None = None,
    ) -> Self:
        """A graph of the same class with some parts replaced; frames are always its own."""
        nodes = self._node_frames if node_frames is None else node_frames
        edges = self._edge_frames if edge_frames is None else edge_frames
        return type(self)(
            self._metagraph if metagraph is None else metagraph,
            self._relations if relations is None else relations,
            [frame.copy() for frame in nodes] if node_frames is None else nodes,
            [frame.copy() for frame in edges] if edge_frames is None else edges,
        )

    @property
    def meta(self) -> Metagraph:
        """The types, as a value."""
        return self._metagraph

    def relation(self, etype: str | EdgeType | None = None) -> Relation:
        """The edges of one type."""
        return self._relations[self._metagraph.edge(etype)]

    def node_frame(self, ntype: str | None = None, side: Side = "any") -> Frame:
        """The features of one node type."""
        return self._node_frames[self._metagraph.node(side, ntype)]

    def edge_frame(self, etype: str | EdgeType | None = None) -> Frame:
        """The features of one edge type."""
        return self._edge_frames[self._metagraph.edge(etype)]

    def ends(self, etype: str | EdgeType | None = None) -> tuple[Frame, Frame]:
        """The features of the sources and of the destinations of an edge type."""
        src, dst = self._metagraph.ends[self._metagraph.edge(etype)]
        return self._node_frames[src], self._node_frames[dst]

    @property
    def idtype(self) -> torch.dtype:
        """The type of ids: torch.int32 or torch.int64."""
        return self._relations[0].idtype

    @property
    def device(self) -> torch.device:
        """Where the structure is."""
        return self._relations[0].device

    def node_ids(
        self, given: Any, ntype: str | None = None, side: Side = "any", what: str = "nodes"
    ) -> Tensor:
        """Node ids as a checked tensor."""
        limit = self.node_frame(ntype, side).num_rows
        return as_ids(given, self.idtype, self.device, what, limit)

    def edge_id_tensor(self, given: Any, etype: Any = None, what: str = "edges") -> Tensor:
        """Edges as a checked tensor of ids; a pair of node tensors names the edges between them."""
        relation = self.relation(etype)
        if isinstance(given, tuple) and len(given) == 2:
            src, dst = (
                as_ids(ends, self.idtype, self.device, what, limit)
                for ends, limit in zip(given, (relation.num_src, relation.num_dst), strict=True)
            )
            return match_edges(relation, src, dst)
        return as_ids(given, self.idtype, self.device, what, relation.num_edges)

    @contextmanager
    def local_scope(self) -> Iterator[None]:
        """Within this context, what is done to features is forgotten at its end."""
        before = self._node_frames, self._edge_frames
        self._node_frames = [frame.copy() for frame in self._node_frames]
        self._edge_frames = [frame.copy() for frame in self._edge_frames]
        try:
            yield
        finally:
            self._node_frames, self._edge_frames = before


def row_entries(indptr: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The entries of some rows one after another, and for each its place in `rows`."""
    rows = rows.long()
    counts = indptr[rows + 1] - indptr[rows]
    ends = torch.cumsum(counts, 0)
    place = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), counts)
    total = len(place)
    within = torch.arange(total, device=rows.device) - (ends - counts).long()[place]
    return indptr[rows].long()[place] + within, place


def match_edges(relation: Relation, src: Tensor, dst: Tensor) -> Tensor:
    """An edge for each pair of ends (the first, where there are several); all have to exist."""
    src, dst = broadcast_ends(src, dst)
    found, edges = find_between(relation, src, dst)
    if not bool(found.all()):
        bad = int((~found).nonzero()[0])
        raise InvalidIds(
            f"Error: ({int(src[bad])}, {int(dst[bad])}) does not form a valid edge: pair {bad} of "
            f"{len(src)}."
        )
    return edges


def broadcast_ends(src: Tensor, dst: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs of ends; a single one goes with each of the others."""
    if len(src) != len(dst) and 1 not in (len(src), len(dst)):
        raise InvalidIds(f"pairs of ends differ in number: {len(src)} sources, {len(dst)} others")
    length = len(dst) if len(src) == 1 else len(src)
    return src.expand(length), dst.expand(length)


def find_between(relation: Relation, src: Tensor, dst: Tensor) -> tuple[Tensor, Tensor]:
    """Whether each pair is an edge, and the first edge of each (0 where there is none)."""
    csr = relation.csr
    entries, place = row_entries(csr.indptr, src)
    hit = csr.indices[entries] == dst[place]
    entries, place = entries[hit], place[hit]
    numbers = csr.numbered()[entries]
    first = torch.full_like(src, relation.num_edges)
    first.scatter_reduce_(0, place, numbers, "amin")
    found = first < relation.num_edges
    return found, torch.where(found, first, 0)


def between_all(relation: Relation, src: Tensor, dst: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Every edge between each pair: sources, destinations and ids, pair after pair."""
    csr = relation.csr
    entries, place = row_entries(csr.indptr, src)
    hit = csr.indices[entries] == dst[place]
    entries, place = entries[hit], place[hit]
    return src[place], dst[place], csr.numbered()[entries]


def frames_of(counts: Mapping[str, int], ntypes: Sequence[str]) -> list[Frame]:
    """A frame without features for each node type."""
    return [Frame(counts[ntype], what="node") for ntype in ntypes]
