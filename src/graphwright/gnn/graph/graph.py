"""`DGLGraph`: the whole of a graph, in one class, each of whose bases has one subject."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.graph.base import EID, ETYPE, NID, NTYPE
from graphwright.gnn.graph.message import MessagePassing
from graphwright.gnn.graph.mutation import Mutation
from graphwright.gnn.storage import DGLError, Frame, Metagraph, Relation, UnknownType


class DGLGraph(Mutation, MessagePassing):
    """A graph with typed nodes and edges and their features.

    `graph`, `heterograph`, `create_block` and the converters make one.
    """

    def __getitem__(self, key: Any) -> DGLGraph:
        """The edges of one type, between its node types; features are shared.

        In a triplet, `:` stands for any type. Several edge types are combined to one: nodes and
        edges have the numbers of their types as `dgl.NTYPE` and `dgl.ETYPE`, and the old ids.
        """
        if isinstance(key, tuple) and any(isinstance(part, slice) for part in key):
            matching = [
                at
                for at, etype in enumerate(self.meta.etypes)
                if all(isinstance(k, slice) or k == t for k, t in zip(key, etype, strict=True))
            ]
            if not matching:
                raise UnknownType(
                    f"no edge type matches {key}; the edge types are {list(self.meta.etypes)}"
                )
            if len(matching) > 1:
                return self._combined(matching)
            key = self.meta.etypes[matching[0]]
        at = self.meta.edge(key)
        src, dst = self.meta.ends[at]
        places = [src] if src == dst else [src, dst]
        sides = 1 if self.is_block else None
        meta = Metagraph(
            tuple(self.meta.ntypes[place] for place in places), (self.meta.etypes[at],), sides
        )
        frames = [self._node_frames[place] for place in places]
        return type(self)(meta, [self._relations[at]], frames, [self._edge_frames[at]])

    def _combined(self, places: list[int]) -> DGLGraph:
        """Several edge types as one, between their source types and their destination types."""
        src_types = sorted({self.meta.ends[at][0] for at in places})
        dst_types = sorted({self.meta.ends[at][1] for at in places})
        sides = [src_types] if src_types == dst_types else [src_types, dst_types]
        starts: list[dict[int, int]] = []
        frames = []
        for side in sides:
            parts = [self._node_frames[place] for place in side]
            sizes = [part.num_rows for part in parts]
            starts.append({place: sum(sizes[:n]) for n, place in enumerate(side)})
            frames.append(_joined(parts, side, NTYPE, NID, self.idtype, self.device))
        ends = [(self._relations[at].coo, self.meta.ends[at]) for at in places]
        src = torch.cat([coo[0] + starts[0][place] for coo, (place, _) in ends])
        dst = torch.cat([coo[1] + starts[-1][place] for coo, (_, place) in ends])
        relation = Relation(
            num_src=frames[0].num_rows, num_dst=frames[-1].num_rows, made_coo=(src, dst)
        )
        edges = [self._edge_frames[at] for at in places]
        frame = _joined(edges, places, ETYPE, EID, self.idtype, self.device)
        names = ["+".join(sorted(self.meta.ntypes[place] for place in side)) for side in sides]
        etype = names[0], "+".join(sorted(self.meta.etypes[at][1] for at in places)), names[-1]
        meta = Metagraph(tuple(names), (etype,))
        return type(self)(meta, [relation], frames, [frame])

    # Many graphs as one.

    @property
    def batch_size(self) -> int:
        """How many graphs this one was batched from."""
        if self._batch_num_nodes is None:
            return 1
        return len(next(iter(self._batch_num_nodes.values())))

    def batch_num_nodes(self, ntype: str | None = None) -> Tensor:
        """The number of nodes of each of the batched graphs."""
        place = self.meta.node("dst" if self.is_block else "any", ntype)
        if self._batch_num_nodes is None:
            return torch.tensor([self._node_frames[place].num_rows], device=self.device).to(
                self.idtype
            )
        return self._batch_num_nodes[place]

    def batch_num_edges(self, etype: Any = None) -> Tensor:
        """The number of edges of each of the batched graphs."""
        place = self.meta.edge(etype)
        if self._batch_num_edges is None:
            return torch.tensor([self._relations[place].num_edges], device=self.device).to(
                self.idtype
            )
        return self._batch_num_edges[place]

    def set_batch_num_nodes(self, val: Any) -> None:
        """Say how many nodes each graph has: a tensor, or a dictionary by node type."""
        find = lambda key: self.meta.node("any", key)
        self._batch_num_nodes = self._counts(val, self.meta.ntypes, find)

    def set_batch_num_edges(self, val: Any) -> None:
        """Say how many edges each graph has: a tensor, or a dictionary by edge type."""
        self._batch_num_edges = self._counts(val, self.meta.etypes, self.meta.edge)

    def _counts(self, val: Any, kinds: Any, find: Any) -> dict[int, Tensor]:
        if not isinstance(val, Mapping):
            if len(kinds) != 1:
                raise DGLError(f"a graph with types {list(kinds)} takes a dictionary by type")
            return {0: torch.as_tensor(val).to(self.device)}
        return {find(key): torch.as_tensor(counts).to(self.device) for key, counts in val.items()}

    def __repr__(self) -> str:
        edges = {t: r.num_edges for t, r in zip(self.meta.etypes, self._relations, strict=True)}
        if self.is_block:
            src, dst = _counted(self, "src"), _counted(self, "dst")
            if len(edges) > 1:
                return f"Block(num_src_nodes={src}, num_dst_nodes={dst}, num_edges={edges})"
            return (
                f"Block(num_src_nodes={sum(src.values())}, num_dst_nodes={sum(dst.values())}, "
                f"num_edges={sum(edges.values())})"
            )
        if self.is_homogeneous:
            return (
                f"Graph(num_nodes={self.num_nodes()}, num_edges={self.num_edges()},\n"
                f"      ndata_schemes={_shown(self._node_frames[0])}\n"
                f"      edata_schemes={_shown(self._edge_frames[0])})"
            )
        nodes = {t: f.num_rows for t, f in zip(self.meta.ntypes, self._node_frames, strict=True)}
        joined = [(src, dst, name) for src, name, dst in self.meta.etypes]
        return f"Graph(num_nodes={nodes},\n      num_edges={edges},\n      metagraph={joined})"


class DGLBlock(DGLGraph):
    """A bipartite graph of one step of computation: its sources include its destinations."""


def _joined(
    parts: list[Frame], places: list[int], kind: str, number: str, idtype: Any, device: Any
) -> Frame:
    """Rows of several types one after another: the features that all have alike, types and ids."""
    sizes = [part.num_rows for part in parts]
    made = Frame(sum(sizes), what=parts[0].what)
    for name in parts[0]:
        held = [part[name] for part in parts if name in part]
        alike = {(column.dtype, tuple(column.shape[1:])) for column in held}
        if len(held) == len(parts) and len(alike) == 1:
            made[name] = torch.cat(held)
    types = torch.tensor(places, dtype=idtype, device=device)
    made[kind] = torch.repeat_interleave(types, torch.tensor(sizes, device=device))
    made[number] = torch.cat([torch.arange(n, dtype=idtype, device=device) for n in sizes])
    return made


def _counted(graph: DGLGraph, side: Any) -> dict[str, int]:
    places = graph.meta.side(side)
    return {graph.meta.ntypes[at]: graph._node_frames[at].num_rows for at in places}


def _shown(frame: Frame) -> dict[str, str]:
    return {
        name: f"Scheme(shape={tuple(frame[name].shape[1:])}, dtype={frame[name].dtype})"
        for name in frame
    }
