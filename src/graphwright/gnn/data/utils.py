"""DGL's `dgl.data.utils`: files of graphs, tensors and facts, folders, and splits of datasets."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphwright.files import write_atomically
from graphwright.gnn.data.errors import InvalidDataFile
from graphwright.gnn.data.graph_files import load_graphs, load_labels, save_graphs
from graphwright.gnn.data.tensors import TensorFile, write_tensors
from graphwright.gnn.storage import DGLError

__all__ = [
    "Subset", "add_nodepred_split", "generate_mask_tensor", "get_download_dir", "load_graphs",
    "load_info", "load_labels", "load_tensors", "makedirs", "save_graphs", "save_info",
    "save_tensors", "split_dataset",
]  # fmt: skip


def get_download_dir() -> str:
    """The folder of datasets: DGL_DOWNLOAD_DIR, by default `.dgl` in the user's own."""
    return os.environ.get("DGL_DOWNLOAD_DIR") or str(Path("~/.dgl").expanduser())


def makedirs(path: str) -> None:
    """Make a folder and those above it, unless they are there."""
    Path(path).expanduser().mkdir(parents=True, exist_ok=True)


def save_info(path: str, info: Mapping[str, Any]) -> None:
    """Save facts about a dataset as JSON: numbers, texts, lists and dictionaries."""
    try:
        text = json.dumps(info)
    except (TypeError, ValueError) as error:
        raise InvalidDataFile(
            f"cannot save {path}: {error}; save tensors with save_tensors or as labels of graphs"
        ) from error
    write_atomically(path, text.encode())


def load_info(path: str) -> Any:
    """The facts that `save_info` saved."""
    try:
        return json.loads(Path(path).read_bytes())
    except OSError as error:
        raise InvalidDataFile(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidDataFile(f"{path} is no JSON ({error}); process the dataset again") from error


def save_tensors(filename: str, tensors: Mapping[str, Tensor]) -> None:
    """Save named tensors."""
    write_tensors(filename, tensors, {})


def load_tensors(filename: str) -> dict[str, Tensor]:
    """The tensors of a file."""
    return TensorFile(filename).read()


class Subset:
    """Some samples of a dataset."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, list(indices)

    def __getitem__(self, item: int) -> Any:
        return self.dataset[self.indices[item]]

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[Any]:
        return (self.dataset[index] for index in self.indices)


def split_dataset(
    dataset: Any,
    frac_list: Sequence[float] | None = None,
    shuffle: bool = False,
    random_state: int | None = None,
) -> list[Subset]:
    """A dataset in parts for training, validation and testing, by default 80, 10 and 10 percent."""
    parts = _cut(len(dataset), frac_list or (0.8, 0.1, 0.1), shuffle, random_state)
    return [Subset(dataset, part.tolist()) for part in parts]


def add_nodepred_split(dataset: Any, ratio: Sequence[float], ntype: str | None = None) -> None:
    """Give the nodes of a dataset's graph random `train_mask`, `val_mask` and `test_mask`."""
    if len(ratio) != 3:
        raise DGLError(f"Split ratio must be a list of three floats. Got {ratio}.")
    g = dataset[0]
    count = g.num_nodes(ntype) if ntype is not None else g.num_nodes()
    parts = _cut(count, ratio, True, None)
    for name, part in zip(("train_mask", "val_mask", "test_mask"), parts, strict=True):
        mask = torch.zeros(count, dtype=torch.bool)
        mask[part] = True
        g.node_frame(ntype)[name] = mask.to(g.device)


def generate_mask_tensor(mask: Any) -> Tensor:
    """A mask of NumPy's as a tensor."""
    return torch.as_tensor(mask).bool()


def _cut(count: int, shares: Sequence[float], shuffle: bool, seed: int | None) -> list[Tensor]:
    """Numbers 0 to `count` - 1 in parts of these shares; what is left over is in the last one."""
    if any(share < 0 for share in shares) or abs(sum(shares) - 1) > 1e-6:
        raise DGLError(f"shares have to be at least 0 and to add up to 1. Got {list(shares)}.")
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    order = torch.randperm(count, generator=generator) if shuffle else torch.arange(count)
    sizes = [int(share * count + 1e-9) for share in shares]
    sizes[-1] = count - sum(sizes[:-1])
    return list(torch.split(order, sizes))
