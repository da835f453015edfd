"""`CSVDataset`: graphs from tables of nodes, edges and graphs that a meta.yaml describes.

dataset_name: mini
edge_data:                          # src_id, dst_id, features ...      one table for each edge type
- file_name: edges.csv
  etype: [user, follows, user]
node_data:                          # node_id, features ...             one for each node type
- file_name: nodes.csv
  ntype: user
graph_data:                         # graph_id, features ...            for several graphs
  file_name: graphs.csv

Every table may have a column graph_id. Ids are any texts; nodes are numbered in the order of their
ids. A feature is a number, or several in quotes with commas between them.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphwright.gnn.data.dataset import DGLDataset
from graphwright.gnn.data.errors import InvalidDataFile, MissingData
from graphwright.gnn.data.graph_files import load_graphs, save_graphs
from graphwright.gnn.graph import DGLGraph, heterograph

Columns = dict[str, list[str]]
Parser = Callable[[Columns], Mapping[str, Any]]
_CACHE = "graphs.bin"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of nodes, edges or graphs: its columns, and its type where it has one."""

    path: Path
    kind: Any
    columns: Columns
    ids: tuple[str, ...]
    """The names of the columns that hold ids, the graph's first."""

    def rows_by_graph(self) -> dict[str, Any]:
        """The rows of each graph; all are of graph "0" without such a column."""
        if self.ids[0] not in self.columns:
            return {"0": np.arange(len(next(iter(self.columns.values()), [])))}
        graphs = np.array(self.columns[self.ids[0]])
        return {str(graph): np.nonzero(graphs == graph)[0] for graph in np.unique(graphs)}

    def features(self, parser: Parser | None) -> dict[str, Tensor]:
        """All columns but those of ids, or what a parser of the user's makes of them."""
        given = {n: v for n, v in self.columns.items() if n not in self.ids and n.strip()}
        if parser is not None:
            return {name: torch.as_tensor(v) for name, v in parser(self.columns).items()}
        return {
            name: _numbers(values, f"{self.path}, column {name}") for name, values in given.items()
        }


