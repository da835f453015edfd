"""To and from other libraries: SciPy, NetworkX, and one type or many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphwright.gnn.graph.base import EID, ETYPE, NID, NTYPE
from graphwright.gnn.graph.create import graph, heterograph
from graphwright.gnn.graph.graph import DGLGraph
from graphwright.gnn.storage import DGLError


def from_scipy(
    sp_mat: Any, eweight_name: str | None = None, idtype: Any = None, device: Any = None
) -> DGLGraph:
    """A graph of a square SciPy matrix: an edge for each entry, rows are sources."""
    if sp_mat.shape[0] != sp_mat.shape[1]:
        raise DGLError(f"Expect the number of rows to be that of columns. Got {sp_mat.shape}.")
    coo = sp_mat.tocoo()
    pair = (torch.as_tensor(coo.row).long(), torch.as_tensor(coo.col).long())
    made = graph(pair, num_nodes=sp_mat.shape[0], idtype=idtype, device=device)
    if eweight_name is not None:
        made.edata[eweight_name] = torch.as_tensor(coo.data).to(made.device)
    return made


def bipartite_from_scipy(
    sp_mat: Any, utype: str, etype: str, vtype: str, eweight_name: str | None = None,
    idtype: Any = None, device: Any = None,
) -> DGLGraph:  # fmt: skip
    """A graph of two node types, of the rows and columns of a SciPy matrix."""
    coo = sp_mat.tocoo()
    pair = (torch.as_tensor(coo.row).long(), torch.as_tensor(coo.col).long())
    counts = {utype: sp_mat.shape[0], vtype: sp_mat.shape[1]}
    made = heterograph({(utype, etype, vtype): pair}, counts, idtype, device)
    if eweight_name is not None:
        made.edata[eweight_name] = torch.as_tensor(coo.data).to(made.device)
    return made


def from_networkx(
    nx_graph: Any,
    node_attrs: Sequence[str] | None = None,
    edge_attrs: Sequence[str] | None = None,
    edge_id_attr_name: str | None = None,
    idtype: Any = None,
    device: Any = None,
) -> DGLGraph:
    """A graph of a NetworkX graph; an undirected edge becomes two.

    Nodes are numbered in sorted order. `edge_id_attr_name` names the attribute that numbers edges.
    """
    if not nx_graph.is_directed():
        nx_graph = nx_graph.to_directed()
    nodes = sorted(nx_graph.nodes())
    number = {node: at for at, node in enumerate(nodes)}
    edges = [(number[u], number[v], data) for u, v, data in nx_graph.edges(data=True)]
    if edge_id_attr_name is not None:
        edges.sort(key=lambda edge: edge[2][edge_id_attr_name])
    pair = ([u for u, _, _ in edges], [v for _, v, _ in edges])
    made = graph(pair, num_nodes=len(nodes), idtype=idtype, device=device)
    for name in node_attrs or ():
        made.ndata[name] = _column([nx_graph.nodes[node][name] for node in nodes])
    for name in edge_attrs or ():
        made.edata[name] = _column([data[name] for _, _, data in edges])
    return made


def to_networkx(
    g: DGLGraph, node_attrs: Sequence[str] | None = None, edge_attrs: Sequence[str] | None = None
) -> Any:
    """A NetworkX MultiDiGraph, whose edges have their numbers as `id`."""
    import networkx

    made = networkx.MultiDiGraph()
    for node in range(g.num_nodes()):
        made.add_node(node, **{name: g.ndata[name][node] for name in node_attrs or ()})
    src, dst = g.edges()
    for edge, (u, v) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
        made.add_edge(u, v, id=edge, **{name: g.edata[name][edge] for name in edge_attrs or ()})
    return made


def to_homogeneous(
    g: DGLGraph, ndata: Any = None, edata: Any = None, store_type: bool = True,
    return_count: bool = False,
) -> Any:  # fmt: skip
    """One node type and one edge type of many: types one after another, kept as `dgl.NTYPE`."""
    counts = [frame.num_rows for frame in g._node_frames]
    first = np.concatenate([[0], np.cumsum(counts)]).tolist()
    src = [r.coo[0] + first[a] for (a, _), r in zip(g.meta.ends, g._relations, strict=True)]
    dst = [r.coo[1] + first[b] for (_, b), r in zip(g.meta.ends, g._relations, strict=True)]
    made = graph((torch.cat(src), torch.cat(dst)), num_nodes=first[-1])
    edges = [relation.num_edges for relation in g._relations]
    for name in ndata or ():
        made.ndata[name] = torch.cat([frame[name] for frame in g._node_frames])
    for name in edata or ():
        made.edata[name] = torch.cat([frame[name] for frame in g._edge_frames])
    if store_type:
        made.ndata[NTYPE], made.ndata[NID] = _numbered(counts, g)
        made.edata[ETYPE], made.edata[EID] = _numbered(edges, g)
    return (made, counts, edges) if return_count else made


def to_heterogeneous(
    g: DGLGraph, ntypes: Sequence[str], etypes: Sequence[str], ntype_field: str = NTYPE,
    etype_field: str = ETYPE,
) -> DGLGraph:  # fmt: skip
    """Typed nodes and edges of a graph whose features say the type of each."""
    kinds, relations = g.ndata[ntype_field].long(), g.edata[etype_field].long()
    within = torch.zeros_like(kinds)
    counts = {}
    for at, ntype in enumerate(ntypes):
        mine = (kinds == at).nonzero().reshape(-1)
        within[mine] = torch.arange(len(mine), device=mine.device)
        counts[ntype] = len(mine)
    src, dst = g.edges()
    data, origin = {}, {}
    for at, etype in enumerate(etypes):
        chosen = (relations == at).nonzero().reshape(-1)
        ends = torch.stack([kinds[src[chosen].long()], kinds[dst[chosen].long()]])
        for a, b in torch.unique(ends, dim=1).T.tolist():
            mine = chosen[(ends[0] == a) & (ends[1] == b)]
            pair = (within[src[mine].long()], within[dst[mine].long()])
            data[ntypes[a], etype, ntypes[b]] = tuple(part.to(g.idtype) for part in pair)
            origin[ntypes[a], etype, ntypes[b]] = mine
    made = heterograph(data, counts)
    for at, ntype in enumerate(ntypes):
        mine = (kinds == at).nonzero().reshape(-1)
        frame = made.node_frame(ntype)
        for name in g.ndata:
            if name != ntype_field:
                frame[name] = g.ndata[name][mine]
        frame[NID] = mine.to(g.idtype)
    for triplet, mine in origin.items():
        edge_frame = made.edge_frame(triplet)
        for name in g.edata:
            if name != etype_field:
                edge_frame[name] = g.edata[name][mine]
        edge_frame[EID] = mine.to(g.idtype)
    return made


def _numbered(counts: list[int], like: DGLGraph) -> tuple[Tensor, Tensor]:
    """For nodes or edges type by type: the type's number, and the id within the type."""
    sizes = torch.tensor(counts)
    kinds = torch.repeat_interleave(torch.arange(len(counts)), sizes)
    ids = torch.cat([torch.arange(count) for count in counts])
    return kinds.to(like.device, like.idtype), ids.to(like.device, like.idtype)


def _column(values: list[Any]) -> Tensor:
    if values and isinstance(values[0], Tensor):
        return torch.stack(values)
    return torch.as_tensor(np.asarray(values))
