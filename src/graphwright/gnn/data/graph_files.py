"""`save_graphs` and `load_graphs`: graphs, their features and labels in one file.

The file is one of `tensors`. Its text "graphs" says the types and counts of each graph; tensor
`3/edges/0/src` is the sources of the fourth graph's first edge type, `3/nodes/0/data/h` a feature.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.data.errors import InvalidDataFile
from graphwright.gnn.data.tensors import TensorFile, write_tensors
from graphwright.gnn.graph import DGLBlock, DGLGraph
from graphwright.gnn.storage import DGLError, Frame, Metagraph, Relation

_FORM, _VERSION = "graphwright.gnn.graphs", 1


def save_graphs(
    filename: str,
    g_list: DGLGraph | Sequence[DGLGraph],
    labels: Mapping[str, Any] | None = None,
    formats: Any = None,
) -> None:
    """Save graphs with their features, and tensors of labels beside them.

    Edges are saved as pairs; compressed forms are made again when they are needed, so `formats`
    changes nothing.
    """
    graphs = [g_list] if isinstance(g_list, DGLGraph) else list(g_list)
    tensors = {f"labels/{name}": torch.as_tensor(values) for name, values in (labels or {}).items()}
    described = []
    for number, g in enumerate(graphs):
        for at, relation in enumerate(g._relations):
            tensors[f"{number}/edges/{at}/src"], tensors[f"{number}/edges/{at}/dst"] = relation.coo
        for kind, frames in (("nodes", g._node_frames), ("edges", g._edge_frames)):
            for at, frame in enumerate(frames):
                for name, values in frame.items():
                    tensors[f"{number}/{kind}/{at}/data/{name}"] = torch.as_tensor(values)
        for kind, counts in (("nodes", g._batch_num_nodes), ("edges", g._batch_num_edges)):
            for at, each in (counts or {}).items():
                tensors[f"{number}/{kind}/{at}/batch"] = each
        described.append(
            {
                "ntypes": g.meta.ntypes,
                "etypes": g.meta.etypes,
                "num_src": g.meta.num_src,
                "num_nodes": [frame.num_rows for frame in g._node_frames],
            }
        )
    text = json.dumps({"version": _VERSION, "graphs": described})
    write_tensors(filename, tensors, {"form": _FORM, "graphs": text})


def load_graphs(
    filename: str, idx_list: Sequence[int] | None = None
) -> tuple[list[DGLGraph], dict[str, Tensor]]:
    """The graphs of a file, or those of some numbers, and its labels."""
    file = TensorFile(filename)
    described = _described(file)
    numbers = range(len(described)) if idx_list is None else list(idx_list)
    for number in numbers:
        if not 0 <= number < len(described):
            raise InvalidDataFile(
                f"{filename} has graphs 0 to {len(described) - 1}; number {number} was asked for."
            )
    try:
        graphs = [_graph(file, number, described[number]) for number in numbers]
    except InvalidDataFile:
        raise
    except (DGLError, KeyError, TypeError, ValueError, IndexError, AssertionError) as error:
        raise InvalidDataFile(
            f"{filename} has no valid graph: {error!r}; save it again."
        ) from error
    return graphs, load_labels(filename)


def load_labels(filename: str) -> dict[str, Tensor]:
    """The labels of a file, without its graphs."""
    file = TensorFile(filename)
    _described(file)
    names = [name for name in file.entries if name.startswith("labels/")]
    return {name.removeprefix("labels/"): values for name, values in file.read(names).items()}


def _described(file: TensorFile) -> list[Any]:
    if file.texts.get("form") != _FORM:
        raise InvalidDataFile(
            f"{file.path} has tensors, but no graphs; save_graphs did not make it."
        )
    try:
        text = json.loads(file.texts["graphs"])
        if text["version"] > _VERSION:
            raise InvalidDataFile(f"{file.path} needs a newer version of Graphwright.")
        return list(text["graphs"])
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidDataFile(f"{file.path} does not describe its graphs: {error!r}.") from error


def _graph(file: TensorFile, number: int, described: Mapping[str, Any]) -> DGLGraph:
    own = f"{number}/"
    tensors = {
        name.removeprefix(own): values
        for name, values in file.read([n for n in file.entries if n.startswith(own)]).items()
    }
    etypes = tuple((str(src), str(name), str(dst)) for src, name, dst in described["etypes"])
    meta = Metagraph(tuple(map(str, described["ntypes"])), etypes, described["num_src"])
    counts = [int(count) for count in described["num_nodes"]]
    relations = []
    for at, (src_place, dst_place) in enumerate(meta.ends):
        src, dst = tensors[f"edges/{at}/src"], tensors[f"edges/{at}/dst"]
        for ends, most in ((src, counts[src_place]), (dst, counts[dst_place])):
            if ends.dtype not in (torch.int32, torch.int64) or ends.dim() != 1:
                raise ValueError(f"ends of edge type {at} are {ends.dtype}")
            if len(ends) and not 0 <= int(ends.min()) <= int(ends.max()) < most:
                raise ValueError(f"edge type {at} has nodes beyond {most - 1}")
        if len(src) != len(dst):
            raise ValueError(f"edge type {at} has {len(src)} sources, {len(dst)} destinations")
        relations.append(
            Relation(num_src=counts[src_place], num_dst=counts[dst_place], made_coo=(src, dst))
        )
    nodes = [_frame(tensors, f"nodes/{at}/", count, "node") for at, count in enumerate(counts)]
    edges = [
        _frame(tensors, f"edges/{at}/", relation.num_edges, "edge")
        for at, relation in enumerate(relations)
    ]
    made = (DGLBlock if meta.is_block else DGLGraph)(meta, relations, nodes, edges)
    made._batch_num_nodes = _batches(tensors, "nodes", len(counts))
    made._batch_num_edges = _batches(tensors, "edges", len(relations))
    return made


def _frame(tensors: Mapping[str, Tensor], own: str, count: int, what: str) -> Frame:
    made, start = Frame(count, what=what), f"{own}data/"
    for name, values in tensors.items():
        if name.startswith(start):
            made[name.removeprefix(start)] = values
    return made


def _batches(tensors: Mapping[str, Tensor], kind: str, count: int) -> dict[int, Tensor] | None:
    names = {at: f"{kind}/{at}/batch" for at in range(count)}
    found = {at: tensors[name] for at, name in names.items() if name in tensors}
    return found or None
