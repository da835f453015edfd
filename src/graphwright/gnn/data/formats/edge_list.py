"""Edge lists: a line for each edge, as SNAP, Network Repository and many papers publish them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import torch

from graphwright.gnn.data.errors import InvalidDataFile
from graphwright.gnn.graph import NID, DGLGraph, graph


def read_edge_list(
    path: str | Path,
    delimiter: str | None = None,
    comments: str = "#%",
    weight_name: str | None = None,
    num_nodes: int | None = None,
    relabel: bool = False,
    idtype: Any = None,
) -> DGLGraph:
    """The graph of lines "source destination [weight]", compressed if the name ends in `.gz`.

    Lines that begin with one of `comments` are left out. With `relabel` nodes may have any names:
    they are numbered in the order of the names (of numbers, if all are), which are
    `g.ndata[dgl.NID]` where they are numbers.
    """
    path = Path(path)
    src, dst, weights = list[str](), list[str](), list[float]()
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            for number, line in enumerate(file, 1):
                parts = line.split(delimiter)
                if not parts or not line.strip() or line[0] in comments:
                    continue
                if len(parts) < (2 if weight_name is None else 3):
                    raise InvalidDataFile(
                        f"{path}, line {number}: no edge in {line.strip()!r:.60}."
                    )
                src.append(parts[0].strip())
                dst.append(parts[1].strip())
                if weight_name is not None:
                    weights.append(float(parts[2]))
        names = None
        if relabel:
            names = sorted({*src, *dst}, key=_in_order)
            number_of = {name: at for at, name in enumerate(names)}
            ends = [[number_of[name] for name in side] for side in (src, dst)]
        else:
            ends = [[int(name) for name in side] for side in (src, dst)]
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidDataFile(f"cannot read {path}: {error}") from error
    except ValueError as error:
        raise InvalidDataFile(
            f"{path} has nodes or weights that are no numbers: {error}; names need relabel=True."
        ) from error
    made = graph((ends[0], ends[1]), num_nodes=num_nodes, idtype=idtype)
    if weight_name is not None:
        made.edata[weight_name] = torch.tensor(weights)
    if names is not None and all(name.lstrip("-").isdecimal() for name in names):
        made.ndata[NID] = torch.tensor([int(name) for name in names], dtype=made.idtype)
    return made


def _in_order(name: str) -> tuple[int, int, str]:
    return (0, int(name), "") if name.lstrip("-").isdecimal() else (1, 0, name)
