"""Graphs from tensors: `graph`, `heterograph` and `create_block`.

The edges of one type are given as

    (src, dst)                                   tensors, arrays, lists
    [(0, 1), (1, 2)]                             a list of pairs
    ("coo", (src, dst))
    ("csr", (indptr, indices, edge_ids))         "csc" likewise; empty edge_ids number in order
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphwright.gnn.graph.base import frames_of
from graphwright.gnn.graph.graph import DGLBlock, DGLGraph
from graphwright.gnn.storage import (
    ID_TYPES,
    Compressed,
    DGLError,
    EdgeType,
    Frame,
    InvalidIds,
    Metagraph,
    Relation,
)


def graph(
    data: Any,
    *,
    num_nodes: int | None = None,
    idtype: torch.dtype | None = None,
    device: Any = None,
    row_sorted: bool = False,
    col_sorted: bool = False,
) -> DGLGraph:
    """A graph with one type of nodes and one of edges.

    The number of nodes is the largest id plus one, unless it is given. Ids keep the type of the
    tensors given, 64 bits for anything else. `row_sorted` and `col_sorted` are DGL's hints; whether
    edges are sorted is found out anyway.
    """
    form, parts = read_edges(data, idtype, device)
    if form == "coo":
        least = max(largest(parts[0]), largest(parts[1])) + 1
    else:
        least = max(len(parts[0]) - 1, largest(parts[1]) + 1)
    count = _checked_count(least, num_nodes)
    relation = make_relation(form, parts, count, count)
    return DGLGraph(Metagraph(("_N",), (("_N", "_E", "_N"),)), [relation], [Frame(count)])


def heterograph(
    data_dict: Mapping[EdgeType, Any],
    num_nodes_dict: Mapping[str, int] | None = None,
    idtype: torch.dtype | None = None,
    device: Any = None,
) -> DGLGraph:
    """A graph with typed nodes and edges, from the edges of each (source, name, destination)."""
    if not data_dict:
        raise DGLError("data_dict has no edge types; a graph needs at least one")
    keys: list[Any] = list(data_dict)
    for etype in keys:
        if not (isinstance(etype, tuple) and len(etype) == 3):
            raise DGLError(
                f"dict keys have to be (source type, edge type, destination type). Got {etype!r}."
            )
    given = {etype: read_edges(data, idtype, device) for etype, data in data_dict.items()}
    _check_alike(given)
    least: dict[str, int] = {}
    for (src, _, dst), (form, parts) in given.items():
        rows, columns = _extent(form, parts)
        least[src] = max(least.get(src, 0), rows)
        least[dst] = max(least.get(dst, 0), columns)
    if num_nodes_dict is None:
        counts = least
    else:
        missing = set(least) - set(num_nodes_dict)
        if missing:
            raise DGLError(f"num_nodes_dict has no number for node types {sorted(missing)}")
        counts = {
            ntype: _checked_count(least.get(ntype, 0), count, ntype)
            for ntype, count in num_nodes_dict.items()
        }
    meta = Metagraph.of(sorted(given), counts)
    relations = [
        make_relation(*given[etype], counts[etype[0]], counts[etype[2]]) for etype in meta.etypes
    ]
    return DGLGraph(meta, relations, frames_of(counts, meta.ntypes))


def create_block(
    data_dict: Any,
    num_src_nodes: Any = None,
    num_dst_nodes: Any = None,
    idtype: torch.dtype | None = None,
    device: Any = None,
    *,
    node_count_check: bool = True,
) -> DGLBlock:
    """A block: sources and destinations are numbered apart, and by default include each other."""
    if not isinstance(data_dict, Mapping):
        data_dict = {("_N", "_E", "_N"): data_dict}
        num_src_nodes = None if num_src_nodes is None else {"_N": num_src_nodes}
        num_dst_nodes = None if num_dst_nodes is None else {"_N": num_dst_nodes}
    given = {etype: read_edges(data, idtype, device) for etype, data in data_dict.items()}
    _check_alike(given)
    sources: dict[str, int] = dict.fromkeys(num_src_nodes or (), 0)
    destinations: dict[str, int] = dict.fromkeys(num_dst_nodes or (), 0)
    for (src, _, dst), (form, parts) in given.items():
        rows, columns = _extent(form, parts)
        sources[src] = max(sources.get(src, 0), rows)
        destinations[dst] = max(destinations.get(dst, 0), columns)
    for least, named in ((sources, num_src_nodes), (destinations, num_dst_nodes)):
        for ntype, count in (named or {}).items():
            least[ntype] = _checked_count(least[ntype], int(count), ntype)
    if node_count_check:
        for ntype, count in destinations.items():
            if ntype in sources and count > sources[ntype]:
                raise DGLError(
                    f"The number of nodes in the destination side has to be at most the number in "
                    f"the source side, but type '{ntype}' has {count} and {sources[ntype]}."
                )
    src_types, dst_types = sorted(sources), sorted(destinations)
    meta = Metagraph((*src_types, *dst_types), tuple(sorted(given)), len(src_types))
    relations = [
        make_relation(*given[etype], sources[etype[0]], destinations[etype[2]])
        for etype in meta.etypes
    ]
    frames = [*frames_of(sources, src_types), *frames_of(destinations, dst_types)]
    return DGLBlock(meta, relations, frames)


def read_edges(data: Any, idtype: Any, device: Any) -> tuple[str, tuple[Tensor, ...]]:
    """The form in which edges are given, and its tensors of one type on one device."""
    form = "coo"
    if isinstance(data, tuple) and len(data) == 2 and isinstance(data[0], str):
        form, data = data
    if hasattr(data, "tocoo") or hasattr(data, "adj"):
        raise DGLError(
            f"{type(data).__name__} is no edge data; use dgl.from_scipy or dgl.from_networkx"
        )
    if form not in ("coo", "csr", "csc"):
        raise DGLError(f'edges have to be given as "coo", "csr" or "csc". Got {form!r}.')
    if form == "coo" and isinstance(data, list) and (not data or _is_pair(data[0])):
        pairs = np.asarray(data, dtype=np.int64).reshape(-1, 2)
        data = (pairs[:, 0].copy(), pairs[:, 1].copy())
    if not isinstance(data, (tuple, list)) or len(data) != (2 if form == "coo" else 3):
        needed = "(src, dst)" if form == "coo" else "(indptr, indices, edge_ids)"
        raise DGLError(f'Expect edges of form "{form}" to be {needed}. Got {data!r:.80}.')
    parts = tuple(_id_tensor(part, idtype, device) for part in data)
    kinds = {part.dtype for part in parts if len(part)} or {parts[0].dtype}
    if len(kinds) > 1:
        raise InvalidIds(f"Expect ids of one data type. Got {sorted(map(str, kinds))}.")
    dtype = kinds.pop()
    parts = tuple(part.to(dtype) for part in parts)
    if form == "coo" and len(parts[0]) != len(parts[1]):
        raise DGLError(
            f"Expect source and destination ids to have the same length. Got {len(parts[0])} and "
            f"{len(parts[1])}."
        )
    for part in parts[1:] if form != "coo" else parts:
        if len(part) and int(part.min()) < 0:
            raise InvalidIds("Invalid node id: ids are at least 0.")
    return form, parts


def make_relation(form: str, parts: tuple[Tensor, ...], num_src: int, num_dst: int) -> Relation:
    """A relation of edges as they were read."""
    if form == "coo":
        return Relation(num_src=num_src, num_dst=num_dst, made_coo=(parts[0], parts[1]))
    indptr, indices, edge_ids = parts
    rows = num_src if form == "csr" else num_dst
    last = indptr[-1] if len(indptr) else indptr.new_zeros(())
    if len(indptr) == 0 or int(indptr[0]) != 0 or int(last) != len(indices):
        raise DGLError(
            f"indptr has to begin with 0 and end with the number of indices, {len(indices)}"
        )
    if bool((indptr.diff() < 0).any()):
        raise DGLError("indptr has to be in ascending order")
    if len(indptr) - 1 < rows:
        indptr = torch.cat([indptr, last.expand(rows + 1 - len(indptr))])
    made = Compressed(indptr, indices, edge_ids if len(edge_ids) else None)
    if form == "csr":
        return Relation(num_src=num_src, num_dst=num_dst, made_csr=made)
    return Relation(num_src=num_src, num_dst=num_dst, made_csc=made)


def largest(ids: Tensor) -> int:
    """The largest id, -1 if there is none."""
    return int(ids.max()) if len(ids) else -1


def _extent(form: str, parts: tuple[Tensor, ...]) -> tuple[int, int]:
    if form == "coo":
        return largest(parts[0]) + 1, largest(parts[1]) + 1
    rows, columns = len(parts[0]) - 1, largest(parts[1]) + 1
    return (rows, columns) if form == "csr" else (columns, rows)


def _checked_count(least: int, given: int | None, ntype: str | None = None) -> int:
    if given is not None and given < least:
        of = "" if ntype is None else f" of type '{ntype}'"
        raise DGLError(
            f"The num_nodes argument must be larger than the max ID in the data, but got {given} "
            f"nodes{of} and an id of {least - 1}."
        )
    return least if given is None else given


def _check_alike(given: Mapping[EdgeType, tuple[str, tuple[Tensor, ...]]]) -> None:
    for what in ("dtype", "device"):
        kinds = {getattr(parts[0], what) for _, parts in given.values()}
        if len(kinds) > 1:
            raise InvalidIds(
                f"Expect the edges of all types to have one {what}. Got {sorted(map(str, kinds))}."
            )


def _is_pair(entry: Any) -> bool:
    return isinstance(entry, (tuple, list)) and len(entry) == 2


def _id_tensor(part: Any, idtype: torch.dtype | None, device: Any) -> Tensor:
    if idtype not in (None, *ID_TYPES):
        raise InvalidIds(f"idtype has to be torch.int32 or torch.int64. Got {idtype!r}.")
    if not isinstance(part, Tensor):
        array = np.asarray(part if not hasattr(part, "__next__") else list(part))
        if array.size and array.dtype.kind not in "iu":
            raise InvalidIds(f"ids have to be integers. Got {array.dtype}: {part!r:.60}.")
        part = torch.as_tensor(array.astype(array.dtype if array.dtype == np.int32 else np.int64))
    if part.dtype not in ID_TYPES:
        raise InvalidIds(f"ids have to be of type torch.int32 or torch.int64. Got {part.dtype}.")
    if part.dim() != 1:
        raise InvalidIds(f"ids have to be a 1-D tensor. Got shape {tuple(part.shape)}.")
    ids: Tensor = part.to(device=part.device if device is None else device)
    return ids.to(idtype or ids.dtype)
