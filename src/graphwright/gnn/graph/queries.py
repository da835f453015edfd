"""Questions about a graph: types, counts, edges between nodes, degrees, matrices."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphwright.gnn.graph.base import (
    ALL,
    GraphBase,
    between_all,
    broadcast_ends,
    find_between,
    match_edges,
    row_entries,
)
from graphwright.gnn.graph.views import EdgeView, NodeView, features_view
from graphwright.gnn.storage import Compressed, DGLError, EdgeType, Frame, Side, as_ids


class Scheme(NamedTuple):
    """The shape and type of one row of a feature."""

    shape: tuple[int, ...]
    dtype: Any


class Queries(GraphBase):
    """What can be asked of a graph without changing it."""

    # Types.

    @property
    def ntypes(self) -> list[str]:
        """The names of the node types."""
        return list(self.meta.ntypes)

    @property
    def etypes(self) -> list[str]:
        """The names of the edge types, which need not differ."""
        return [name for _, name, _ in self.meta.etypes]

    @property
    def canonical_etypes(self) -> list[EdgeType]:
        """The edge types as (source type, edge type, destination type)."""
        return list(self.meta.etypes)

    @property
    def srctypes(self) -> list[str]:
        """Node types on the source side."""
        return [self.meta.ntypes[at] for at in self.meta.side("src")]

    @property
    def dsttypes(self) -> list[str]:
        """Node types on the destination side."""
        return [self.meta.ntypes[at] for at in self.meta.side("dst")]

    @property
    def is_unibipartite(self) -> bool:
        """Whether every edge leads from one set of node types to another."""
        return self.meta.is_unibipartite

    @property
    def is_homogeneous(self) -> bool:
        """Whether there is one node type and one edge type."""
        return len(self.meta.ntypes) == 1 and len(self.meta.etypes) == 1

    @property
    def is_block(self) -> bool:
        """Whether this is a block: sources and destinations are numbered apart."""
        return self.meta.is_block

    @property
    def is_multigraph(self) -> bool:
        """Whether some pair of nodes has several edges of one type."""
        for relation in self._relations:
            src, dst = relation.coo
            keys = src.long() * max(relation.num_dst, 1) + dst.long()
            if len(torch.unique(keys)) < len(keys):
                return True
        return False

    def to_canonical_etype(self, etype: str | EdgeType) -> EdgeType:
        """The triplet of an edge type."""
        return self.meta.etypes[self.meta.edge(etype)]

    def get_ntype_id(self, ntype: str | None) -> int:
        """The place of a node type in `ntypes`."""
        return self.meta.node("any", ntype)

    def get_etype_id(self, etype: str | EdgeType | None) -> int:
        """The place of an edge type in `canonical_etypes`."""
        return self.meta.edge(etype)

    def metagraph(self) -> Any:
        """The types as a NetworkX MultiDiGraph."""
        import networkx

        made = networkx.MultiDiGraph()
        made.add_nodes_from(self.meta.ntypes)
        for src, name, dst in self.meta.etypes:
            made.add_edge(src, dst, key=name)
        return made

    # Counts.

    def num_nodes(self, ntype: str | None = None) -> int:
        """The number of nodes of a type, or of all types."""
        if ntype is None:
            return sum(frame.num_rows for frame in self._node_frames)
        if self.meta.is_block:
            places = [at for at, name in enumerate(self.meta.ntypes) if name == ntype]
            if len(places) > 1:
                return sum(self._node_frames[at].num_rows for at in places)
        return self.node_frame(ntype).num_rows

    def num_src_nodes(self, ntype: str | None = None) -> int:
        """The number of nodes of a type on the source side."""
        return self._count("src", ntype)

    def num_dst_nodes(self, ntype: str | None = None) -> int:
        """The number of nodes of a type on the destination side."""
        return self._count("dst", ntype)

    def _count(self, side: Side, ntype: str | None) -> int:
        if ntype is None:
            return sum(self._node_frames[at].num_rows for at in self.meta.side(side))
        return self.node_frame(ntype, side).num_rows

    def num_edges(self, etype: str | EdgeType | None = None) -> int:
        """The number of edges of a type, or of all types."""
        if etype is None:
            return sum(relation.num_edges for relation in self._relations)
        return self.relation(etype).num_edges

    number_of_nodes = num_nodes
    number_of_edges = num_edges
    number_of_src_nodes = num_src_nodes
    number_of_dst_nodes = num_dst_nodes

    def __len__(self) -> int:
        return self.num_nodes()

    def __bool__(self) -> bool:
        return True

    # Features.

    @property
    def ndata(self) -> MutableMapping[str, Any]:
        """Node features by field name."""
        return features_view(self._node_frames, self.meta.ntypes)

    @property
    def edata(self) -> MutableMapping[str, Any]:
        """Edge features by field name."""
        return features_view(self._edge_frames, self.meta.etypes)

    @property
    def srcdata(self) -> MutableMapping[str, Any]:
        """Features of the source side."""
        return self._side_data("src")

    @property
    def dstdata(self) -> MutableMapping[str, Any]:
        """Features of the destination side."""
        return self._side_data("dst")

    def _side_data(self, side: Side) -> MutableMapping[str, Any]:
        places = self.meta.side(side)
        frames = [self._node_frames[at] for at in places]
        return features_view(frames, [self.meta.ntypes[at] for at in places])

    @property
    def nodes(self) -> NodeView:
        """Node ids when called; features of a type or of some nodes by `[...]`."""
        return NodeView(self)

    @property
    def srcnodes(self) -> NodeView:
        """The same for the source side."""
        return NodeView(self, "src")

    @property
    def dstnodes(self) -> NodeView:
        """The same for the destination side."""
        return NodeView(self, "dst")

    @property
    def edges(self) -> EdgeView:
        """The ends of edges when called; features of a type or of some edges by `[...]`."""
        return EdgeView(self)

    def all_nodes(self, ntype: str | None = None, side: Side = "any") -> Tensor:
        """All ids of a node type."""
        count = self.node_frame(ntype, side).num_rows
        return torch.arange(count, dtype=self.idtype, device=self.device)

    def node_attr_schemes(self, ntype: str | None = None) -> dict[str, Scheme]:
        """The shape and type of a row of each node feature."""
        return _schemes(self.node_frame(ntype))

    def edge_attr_schemes(self, etype: str | EdgeType | None = None) -> dict[str, Scheme]:
        """The shape and type of a row of each edge feature."""
        return _schemes(self.edge_frame(etype))

    # Edges.

    def all_edges(self, form: str = "uv", order: str = "eid", etype: Any = None) -> Any:
        """All edges: `form` is "uv", "eid" or "all"; `order` is "eid" or "srcdst"."""
        relation = self.relation(etype)
        src, dst = relation.coo
        ids = torch.arange(len(src), dtype=self.idtype, device=self.device)
        if order == "srcdst":
            by_dst = torch.argsort(dst, stable=True)
            sort = by_dst[torch.argsort(src[by_dst], stable=True)]
            src, dst, ids = src[sort], dst[sort], ids[sort]
        elif order not in ("eid", None):
            raise DGLError(f'order has to be "eid" or "srcdst". Got {order!r}.')
        return _in_form(form, src, dst, ids)

    def in_edges(self, v: Any, form: str = "uv", etype: Any = None) -> Any:
        """The edges into some nodes."""
        relation = self.relation(etype)
        nodes = as_ids(v, self.idtype, self.device, "v", relation.num_dst)
        src, dst, ids = _rows(relation.csc, nodes)
        return _in_form(form, src, dst, ids)

    def out_edges(self, u: Any, form: str = "uv", etype: Any = None) -> Any:
        """The edges out of some nodes."""
        relation = self.relation(etype)
        nodes = as_ids(u, self.idtype, self.device, "u", relation.num_src)
        dst, src, ids = _rows(relation.csr, nodes)
        return _in_form(form, src, dst, ids)

    def find_edges(self, eid: Any, etype: Any = None) -> tuple[Tensor, Tensor]:
        """The ends of some edges."""
        return self.relation(etype).find(self.edge_id_tensor(eid, etype, "eid"))

    def edge_ids(self, u: Any, v: Any, return_uv: bool = False, etype: Any = None) -> Any:
        """The edge between each pair; with `return_uv` every edge, with its ends."""
        relation = self.relation(etype)
        src = as_ids(u, self.idtype, self.device, "u", relation.num_src)
        dst = as_ids(v, self.idtype, self.device, "v", relation.num_dst)
        if return_uv:
            return between_all(relation, *broadcast_ends(src, dst))
        edges = match_edges(relation, src, dst)
        return int(edges) if _is_number(u) and _is_number(v) else edges

    def has_edges_between(self, u: Any, v: Any, etype: Any = None) -> Any:
        """Whether each pair has an edge: True or False for two numbers, otherwise a tensor."""
        relation = self.relation(etype)
        src = as_ids(u, self.idtype, self.device, "u", relation.num_src)
        dst = as_ids(v, self.idtype, self.device, "v", relation.num_dst)
        found, _ = find_between(relation, *broadcast_ends(src, dst))
        return bool(found) if _is_number(u) and _is_number(v) else found

    def has_nodes(self, vid: Any, ntype: str | None = None) -> Any:
        """Whether each id is a node's: True or False for a number, otherwise a tensor."""
        count = self.node_frame(ntype).num_rows
        ids = as_ids(vid, self.idtype, self.device, "vid")
        inside = (ids >= 0) & (ids < count)
        return bool(inside) if _is_number(vid) else inside

    def predecessors(self, v: int, etype: Any = None) -> Tensor:
        """The sources of the edges into a node."""
        sources: Tensor = self.in_edges(v, etype=etype)[0]
        return sources

    def successors(self, v: int, etype: Any = None) -> Tensor:
        """The destinations of the edges out of a node."""
        destinations: Tensor = self.out_edges(v, etype=etype)[1]
        return destinations

    def in_degrees(self, v: Any = ALL, etype: Any = None) -> Any:
        """The number of edges into nodes; a number for one node."""
        relation = self.relation(etype)
        return self._degrees(relation.in_degrees(), v, relation.num_dst)

    def out_degrees(self, u: Any = ALL, etype: Any = None) -> Any:
        """The number of edges out of nodes; a number for one node."""
        relation = self.relation(etype)
        return self._degrees(relation.out_degrees(), u, relation.num_src)

    def _degrees(self, degrees: Tensor, nodes: Any, limit: int) -> Any:
        if isinstance(nodes, str) and nodes == ALL:
            return degrees
        chosen = degrees[as_ids(nodes, self.idtype, self.device, "nodes", limit).long()]
        return int(chosen) if _is_number(nodes) else chosen

    # Matrices.

    def adj_external(
        self, transpose: bool = False, ctx: Any = "cpu", scipy_fmt: str | None = None,
        etype: Any = None,
    ) -> Any:  # fmt: skip
        """The adjacency matrix, rows for sources: a sparse tensor, or a SciPy matrix."""
        relation = self.relation(etype)
        rows, columns = relation.coo
        shape = (relation.num_src, relation.num_dst)
        if transpose:
            rows, columns, shape = columns, rows, (shape[1], shape[0])
        if scipy_fmt is not None:
            from scipy.sparse import coo_matrix

            entries = torch.ones(len(rows)).numpy()
            pair = (rows.cpu().numpy(), columns.cpu().numpy())
            matrix: Any = coo_matrix((entries, pair), shape=shape)
            return matrix.asformat(scipy_fmt)
        index = torch.stack([rows, columns]).long()
        ones = torch.ones(len(rows), device=self.device)
        return torch.sparse_coo_tensor(index, ones, shape, check_invariants=False).to(ctx)

    def adj(self, etype: Any = None, eweight_name: str | None = None) -> Tensor:
        """The adjacency matrix as a sparse tensor, with an edge feature as its values."""
        relation = self.relation(etype)
        values = self.edge_frame(etype)[eweight_name] if eweight_name else None
        if values is None:
            values = torch.ones(relation.num_edges, device=self.device)
        index = torch.stack(relation.coo).long()
        shape = (relation.num_src, relation.num_dst, *values.shape[1:])
        return torch.sparse_coo_tensor(index, values, shape, check_invariants=False)

    adjacency_matrix = adj

    def adj_tensors(self, fmt: str, etype: Any = None) -> tuple[Tensor, ...]:
        """The tensors of a form: (src, dst) of "coo", (indptr, indices, edge ids) otherwise."""
        relation = self.relation(etype)
        if fmt == "coo":
            return relation.coo
        form = {"csr": relation.csr, "csc": relation.csc}.get(fmt)
        if form is None:
            raise DGLError(f'format has to be "coo", "csr" or "csc". Got {fmt!r}.')
        return form.indptr, form.indices, form.numbered()

    def inc(self, typestr: str, ctx: Any = "cpu", etype: Any = None) -> Tensor:
        """The incidence matrix of "in", "out" or "both", rows for nodes, columns for edges."""
        relation = self.relation(etype)
        src, dst = relation.coo
        edges = torch.arange(len(src), device=self.device)
        ones = torch.ones(len(src), device=self.device)
        if typestr == "both":
            apart = src != dst
            nodes = torch.cat([src[apart], dst[apart]])
            columns = torch.cat([edges[apart], edges[apart]])
            values = torch.cat([-ones[apart], ones[apart]])
        elif typestr in ("in", "out"):
            nodes, columns, values = (dst if typestr == "in" else src), edges, ones
        else:
            raise DGLError(f'incidence matrix has to be "in", "out" or "both". Got {typestr!r}.')
        rows = relation.num_src if typestr == "out" else relation.num_dst
        index = torch.stack([nodes.long(), columns])
        return torch.sparse_coo_tensor(index, values, (rows, len(src)), check_invariants=False).to(
            ctx
        )

    incidence_matrix = inc


def _rows(form: Compressed, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The other ends, the nodes themselves and the ids of the edges of some rows."""
    entries, place = row_entries(form.indptr, nodes)
    return form.indices[entries], nodes[place], form.numbered()[entries]


def _in_form(form: str, src: Tensor, dst: Tensor, ids: Tensor) -> Any:
    match form:
        case "uv":
            return src, dst
        case "eid":
            return ids
        case "all":
            return src, dst, ids
        case _:
            raise DGLError(f'Invalid form: {form!r}. Must be "all", "uv" or "eid".')


def _is_number(given: Any) -> bool:
    return isinstance(given, int) or (isinstance(given, Tensor) and given.dim() == 0)


def _schemes(frame: Frame) -> dict[str, Scheme]:
    return {name: Scheme(tuple(frame[name].shape[1:]), frame[name].dtype) for name in frame}
