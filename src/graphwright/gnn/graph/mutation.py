"""Changing a graph in place: nodes and edges come and go, features stay with those that remain.

New nodes and edges are numbered after the old ones; those that remain after a removal are numbered
anew, in the order they had. Rows of features that are not given are zeros, or what an initializer
that was set for the field makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor

from graphwright.gnn.graph.base import EID, NID, broadcast_ends
from graphwright.gnn.graph.queries import Queries
from graphwright.gnn.storage import (
    FORMATS,
    DGLError,
    Initializer,
    InvalidIds,
    Relation,
    as_ids,
)


class Mutation(Queries):
    """Changes of structure, of place, of the type of ids and of the forms that are kept."""

    def add_nodes(
        self, num: int, data: Mapping[str, Any] | None = None, ntype: str | None = None
    ) -> None:
        """Add nodes, with features or without."""
        self._refuse_block("add_nodes")
        if num < 0:
            raise DGLError(f"num has to be at least 0. Got {num}.")
        place = self.meta.node("any", ntype)
        frame = self._node_frames[place]
        frame.append(num, data)
        for at, (src, dst) in enumerate(self.meta.ends):
            if place in (src, dst):
                old = self._relations[at]
                self._relations[at] = Relation(
                    num_src=self._node_frames[src].num_rows,
                    num_dst=self._node_frames[dst].num_rows,
                    made_coo=old.coo,
                    allowed=old.allowed,
                )
        self._reset_batch()

    def add_edges(
        self, u: Any, v: Any, data: Mapping[str, Any] | None = None, etype: Any = None
    ) -> None:
        """Add edges, and nodes where an end is beyond the last one."""
        self._refuse_block("add_edges")
        at = self.meta.edge(etype)
        src, dst = broadcast_ends(
            as_ids(u, self.idtype, self.device, "u"), as_ids(v, self.idtype, self.device, "v")
        )
        if len(src) == 0:
            return
        if int(min(src.min(), dst.min())) < 0:
            raise InvalidIds("u and v contain negative ids; ids of nodes start at 0")
        for ends, place in zip((src, dst), self.meta.ends[at], strict=True):
            missing = int(ends.max()) + 1 - self._node_frames[place].num_rows
            if missing > 0:
                self.add_nodes(missing, ntype=self.meta.ntypes[place])
        old = self._relations[at]
        self._edge_frames[at].append(len(src), data)
        self._relations[at] = Relation(
            num_src=old.num_src,
            num_dst=old.num_dst,
            made_coo=(torch.cat([old.coo[0], src]), torch.cat([old.coo[1], dst])),
            allowed=old.allowed,
        )
        self._reset_batch()

    def remove_edges(self, eids: Any, etype: Any = None, store_ids: bool = False) -> None:
        """Remove edges; `store_ids` keeps the old ids of the others as `g.edata[dgl.EID]`."""
        self._refuse_block("remove_edges")
        at = self.meta.edge(etype)
        removed = self.edge_id_tensor(eids, etype, "eids")
        kept = _others(removed, self._relations[at].num_edges)
        self._batch_num_edges = _count_kept(self._batch_num_edges, at, kept)
        self._keep_edges(at, kept, store_ids)

    def remove_nodes(self, nids: Any, ntype: str | None = None, store_ids: bool = False) -> None:
        """Remove nodes and their edges; `store_ids` keeps the old ids of the others."""
        self._refuse_block("remove_nodes")
        place = self.meta.node("any", ntype)
        removed = self.node_ids(nids, ntype, what="nids")
        kept = _others(removed, self._node_frames[place].num_rows)
        self._batch_num_nodes = _count_kept(self._batch_num_nodes, place, kept)
        number = torch.full((self._node_frames[place].num_rows,), -1, dtype=self.idtype)
        number = number.to(self.device)
        number[kept.long()] = torch.arange(len(kept), dtype=self.idtype, device=self.device)
        self._node_frames[place] = self._node_frames[place].select(kept)
        if store_ids:
            self._node_frames[place][NID] = kept
        for at, (src_place, dst_place) in enumerate(self.meta.ends):
            if place not in (src_place, dst_place):
                continue
            src, dst = self._relations[at].coo
            src = number[src.long()] if src_place == place else src
            dst = number[dst.long()] if dst_place == place else dst
            staying = ((src >= 0) & (dst >= 0)).nonzero().reshape(-1).to(self.idtype)
            self._batch_num_edges = _count_kept(self._batch_num_edges, at, staying)
            self._relations[at] = Relation(
                num_src=self._node_frames[src_place].num_rows,
                num_dst=self._node_frames[dst_place].num_rows,
                made_coo=(src, dst),
                allowed=self._relations[at].allowed,
            )
            self._keep_edges(at, staying, store_ids)

    def _keep_edges(self, at: int, kept: Tensor, store_ids: bool) -> None:
        allowed = self._relations[at].allowed
        self._relations[at] = self._relations[at].take_edges(kept)
        self._relations[at].allowed = allowed
        self._edge_frames[at] = self._edge_frames[at].select(kept)
        if store_ids:
            self._edge_frames[at][EID] = kept

    def _refuse_block(self, name: str) -> None:
        if self.is_block:
            raise DGLError(f"{name} is not allowed on a block; change the graph it was made of")

    def _reset_batch(self) -> None:
        self._batch_num_nodes = self._batch_num_edges = None

    def set_n_initializer(
        self, initializer: Initializer, field: str | None = None, ntype: str | None = None
    ) -> None:
        """What new rows of a node field hold; without a field, of all fields."""
        self.node_frame(ntype).initializers[field] = initializer

    def set_e_initializer(
        self, initializer: Initializer, field: str | None = None, etype: Any = None
    ) -> None:
        """What new rows of an edge field hold; without a field, of all fields."""
        self.edge_frame(etype).initializers[field] = initializer

    # Copies, and other places.

    def clone(self) -> Self:
        """A graph whose changes do not affect this one; tensors are shared until replaced."""
        made = self.with_parts()
        made._batch_num_nodes = self._batch_num_nodes
        made._batch_num_edges = self._batch_num_edges
        return made

    local_var = clone
    __copy__ = clone

    def to(self, device: Any, **how: Any) -> Self:
        """The graph on a device, features included; itself if it is there."""
        target = torch.device(device)
        same = target.type == self.device.type and target.index in (None, self.device.index)
        frames = [*self._node_frames, *self._edge_frames]
        if same and all(_is_on(frame, target) for frame in frames):
            return self
        move = lambda x: x.to(target, **how) if isinstance(x, Tensor) else x
        return self._converted({"device": target, **how}, move)

    def cpu(self) -> Self:
        """The graph in the memory of the processor."""
        return self.to("cpu")

    def cuda(self, index: int = 0) -> Self:
        """The graph on a GPU."""
        return self.to(torch.device("cuda", index))

    def int(self) -> Self:
        """The graph with ids of 32 bits."""
        return self.astype(torch.int32)

    def long(self) -> Self:
        """The graph with ids of 64 bits."""
        return self.astype(torch.int64)

    def astype(self, idtype: torch.dtype) -> Self:
        """The graph with ids of a type; itself if it has them."""
        if idtype not in (torch.int32, torch.int64):
            raise InvalidIds(f"Expect idtype to be torch.int32 or torch.int64. Got {idtype}.")
        return self if idtype == self.idtype else self._converted({"dtype": idtype}, None)

    def pin_memory_(self) -> Self:
        """Pin the structure and all features, for faster copies to a GPU."""
        if not torch.cuda.is_available():
            raise DGLError("pin_memory_ needs a GPU, and PyTorch sees none")
        frames = [*self._node_frames, *self._edge_frames]
        for frame in frames:
            for name in frame:
                frame[name] = frame[name].pin_memory()
        return self

    def is_pinned(self) -> bool:
        """Whether all features are in pinned memory."""
        frames = [*self._node_frames, *self._edge_frames]
        tensors = [frame[name] for frame in frames for name in frame]
        return bool(tensors) and all(tensor.is_pinned() for tensor in tensors)

    def _converted(self, structure: dict[str, Any], features: Any) -> Self:
        made = self.with_parts(
            relations=[relation.convert(**structure) for relation in self._relations],
            node_frames=[f.convert(features) if features else f.copy() for f in self._node_frames],
            edge_frames=[f.convert(features) if features else f.copy() for f in self._edge_frames],
        )
        for name in ("_batch_num_nodes", "_batch_num_edges"):
            counts = getattr(self, name)
            if counts is not None:
                setattr(made, name, {at: x.to(**structure) for at, x in counts.items()})
        return made

    # Forms.

    def formats(self, formats: str | list[str] | None = None) -> Any:
        """Without an argument, which forms exist; otherwise a graph restricted to some."""
        allowed, made = self._relations[0].allowed, self._relations[0].created
        if formats is None:
            return {
                "created": [name for name in FORMATS if name in made and name in allowed],
                "not created": [name for name in FORMATS if name in allowed and name not in made],
            }
        chosen = [formats] if isinstance(formats, str) else list(formats)
        if not chosen or any(name not in FORMATS for name in chosen):
            raise DGLError(f"formats have to be among {list(FORMATS)}. Got {formats!r}.")
        relations = []
        for old in self._relations:
            kept = {f"made_{name}": getattr(old, name) for name in chosen}
            relations.append(
                Relation(num_src=old.num_src, num_dst=old.num_dst, allowed=tuple(chosen), **kept)
            )
        return self.with_parts(relations=relations)

    def create_formats_(self) -> None:
        """Make all forms now: before threads or processes share the graph."""
        for relation in self._relations:
            for name in relation.allowed:
                getattr(relation, name)


def _others(removed: Tensor, count: int) -> Tensor:
    """The ids that were not removed."""
    staying = torch.ones(count, dtype=torch.bool, device=removed.device)
    staying[removed.long()] = False
    return staying.nonzero().reshape(-1).to(removed.dtype)


def _is_on(frame: Any, device: torch.device) -> bool:
    values = [frame[name] for name in frame]
    return all(not isinstance(x, Tensor) or x.device.type == device.type for x in values)


def _count_kept(
    counts: dict[int, Tensor] | None, at: int, kept: Tensor
) -> dict[int, Tensor] | None:
    """Of batched graphs, how many nodes or edges of a type each has left."""
    if counts is None:
        return None
    before = counts[at].long()
    owners = torch.repeat_interleave(torch.arange(len(before), device=before.device), before)
    left = torch.bincount(owners[kept.long()], minlength=len(before))
    return {**counts, at: left.to(counts[at].dtype)}
