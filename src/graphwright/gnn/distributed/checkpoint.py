"""Checkpoints of a training: what it takes to go on, whatever the number of workers.

    directory/epoch-000010.pt     complete; the two newest are kept
              epoch-000020.pt     the newest

Every worker holds all parameters, so one file has all there is: the model, the optimizer, what was
told of each epoch, and what was learned of costs, by which the graph is cut for another number of
workers. A file appears when it is complete. Nothing that is read is executed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from graphwright.errors import CheckpointNotSaved, InvalidCheckpoint
from graphwright.files import writing
from graphwright.gnn.distributed.balance import CostModel

FORMAT = 1
KEPT = 2
"""How many files stay."""
_NAME = re.compile(r"epoch-(\d{6,})\.pt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A training after some epochs; `graph` has the numbers of its vertices and edges."""

    epochs: tuple[Mapping[str, Any], ...]
    model: Mapping[str, Tensor]
    optimizer: Mapping[str, Any]
    cost: CostModel | None
    graph: tuple[int, int]

    def save(self, directory: Path) -> Path:
        """Write a file, and remove those that are older than the one before."""
        path = directory / f"epoch-{len(self.epochs):06d}.pt"
        about = {
            "epochs": list(self.epochs),
            "cost": None if self.cost is None else self.cost.to_dict(),
            "graph": list(self.graph),
        }
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointNotSaved(f"{directory} cannot be made: {error}") from error
        with writing(path, CheckpointNotSaved) as file:
            torch.save(
                {
                    "format": FORMAT,
                    "about": json.dumps(about),
                    "model": dict(self.model),
                    "optimizer": dict(self.optimizer),
                },
                file,
            )
        for old in _numbered(directory)[KEPT:]:
            with suppress(OSError):
                old.unlink()
        return path

    @staticmethod
    def load(path: Path) -> Checkpoint:
        """Read a file; tensors are on the CPU."""
        advice = "remove it to go on from the one before"
        try:
            data = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # whatever a damaged file raises
            raise InvalidCheckpoint(f"{path} cannot be read; {advice}: {error}") from error
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise InvalidCheckpoint(f"{path} is no checkpoint of gnn.distribute; {advice}")
        try:
            about = json.loads(data["about"])
            cost = about["cost"]
            return Checkpoint(
                epochs=tuple(about["epochs"]),
                model=data["model"],
                optimizer=data["optimizer"],
                cost=None if cost is None else CostModel.from_dict(cost),
                graph=(about["graph"][0], about["graph"][1]),
            )
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise InvalidCheckpoint(f"{path} is incomplete ({error!r}); {advice}") from error

    def check(self, model: nn.Module, path: Path, graph: tuple[int, int]) -> None:
        """Refuse what is of another model, or of a graph of another size."""
        if self.graph != graph:
            raise InvalidCheckpoint(
                f"{path} is of a graph with {self.graph[0]} vertices and {self.graph[1]} edges, "
                f"and this one has {graph[0]} and {graph[1]}; give another folder"
            )
        there = {name: list(value.shape) for name, value in self.model.items()}
        here = {name: list(value.shape) for name, value in model.state_dict().items()}
        for name in sorted(there.keys() | here.keys()):
            if there.get(name) != here.get(name):
                raise InvalidCheckpoint(
                    f"{path} is of another model: '{name}' has shape {there.get(name, 'none')} "
                    f"there and {here.get(name, 'none')} here; give another folder"
                )


def newest(directory: str | os.PathLike[str]) -> Path | None:
    """The newest checkpoint of a folder, or None where there is none."""
    return next(iter(_numbered(Path(directory))), None)


def _numbered(directory: Path) -> list[Path]:
    """The checkpoints of a folder, newest first."""
    if not directory.is_dir():
        return []
    matches = ((_NAME.fullmatch(path.name), path) for path in directory.iterdir())
    found = [(int(match[1]), path) for match, path in matches if match]
    return [path for _, path in sorted(found, reverse=True)]