class CSVDataset(DGLDataset):
    """The graphs of a folder with a meta.yaml. An item is a graph, or (graph, its features).

    Parsers take a table's columns, a dictionary from names to lists of texts, and return features;
    `ndata_parser` and `edata_parser` may be dictionaries by type.
    """

    def __init__(
        self,
        data_path: str,
        force_reload: bool = False,
        verbose: bool = True,
        ndata_parser: Any = None,
        edata_parser: Any = None,
        gdata_parser: Parser | None = None,
        transform: Any = None,
    ) -> None:
        self.graphs: list[DGLGraph] = []
        self.data: dict[str, Tensor] = {}
        self.ndata_parser, self.edata_parser = ndata_parser, edata_parser
        self.gdata_parser = gdata_parser
        self.folder = Path(data_path)
        self.meta = _read_meta(self.folder / "meta.yaml")
        super().__init__(
            str(self.meta["dataset_name"]), raw_dir=str(data_path), force_reload=force_reload,
            verbose=verbose, transform=transform,
        )  # fmt: skip

    def process(self) -> None:
        """Read the tables."""
        nodes = [
            self._table(e, e.get("ntype", "_V"), ("node_id",))
            for e in _list(self.meta, "node_data")
        ]
        edges = [
            self._table(e, tuple(e.get("etype", ("_V", "_E", "_V"))), ("src_id", "dst_id"))
            for e in _list(self.meta, "edge_data")
        ]
        names = sorted({g for table in (*nodes, *edges) for g in table.rows_by_graph()}, key=_order)
        if "graph_data" in self.meta:
            table = self._table(self.meta["graph_data"], None, ())
            self.data = table.features(self.gdata_parser)
            names = table.columns.get("graph_id") or names
        features = {
            id(t): t.features(_parser(p, t.kind))
            for tables, p in ((nodes, self.ndata_parser), (edges, self.edata_parser))
            for t in tables
        }
        self.graphs = [_graph(name, nodes, edges, features) for name in names]

    def _table(self, entry: Any, kind: Any, ids: tuple[str, ...]) -> Table:
        if not isinstance(entry, dict) or "file_name" not in entry:
            raise InvalidDataFile(f"{self.folder}/meta.yaml: an entry has no file_name: {entry!r}")
        fields = ("graph_id", *ids)
        named = tuple(str(entry.get(f"{field}_field", field)) for field in fields)
        path = self.folder / str(entry["file_name"])
        columns = _read_table(path, str(self.meta.get("separator", ",")))
        missing = [name for name in named[1:] if name not in columns]
        if missing:
            raise InvalidDataFile(f"{path} has no column {missing}; it has {sorted(columns)}.")
        return Table(path, kind, columns, named)

    def save(self) -> None:
        """Keep the graphs beside the tables."""
        save_graphs(str(self.folder / _CACHE), self.graphs, self.data)

    def load(self) -> None:
        """Read the graphs that were kept."""
        self.graphs, self.data = load_graphs(str(self.folder / _CACHE))

    def has_cache(self) -> bool:
        """Whether graphs were kept."""
        return (self.folder / _CACHE).exists()

    def __getitem__(self, idx: int) -> Any:
        g = self._given(self.graphs[idx])
        return (g, {name: values[idx] for name, values in self.data.items()}) if self.data else g

    def __len__(self) -> int:
        return len(self.graphs)


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError as error:
        raise MissingData("CSVDataset reads meta.yaml with PyYAML: pip install pyyaml") from error
    try:
        meta = yaml.safe_load(path.read_text())
    except OSError as error:
        raise MissingData(f"cannot read {path}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidDataFile(f"{path} is no YAML: {error}") from error
    if not isinstance(meta, dict) or "dataset_name" not in meta or "edge_data" not in meta:
        raise InvalidDataFile(f"{path} needs dataset_name and edge_data.")
    if str(meta.get("version", "1.0.0")) != "1.0.0":
        raise InvalidDataFile(f"{path} has version {meta['version']}, but 1.0.0 is read.")
    return meta


def _list(meta: Mapping[str, Any], name: str) -> list[Any]:
    entries = meta.get(name) or []
    if not isinstance(entries, list):
        raise InvalidDataFile(f"meta.yaml: {name} has to be a list of tables.")
    return entries


def _read_table(path: Path, separator: str) -> Columns:
    try:
        with path.open(newline="") as file:
            rows = list(csv.reader(file, delimiter=separator))
    except OSError as error:
        raise MissingData(f"cannot read {path}: {error.strerror or error}") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidDataFile(f"{path} is no table: {error}") from error
    rows = [row for row in rows if row]
    if not rows:
        raise InvalidDataFile(f"{path} is empty; its first line names the columns.")
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise InvalidDataFile(
                f"{path}, row {number}: {len(row)} entries, but there are {len(rows[0])} columns."
            )
    return {name: [row[at] for row in rows[1:]] for at, name in enumerate(rows[0])}


def _numbers(values: list[str], place: str) -> Tensor:
    """A column of numbers, of lists of numbers, or of True and False."""
    truth = {"True": "1", "False": "0", "true": "1", "false": "0"}
    try:
        rows = [[truth.get(part.strip(), part) for part in value.split(",")] for value in values]
        wide = any(len(row) > 1 for row in rows)
        found = np.array(rows if wide else [row[0] for row in rows], dtype=np.float64)
    except ValueError as error:
        raise InvalidDataFile(
            f"{place} has no numbers, or lists of several lengths: {error}"
        ) from error
    whole = all("." not in part and "e" not in part.lower() for row in rows for part in row)
    return torch.from_numpy(found).long() if whole and not wide else torch.from_numpy(found)


def _order(text: str) -> tuple[int, float, str]:
    """Numbers before other texts, in their order."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text


def _parser(given: Any, kind: Any) -> Parser | None:
    found: Parser | None = given.get(kind) if isinstance(given, Mapping) else given
    return found


def _graph(name: str, nodes: list[Table], edges: list[Table], features: Any) -> DGLGraph:
    none = np.arange(0)
    number: dict[str, dict[str, int]] = {}
    rows_of = {}
    for table in nodes:
        rows = table.rows_by_graph().get(name, none)
        ids = [table.columns[table.ids[1]][row] for row in rows]
        order = sorted(range(len(ids)), key=lambda at: _order(ids[at]))
        number[table.kind] = {ids[at]: place for place, at in enumerate(order)}
        if len(number[table.kind]) < len(ids):
            raise InvalidDataFile(f"{table.path} has a node twice in graph {name}.")
        rows_of[id(table)] = rows[order]
    listed = set(number)
    ends = {}
    for table in edges:
        rows = rows_of[id(table)] = table.rows_by_graph().get(name, none)
        for side, ntype in ((1, table.kind[0]), (2, table.kind[2])):
            column = [table.columns[table.ids[side]][row] for row in rows]
            if ntype not in listed:  # no table of nodes: those that edges name
                known = sorted({*number.get(ntype, {}), *column}, key=_order)
                number[ntype] = {node: place for place, node in enumerate(known)}
            ends[id(table), side] = column
    data = {}
    for table in edges:
        pair = []
        for side, ntype in ((1, table.kind[0]), (2, table.kind[2])):
            unknown = [node for node in ends[id(table), side] if node not in number[ntype]]
            if unknown:
                raise InvalidDataFile(
                    f"{table.path} names node {unknown[0]} of type '{ntype}' in graph {name}, "
                    "which no table of nodes has."
                )
            pair.append(
                torch.tensor([number[ntype][node] for node in ends[id(table), side]]).long()
            )
        data[table.kind] = (pair[0], pair[1])
    made = heterograph(data, {ntype: len(known) for ntype, known in number.items()})
    for table in (*nodes, *edges):
        frame = made.node_frame(table.kind) if table in nodes else made.edge_frame(table.kind)
        for field, values in features[id(table)].items():
            frame[field] = values[torch.from_numpy(rows_of[id(table)])]
    return made
