"""Which part a node or edge is in, once all are numbered part by part and, within one, by type.

whole ids     part 0: users 0 .. 9, games 10 .. 14     part 1: users 15 .. 24, games 25 .. 29
user ids      0 .. 9                                   10 .. 19
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphwright.gnn.storage import DGLError

Ranges = Mapping[Any, Any]
"""For each type, the whole ids [begin, end) of each part, as a list of pairs."""


class RangePartitionBook:
    """Where nodes and edges are, by ranges of ids; `partid` is the part that it was loaded for."""

    def __init__(
        self, part_id: int, num_parts: int, node_map: Ranges, edge_map: Ranges,
        ntypes: Mapping[str, int], etypes: Mapping[Any, int],
    ) -> None:  # fmt: skip
        self.partid, self._num_parts = part_id, num_parts
        self.ntypes = sorted(ntypes, key=lambda name: ntypes[name])
        self.canonical_etypes = sorted(etypes, key=lambda name: etypes[name])
        self._nodes = [np.array(node_map[name]).reshape(-1, 2) for name in self.ntypes]
        self._edges = [np.array(edge_map[name]).reshape(-1, 2) for name in self.canonical_etypes]

    def num_partitions(self) -> int:
        """The number of parts."""
        return self._num_parts

    def metadata(self) -> list[dict[str, int]]:
        """The numbers of nodes and edges of each part."""
        return [
            {
                "machine_id": part,
                "num_nodes": sum(int(np.diff(r[part])[0]) for r in self._nodes),
                "num_edges": sum(int(np.diff(r[part])[0]) for r in self._edges),
            }
            for part in range(self._num_parts)
        ]

    def nid2partid(self, nids: Tensor, ntype: str | None = None) -> Tensor:
        """The part of each node; ids of a type, if one is given."""
        return self._part(self._nodes, nids, self._place(self.ntypes, ntype))

    def eid2partid(self, eids: Tensor, etype: Any = None) -> Tensor:
        """The part of each edge; ids of a type, if one is given."""
        return self._part(self._edges, eids, self._place(self.canonical_etypes, etype))

    def partid2nids(self, partid: int, ntype: str | None = None) -> Tensor:
        """The nodes of a part: whole ids, or ids of a type."""
        return self._members(self._nodes, partid, self._place(self.ntypes, ntype))

    def partid2eids(self, partid: int, etype: Any = None) -> Tensor:
        """The edges of a part: whole ids, or ids of a type."""
        return self._members(self._edges, partid, self._place(self.canonical_etypes, etype))

    def map_to_per_ntype(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """The type of each node, and its id within it."""
        return self._per_type(self._nodes, ids)

    def map_to_per_etype(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """The type of each edge, and its id within it."""
        return self._per_type(self._edges, ids)

    def map_to_homo_nid(self, ids: Tensor, ntype: str) -> Tensor:
        """The whole ids of nodes of a type."""
        return self._whole(self._nodes[self._number(self.ntypes, ntype)], ids)

    def map_to_homo_eid(self, ids: Tensor, etype: Any) -> Tensor:
        """The whole ids of edges of a type."""
        return self._whole(self._edges[self._number(self.canonical_etypes, etype)], ids)

    def _place(self, names: list[Any], name: Any) -> int | None:
        return None if name is None or len(names) == 1 else self._number(names, name)

    @staticmethod
    def _number(names: list[Any], name: Any) -> int:
        if name not in names:
            raise DGLError(f"no type {name!r}; the types are {names}")
        return names.index(name)

    def _part(self, ranges: list[Any], ids: Tensor, at: int | None) -> Tensor:
        if at is not None:
            ids = self._whole(ranges[at], ids)
        ends = np.array([max(r[part, 1] for r in ranges) for part in range(self._num_parts)])
        found = np.searchsorted(np.maximum.accumulate(ends), ids.cpu().numpy(), "right")
        return torch.from_numpy(found)

    @staticmethod
    def _members(ranges: list[Any], part: int, at: int | None) -> Tensor:
        if at is None:
            return torch.cat([torch.arange(int(r[part, 0]), int(r[part, 1])) for r in ranges])
        counts = np.diff(ranges[at], axis=1)[:, 0]
        begin = int(counts[:part].sum())
        return torch.arange(begin, begin + int(counts[part]))

    @staticmethod
    def _whole(ranges: Any, ids: Tensor) -> Tensor:
        counts = np.diff(ranges, axis=1)[:, 0]
        ends = np.cumsum(counts)
        values = ids.cpu().numpy()
        if len(values) and not 0 <= values.min() <= values.max() < ends[-1]:
            raise DGLError(f"ids go from 0 to {ends[-1] - 1}, but there is {values.max()}")
        part = np.searchsorted(ends, values, "right")
        return torch.from_numpy(values - (ends - counts)[part] + ranges[part, 0])

    @staticmethod
    def _per_type(ranges: list[Any], ids: Tensor) -> tuple[Tensor, Tensor]:
        values = ids.cpu().numpy()
        kinds, own = np.full(len(values), -1), np.full(len(values), -1)
        for at, table in enumerate(ranges):
            before = 0
            for begin, end in table:
                inside = (values >= begin) & (values < end)
                kinds[inside], own[inside] = at, values[inside] - begin + before
                before += end - begin
        return torch.from_numpy(kinds), torch.from_numpy(own)
