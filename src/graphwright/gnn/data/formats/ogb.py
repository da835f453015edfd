"""The folders of Open Graph Benchmark datasets, as they are unpacked.

raw/edge.csv.gz             source,destination
raw/num-node-list.csv.gz    nodes of each graph
raw/num-edge-list.csv.gz    edges of each graph
raw/node-feat.csv.gz, node-label.csv.gz, edge-feat.csv.gz, graph-label.csv.gz, ...
raw/relations/A___to___B/edge.csv.gz, raw/node-feat/A/node-feat.csv.gz, raw/num-node-dict.csv.gz
raw/data.npz                for the largest ones: edge_index, node_feat, num_nodes_list
split/NAME/train.csv.gz, valid.csv.gz, test.csv.gz
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphwright.gnn.data.errors import InvalidDataFile, MissingData
from graphwright.gnn.graph import DGLGraph, graph, heterograph

_FEATURES = {"node-feat": "feat", "node-label": "label", "node_year": "year", "node-year": "year"}


def read_ogb(folder: str | Path) -> tuple[list[DGLGraph], dict[str, Tensor]]:
    """The graphs of a dataset's folder, with `feat` and `label`, and labels of whole graphs."""
    raw = Path(folder) / "raw"
    if (raw / "relations").is_dir():
        return [_typed(raw)], {}
    if (raw / "data.npz").exists():
        return [_packed(raw)], {}
    if not (raw / "edge.csv.gz").exists():
        raise MissingData(
            f"{raw} has neither edge.csv.gz, data.npz nor relations; unpack it there."
        )
    ends = torch.from_numpy(_table(raw / "edge.csv.gz", np.int64))
    nodes, edges = (
        _table(raw / f"num-{kind}-list.csv.gz", np.int64).reshape(-1).tolist()
        for kind in ("node", "edge")
    )
    if sum(edges) != len(ends):
        raise InvalidDataFile(f"{raw} names {sum(edges)} edges, but edge.csv.gz has {len(ends)}.")
    columns = {
        (kind, name): _features(raw / f"{kind}-{name}.csv.gz")
        for kind in ("node", "edge")
        for name in ("feat", "label", "year")
        if (raw / f"{kind}-{name}.csv.gz").exists()
    }
    graphs, node, edge = [], 0, 0
    for num_nodes, num_edges in zip(nodes, edges, strict=True):
        part = ends[edge : edge + num_edges]
        made = graph((part[:, 0].clone(), part[:, 1].clone()), num_nodes=num_nodes)
        for (kind, name), values in columns.items():
            if kind == "node":
                made.ndata[name] = values[node : node + num_nodes]
            else:
                made.edata[name] = values[edge : edge + num_edges]
        graphs.append(made)
        node, edge = node + num_nodes, edge + num_edges
    labels = {}
    if (raw / "graph-label.csv.gz").exists():
        labels["labels"] = _features(raw / "graph-label.csv.gz")
    return graphs, labels


def read_ogb_split(folder: str | Path, name: str | None = None) -> dict[str, Tensor]:
    """The indices of "train", "valid" and "test" of a split, by default the only one."""
    splits = Path(folder) / "split"
    names = sorted(path.name for path in splits.iterdir()) if splits.is_dir() else []
    if name is None and len(names) == 1:
        name = names[0]
    if name not in names:
        raise MissingData(f"{splits} has splits {names}. Got {name!r}.")
    return {
        part: torch.from_numpy(_table(splits / name / f"{part}.csv.gz", np.int64).reshape(-1))
        for part in ("train", "valid", "test")
    }


def _typed(raw: Path) -> DGLGraph:
    counts_file = raw / "num-node-dict.csv.gz"
    lines = _text(counts_file).splitlines()
    counts = dict(zip(lines[0].split(","), map(int, lines[1].split(",")), strict=True))
    edges = {}
    for path in sorted((raw / "relations").iterdir()):
        etype = tuple(path.name.split("___"))
        if len(etype) != 3:
            raise InvalidDataFile(f"{path} is not named source___relation___destination.")
        pairs = torch.from_numpy(_table(path / "edge.csv.gz", np.int64))
        edges[etype[0], etype[1], etype[2]] = (pairs[:, 0].clone(), pairs[:, 1].clone())
    made = heterograph(edges, counts)
    for folder, name in _FEATURES.items():
        for path in sorted((raw / folder).iterdir()) if (raw / folder).is_dir() else ():
            values = _features(path / f"{folder}.csv.gz")
            made.nodes[path.name].data[name] = values
    return made


def _packed(raw: Path) -> DGLGraph:
    try:
        with np.load(raw / "data.npz", allow_pickle=False) as file:
            src, dst = torch.from_numpy(file["edge_index"]).long()
            made = graph((src, dst), num_nodes=int(file["num_nodes_list"].sum()))
            for field in ("node_feat", "node_year"):
                if field in file.files:
                    made.ndata[field.removeprefix("node_")] = torch.from_numpy(file[field])
        if (raw / "node-label.npz").exists():
            with np.load(raw / "node-label.npz", allow_pickle=False) as file:
                made.ndata["label"] = torch.from_numpy(file["node_label"])
    except (OSError, ValueError, KeyError) as error:
        raise InvalidDataFile(f"{raw} is damaged: {error}") from error
    return made


def _features(path: Path) -> Tensor:
    values = torch.from_numpy(_table(path, np.float64))
    whole = not bool(values.isnan().any()) and bool((values == values.round()).all())
    return values.long() if whole and "feat" not in path.name else values.float()


def _table(path: Path, kind: Any) -> Any:
    try:
        lines = _text(path).split()
        return np.array([line.split(",") for line in lines], dtype=kind).reshape(
            len(lines), -1 if lines else 1
        )
    except ValueError as error:
        raise InvalidDataFile(f"{path} is no table of numbers: {error}") from error


def _text(path: Path) -> str:
    try:
        with gzip.open(path, "rt") as file:
            return file.read()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidDataFile(f"cannot read {path}: {error}") from error
