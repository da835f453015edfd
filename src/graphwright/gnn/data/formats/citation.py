"""Citation graphs: Planetoid's files (Yang et al. 2016) and those of one .npz (Shchur et al. 2018).

ind.cora.x, .y, .tx, .ty, .allx, .ally    features and one-hot labels: training, test, all others
ind.cora.graph                            a dictionary from nodes to their neighbours
ind.cora.test.index                       the nodes of the test rows, one a line
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphwright.gnn.data.dataset import DGLDataset
from graphwright.gnn.data.errors import InvalidDataFile, MissingData
from graphwright.gnn.data.formats.pickled import read_pickled
from graphwright.gnn.graph import DGLGraph, graph
from graphwright.gnn.transforms import to_bidirected, to_simple

_PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph")


def read_planetoid(folder: str | Path, name: str, reverse_edge: bool = True) -> DGLGraph:
    """The graph of Planetoid's files of a name, with `feat`, `label` and masks of the usual split.

    140 training nodes of Cora are the first ones, the next 500 are for validation, the test nodes
    are named. Test nodes that are missing in the files (CiteSeer has some) have zeros.
    """
    folder = Path(folder)
    paths = {part: folder / f"ind.{name}.{part}" for part in (*_PARTS, "test.index")}
    missing = [path.name for path in paths.values() if not path.exists()]
    if missing:
        raise MissingData(f"{folder} has no {', '.join(missing)}; put Planetoid's files there.")
    _, y, tx, ty, allx, ally, links = (read_pickled(paths[part]) for part in _PARTS)
    try:
        named = np.array(paths["test.index"].read_text().split(), np.int64)
        first, count = len(ally), max(len(links), int(named.max()) + 1)
        features = np.zeros((count, allx.shape[1]), np.float32)
        labels = np.zeros((count, ally.shape[1]))
        features[:first], labels[:first] = allx.toarray(), ally
        features[named], labels[named] = tx.toarray(), ty
        src = np.repeat(np.array(list(links)), [len(others) for others in links.values()])
        dst = np.concatenate([np.asarray(others, np.int64) for others in links.values()])
        made = graph((src.astype(np.int64), dst), num_nodes=count)
    except (ValueError, IndexError, TypeError, AttributeError) as error:
        raise InvalidDataFile(
            f"Planetoid's files of {name} do not fit together: {error}"
        ) from error
    made = to_bidirected(made) if reverse_edge else to_simple(made, return_counts=None)
    made.ndata["feat"] = torch.from_numpy(features)
    made.ndata["label"] = torch.from_numpy(labels.argmax(1))
    for mask, nodes in (
        ("train_mask", np.arange(len(y))),
        ("val_mask", np.arange(len(y), len(y) + 500)),
        ("test_mask", named),
    ):
        inside = torch.zeros(count, dtype=torch.bool)
        inside[torch.from_numpy(nodes[nodes < count])] = True
        made.ndata[mask] = inside
    return made


def read_citation_npz(path: str | Path) -> DGLGraph:
    """The graph of an .npz with CSR matrices `adj` and `attr` and `labels`; no pickles are read."""
    try:
        with np.load(path, allow_pickle=False) as file:
            names = set(file.files)
            adjacency = _csr(file, "adj")
            features = _csr(file, "attr").toarray() if "attr_data" in names else None
            if "attr_matrix" in names:
                features = file["attr_matrix"]
            labels = file["labels"] if "labels" in names else None
    except (OSError, ValueError, KeyError) as error:
        raise InvalidDataFile(f"{path} is no citation graph: {error}") from error
    found = adjacency.tocoo()
    src, dst = (torch.from_numpy(ends.astype(np.int64)) for ends in (found.row, found.col))
    made = graph((src, dst), num_nodes=adjacency.shape[0])
    if features is not None:
        made.ndata["feat"] = torch.from_numpy(np.asarray(features, np.float32))
    if labels is not None:
        made.ndata["label"] = torch.from_numpy(np.asarray(labels, np.int64))
    return made


def _csr(file: Any, name: str) -> Any:
    from scipy.sparse import csr_matrix

    parts = (file[f"{name}_data"], file[f"{name}_indices"], file[f"{name}_indptr"])
    return csr_matrix(parts, shape=tuple(file[f"{name}_shape"]))


class CitationGraphDataset(DGLDataset):
    """A citation graph by its name: "cora", "citeseer" or "pubmed".

    Its Planetoid files have to be in `raw_dir`, or in a folder `name` (or `name_v2`) there.
    """

    def __init__(
        self,
        name: str,
        raw_dir: str | None = None,
        force_reload: bool = False,
        verbose: bool = True,
        reverse_edge: bool = True,
        transform: Any = None,
        reorder: bool = False,
    ) -> None:
        self.reverse_edge = reverse_edge
        super().__init__(
            name, raw_dir=raw_dir, force_reload=force_reload, transform=transform, verbose=False
        )

    def process(self) -> None:
        """Read the files."""
        root = Path(self.raw_dir)
        folders = [root / f"{self.name}_v2", root / self.name, root]
        found = [f for f in folders if (f / f"ind.{self.name}.graph").exists()]
        if not found:
            raise MissingData(
                f"no folder has ind.{self.name}.graph, and nothing is downloaded here: looked in "
                f"{', '.join(map(str, folders))}."
            )
        self._graph = read_planetoid(found[0], self.name, self.reverse_edge)

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return int(self._graph.ndata["label"].max()) + 1

    def __getitem__(self, idx: int) -> DGLGraph:
        if idx != 0:
            raise IndexError("This dataset has only one graph.")
        given: DGLGraph = self._given(self._graph)
        return given

    def __len__(self) -> int:
        return 1


class CoraGraphDataset(CitationGraphDataset):
    """Cora: 2,708 papers in 7 classes."""

    def __init__(self, raw_dir: str | None = None, **options: Any) -> None:
        super().__init__("cora", raw_dir, **options)


class CiteseerGraphDataset(CitationGraphDataset):
    """CiteSeer: 3,327 papers in 6 classes."""

    def __init__(self, raw_dir: str | None = None, **options: Any) -> None:
        super().__init__("citeseer", raw_dir, **options)


class PubmedGraphDataset(CitationGraphDataset):
    """PubMed: 19,717 papers in 3 classes."""

    def __init__(self, raw_dir: str | None = None, **options: Any) -> None:
        super().__init__("pubmed", raw_dir, **options)
