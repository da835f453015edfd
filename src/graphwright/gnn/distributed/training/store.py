"""A whole graph from which every worker takes its part: in memory, or in files that all map.

    indptr, sources, edge_ids    the edges into vertex v are entries indptr[v] to indptr[v + 1]
    out_degrees                  of each vertex, in the whole graph
    node, edge                   features by name

A process maps the files and reads the rows of its own range alone, so a part takes the memory of a
part, and vertices that change hands are read again by their new worker.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphwright.files import write_atomically
from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.storage import (
    Compressed,
    DGLError,
    Frame,
    Metagraph,
    NotDistributable,
    Relation,
)

_INDEX = "graph.json"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GraphStore:
    """A homogeneous graph by destination, with its features."""

    indptr: Tensor
    sources: Tensor
    edge_ids: Tensor
    out_degrees: Tensor
    node: Mapping[str, Tensor]
    edge: Mapping[str, Tensor]

    @property
    def num_nodes(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        return len(self.sources)

    @staticmethod
    def of(graph: DGLGraph, order: Tensor | None = None) -> GraphStore:
        """A graph's edges and features; with an `order`, vertex order[i] is numbered i."""
        check_types(graph)
        relation, nodes = graph.relation(), dict(graph.node_frame())
        if order is not None:
            relation = renumbered(relation, order)
            nodes = {name: values[order] for name, values in nodes.items()}
        for name, values in (*nodes.items(), *graph.edge_frame().items()):
            if not isinstance(values, Tensor):
                raise DGLError(f"feature '{name}' is no PyTorch tensor; convert it before training")
        csc = relation.csc
        return GraphStore(
            indptr=csc.indptr.cpu(),
            sources=csc.indices.cpu(),
            edge_ids=csc.numbered().cpu(),
            out_degrees=relation.out_degrees().cpu(),
            node={name: values.detach().cpu() for name, values in nodes.items()},
            edge={name: values.detach().cpu() for name, values in graph.edge_frame().items()},
        )

    def structure(self) -> DGLGraph:
        """The graph without features."""
        csc = Compressed(self.indptr, self.sources, self.edge_ids)
        count = self.num_nodes
        relation = Relation(num_src=count, num_dst=count, made_csc=csc)
        return DGLGraph(Metagraph(("_N",), (("_N", "_E", "_N"),)), [relation], [Frame(count)])

    def save(self, folder: Path) -> None:
        """Write one file for each tensor, and an index of them."""
        index = {}
        for number, (name, tensor) in enumerate(self.named().items()):
            flat = tensor.contiguous().reshape(-1)
            file = f"{number}.bin"
            with (folder / file).open("wb") as out:
                if flat.numel():
                    out.write(flat.view(torch.uint8).numpy().data)
            dtype = str(tensor.dtype).removeprefix("torch.")
            index[name] = {"file": file, "dtype": dtype, "shape": list(tensor.shape)}
        write_atomically(folder / _INDEX, json.dumps(index).encode())

    @staticmethod
    def load(folder: Path) -> GraphStore:
        """Map the files of a graph; rows are read from disk when they are used."""
        index = json.loads((folder / _INDEX).read_bytes())
        groups: dict[str, dict[str, Tensor]] = {"node": {}, "edge": {}, "": {}}
        for name, entry in index.items():
            group, _, field = name.partition("/")
            target = groups[group] if field else groups[""]
            target[field or name] = _mapped(folder / entry["file"], entry)
        return GraphStore(**groups[""], node=groups["node"], edge=groups["edge"])

    def named(self) -> dict[str, Tensor]:
        """All tensors; features as "node/feat"."""
        made = {
            name: getattr(self, name) for name in ("indptr", "sources", "edge_ids", "out_degrees")
        }
        made |= {f"node/{name}": values for name, values in self.node.items()}
        return made | {f"edge/{name}": values for name, values in self.edge.items()}


def check_types(graph: DGLGraph) -> None:
    """Refuse a graph of several types."""
    if not graph.is_homogeneous:
        raise NotDistributable(
            f"the graph has node types {graph.ntypes} and edge types {graph.etypes}; one type "
            "of each can be distributed: dgl.to_homogeneous(graph) makes such a graph"
        )


def renumbered(relation: Relation, order: Tensor) -> Relation:
    """The same edges between vertices numbered anew: vertex order[i] becomes i."""
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), dtype=order.dtype)
    src, dst = (place[ends.long()].to(relation.idtype) for ends in relation.coo)
    return Relation(num_src=relation.num_src, num_dst=relation.num_dst, made_coo=(src, dst))


def _mapped(path: Path, entry: Any) -> Tensor:
    dtype, shape = getattr(torch, entry["dtype"]), entry["shape"]
    count = torch.Size(shape).numel()
    if not count:
        return torch.empty(shape, dtype=dtype)
    return torch.from_file(str(path), shared=False, size=count, dtype=dtype).reshape(shape)
