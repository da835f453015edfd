"""To and from other libraries: SciPy and NetworkX."""

from __future__ import annotations

from collections.abc import Sequence
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


def _column(values: list[Any]) -> Tensor:
    if values and isinstance(values[0], Tensor):
        return torch.stack(values)
    return torch.as_tensor(np.asarray(values))
