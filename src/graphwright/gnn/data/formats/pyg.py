"""`Data` and `HeteroData` objects of PyTorch Geometric, which need not be installed."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from graphwright.gnn.graph import DGLGraph, graph, heterograph
from graphwright.gnn.storage import DGLError

_NAMES = {"x": "feat", "y": "label", "edge_attr": "feat"}


def from_pyg(data: Any, rename: bool = True) -> DGLGraph:
    """The graph of a `Data` or `HeteroData` object.

    Tensors with a row for each node or edge become features, `x` and `edge_attr` as "feat", `y` as
    "label" unless `rename` is False. Others are left out.
    """
    if hasattr(data, "edge_types"):
        return _typed(data, rename)
    edge_index = getattr(data, "edge_index", None)
    if not isinstance(edge_index, Tensor):
        raise DGLError(
            f"{type(data).__name__} has no edge_index; give a Data or HeteroData object."
        )
    made = graph((edge_index[0], edge_index[1]), num_nodes=int(data.num_nodes))
    for name, values in _fields(data):
        if name == "edge_index" or not isinstance(values, Tensor) or values.dim() == 0:
            continue
        field = _NAMES.get(name, name) if rename else name
        if name.startswith("edge_"):
            if len(values) == made.num_edges():
                made.edata[field] = values
        elif len(values) == made.num_nodes():
            made.ndata[field] = values
    return made


def _typed(data: Any, rename: bool) -> DGLGraph:
    edges = {tuple(e): tuple(data[e].edge_index) for e in data.edge_types}
    counts = {ntype: int(data[ntype].num_nodes) for ntype in data.node_types}
    made = heterograph(edges, counts)
    for kinds, frame_of in (
        (data.node_types, made.node_frame),
        (data.edge_types, made.edge_frame),
    ):
        for kind in kinds:
            frame: Any = frame_of(kind)
            for name, values in _fields(data[kind]):
                if name == "edge_index" or not isinstance(values, Tensor) or values.dim() == 0:
                    continue
                if len(values) == frame.num_rows:
                    frame[_NAMES.get(name, name) if rename else name] = values
    return made


def _fields(store: Any) -> list[tuple[str, Any]]:
    names = store.keys() if callable(getattr(store, "keys", None)) else store.keys
    return [(name, store[name]) for name in names]
