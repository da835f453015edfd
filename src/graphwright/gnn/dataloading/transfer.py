"""Mini-batches between processes and devices.

The features of a sampled graph are mostly selections of the whole graph's that nothing has read. A
worker does not send them: it sends the rows, and where the column is, and the process that receives
them selects from its own graph. What was read in the worker is sent as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.storage import Column


@dataclass(frozen=True, slots=True)
class Place:
    """Where a column of the whole graph is: among its nodes or edges, the type's number, a name."""

    nodes: bool
    at: int
    name: str


def detach(batch: Any, whole: DGLGraph) -> Any:
    """A mini-batch to send: columns of the whole graph are named by their place."""
    places = {}
    for nodes, frames in ((True, whole._node_frames), (False, whole._edge_frames)):
        for at, frame in enumerate(frames):
            for name, column in frame.columns.items():
                places[id(column.read())] = Place(nodes, at, name)
    return _change_columns(
        batch, lambda column: Column(places.get(id(column.values), column.values), column.rows)
    )


def attach(batch: Any, whole: DGLGraph) -> Any:
    """A mini-batch as it was before it was sent."""

    def find(column: Column) -> Column:
        place = column.values
        if not isinstance(place, Place):
            return column
        frames = whole._node_frames if place.nodes else whole._edge_frames
        return Column(frames[place.at][place.name], column.rows)

    return _change_columns(batch, find)


def _change_columns(batch: Any, change: Callable[[Column], Column]) -> Any:
    def changed(g: DGLGraph) -> DGLGraph:
        for frame in (*g._node_frames, *g._edge_frames):
            frame.columns = {name: change(column) for name, column in frame.columns.items()}
        return g

    return each(batch, changed, lambda tensor: tensor)


def move(batch: Any, device: torch.device) -> Any:
    """A mini-batch on a device; its features move when they are read."""

    def moved(g: DGLGraph) -> DGLGraph:
        if g.device == device:
            return g
        made = g.with_parts(
            relations=[relation.convert(device=device) for relation in g._relations]
        )
        for frame in (*made._node_frames, *made._edge_frames):
            frame.columns = {
                name: Column(column.values, column.rows, device)
                for name, column in frame.columns.items()
            }
        for name in ("_batch_num_nodes", "_batch_num_edges"):
            counts = getattr(g, name)
            if counts is not None:
                setattr(made, name, {at: x.to(device) for at, x in counts.items()})
        return made

    return each(batch, moved, lambda x: x.to(device, non_blocking=True))


def each(batch: Any, graph: Callable[[DGLGraph], Any], tensor: Callable[[Tensor], Any]) -> Any:
    """A nest of lists, tuples and dictionaries with all graphs and tensors in it changed."""
    match batch:
        case DGLGraph():
            return graph(batch)
        case Tensor():
            return tensor(batch)
        case tuple() if hasattr(batch, "_fields"):
            return type(batch)(*(each(part, graph, tensor) for part in batch))
        case list() | tuple():
            return type(batch)(each(part, graph, tensor) for part in batch)
        case dict():
            return {name: each(part, graph, tensor) for name, part in batch.items()}
        case _:
            return batch
