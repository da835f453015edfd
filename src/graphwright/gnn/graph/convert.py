"""To and from other libraries: SciPy and NetworkX."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor

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


def bipartite_from_networkx(
    nx_graph: Any,
    utype: str,
    etype: str,
    vtype: str,
    u_attrs: Sequence[str] | None = None,
    e_attrs: Sequence[str] | None = None,
    v_attrs: Sequence[str] | None = None,
    edge_id_attr_name: str | None = None,
    idtype: Any = None,
    device: Any = None,
) -> DGLGraph:
    """A graph of two node types, of a directed NetworkX graph whose nodes have `bipartite` 0 or 1.

    Edges lead from nodes with 0 to nodes with 1; nodes of a type are numbered in sorted order.
    """
    if not nx_graph.is_directed():
        raise DGLError("Expect the NetworkX graph to be directed.")
    sides: tuple[list[Any], list[Any]] = ([], [])
    for node, data in nx_graph.nodes(data=True):
        if data.get("bipartite") not in (0, 1):
            raise DGLError(
                f"Expect the attribute 'bipartite' of node {node!r} to be 0 or 1. Got "
                f"{data.get('bipartite')!r}."
            )
        sides[data["bipartite"]].append(node)
    numbers = [{node: at for at, node in enumerate(sorted(side))} for side in sides]
    edges = list(nx_graph.edges(data=True))
    wrong = next((f"{u!r} -> {v!r}" for u, v, _ in edges if u not in numbers[0]), None)
    wrong = wrong or next((f"{u!r} -> {v!r}" for u, v, _ in edges if v not in numbers[1]), None)
    if wrong:
        raise DGLError(f"Expect edges from nodes with bipartite=0 to those with 1. Got {wrong}.")
    if edge_id_attr_name is not None:
        edges.sort(key=lambda edge: edge[2][edge_id_attr_name])
    pair = [numbers[0][u] for u, _, _ in edges], [numbers[1][v] for _, v, _ in edges]
    counts = {utype: len(numbers[0]), vtype: len(numbers[1])}
    made = heterograph({(utype, etype, vtype): pair}, counts, idtype, device)
    for ntype, order, names in ((utype, numbers[0], u_attrs), (vtype, numbers[1], v_attrs)):
        for name in names or ():
            made.nodes[ntype].data[name] = _column([nx_graph.nodes[n][name] for n in order])
    for name in e_attrs or ():
        made.edata[name] = _column([data[name] for _, _, data in edges])
    return made


def to_networkx(
    g: DGLGraph,
    node_attrs: Sequence[str] | None = None,
    edge_attrs: Sequence[str] | None = None,
    ntype_attr: str = "ntype",
    etype_attr: str = "etype",
    eid_attr: str = "id",
) -> Any:
    """A NetworkX MultiDiGraph, whose edges have their numbers as `eid_attr`.

    Of a graph with types, nodes and edges are numbered one type after another; `ntype_attr` and
    `etype_attr` name the attributes that hold the types.
    """
    import networkx

    made, starts = networkx.MultiDiGraph(), {}
    for ntype in g.ntypes:
        starts[ntype], frame = made.number_of_nodes(), g.node_frame(ntype)
        kind = {} if g.is_homogeneous else {ntype_attr: ntype}
        names = [name for name in node_attrs or () if g.is_homogeneous or name in frame]
        for node in range(frame.num_rows):
            own = {name: frame[name][node] for name in names}
            made.add_node(starts[ntype] + node, **kind, **own)
    number = count()
    for etype in g.canonical_etypes:
        frame, (src, dst) = g.edge_frame(etype), g.relation(etype).coo
        own_type: dict[str, Any] = {} if g.is_homogeneous else {etype_attr: etype}
        names = [name for name in edge_attrs or () if g.is_homogeneous or name in frame]
        for edge, (u, v) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
            own = {eid_attr: next(number), **{name: frame[name][edge] for name in names}}
            made.add_edge(starts[etype[0]] + u, starts[etype[2]] + v, **own, **own_type)
    return made


def _column(values: list[Any]) -> Tensor:
    if values and isinstance(values[0], Tensor):
        return torch.stack(values)
    return torch.as_tensor(np.asarray(values))
