"""What each process of a distributed training does, epoch by epoch.

    cut the graph -> step -> tell the others how long each layer took -> cut it again, if that pays

Rank 0 learns the cost model and decides where to cut; the others are told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from graphwright.gnn.distributed.balance import (
    CPU_LINE,
    GPU_LINE,
    Bounds,
    CostModel,
    OnlinePartitioner,
    VertexFeatures,
    check_bounds,
    equal_edges,
    equal_vertices,
    imbalance,
)
from graphwright.gnn.distributed.cache import DeviceCache
from graphwright.gnn.distributed.checkpoint import Checkpoint
from graphwright.gnn.distributed.training.batch_norm import restore_statistics
from graphwright.gnn.distributed.training.part import cut_part
from graphwright.gnn.distributed.training.sampled import SampledTrainer, Sampling
from graphwright.gnn.distributed.training.store import GraphStore
from graphwright.gnn.distributed.training.trainer import InvalidTraining, Problem, Trainer
from graphwright.run import RowLinks

STRATEGIES = ("learned", "edges", "vertices")


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One epoch: its loss before the update, its time, and what each worker did.

    `seconds` is the time on rank 0 from beginning to end, without evaluation or a new cut; `busy`
    the seconds that each worker computed, layer by layer.
    """

    number: int
    loss: float
    seconds: float
    busy: tuple[tuple[float, ...], ...]
    bounds: Bounds
    accuracy: Mapping[str, float] = field(default_factory=dict)
    since_start: float = 0.0
    copied: tuple[int, ...] = ()
    """Bytes that each worker copied to its device and back, where its memory is limited."""
    received: tuple[int, ...] = ()
    """Bytes of halos that came to each worker from others: rows and gradients."""

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Epoch:
        """What `asdict` has made, also after a way through JSON."""
        busy, bounds = tuple(map(tuple, data["busy"])), tuple(data["bounds"])
        counts = {name: tuple(data.get(name, ())) for name in ("copied", "received")}
        return Epoch(**{**data, "busy": busy, "bounds": bounds, **counts})

    @property
    def slowest(self) -> float:
        """What the epoch takes if nobody waits but for others: the slowest part of each layer."""
        return sum((max(layer) for layer in zip(*self.busy, strict=True)), 0.0)

    @property
    def imbalance(self) -> float:
        """The slowest worker's time over the mean of all."""
        return imbalance([sum(layers) for layers in self.busy])


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What every worker is given."""

    problem: Problem
    epochs: int
    partition: str | Bounds = "learned"
    cost: CostModel | None = None
    sampling: Sampling | None = None
    evaluate_every: int = 0
    horizon: int | None = None
    seed: int = 0
    memory: int | None = None
    caching: str = "least"
    directory: Path | None = None
    """Where checkpoints are written, after each `every` epochs and the last."""
    every: int = 10
    begin: Path | None = None
    """The checkpoint to go on from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerResult:
    """What a worker returns; outputs are those of its own vertices, at the end."""

    epochs: tuple[Epoch, ...]
    state: dict[str, Tensor] | None
    outputs: Tensor
    bounds: Bounds
    cost: CostModel | None


class Cutter:
    """Where the graph is cut; the same on all ranks, as rank 0 decides."""

    def __init__(
        self, store: GraphStore, links: RowLinks, task: Task, cost: CostModel | None, device: Any
    ) -> None:
        self.store, self.links, self.device = store, links, device
        self.is_learned = task.partition == "learned" and task.sampling is None
        self.online: OnlinePartitioner | None = None
        self.given = cost
        self.bounds = self._first(task.partition)

    @property
    def cost(self) -> CostModel | None:
        """What is known of costs: learned here, or given."""
        return self.given if self.online is None else self.online.model or self.given

    def _first(self, how: str | Bounds) -> Bounds:
        workers, cost = self.links.size, self.given
        if not isinstance(how, str):
            return check_bounds(how, self.store.num_nodes, workers)
        if how == "vertices":
            return equal_vertices(self.store.num_nodes, workers)
        bounds = equal_edges(self.store.indptr, workers)
        if how == "learned" and self.links.rank == 0:
            line = GPU_LINE if self.device.type == "cuda" else CPU_LINE
            features = VertexFeatures(self.store.indptr, self.store.sources, line)
            even = equal_vertices(self.store.num_nodes, workers)
            self.online = OnlinePartitioner(features=features, bounds=bounds, probe=even)
            if cost is not None:
                bounds = self.online.bounds = self.online.cut(cost, workers)
        return self._told(bounds) if how == "learned" else bounds

    def again(
        self, busy: Tensor, widths: list[int], epochs_left: int, move_seconds: float
    ) -> Bounds | None:
        """Other bounds, if a new cut pays."""
        if not self.is_learned or self.links.size == 1:
            return None
        found = None
        if self.online is not None:
            self.online.observe(busy.cpu().numpy())
            if self.online.is_due:
                found = self.online.consider(widths, epochs_left, move_seconds)
        told = self._told(found or self.bounds)
        if told == self.bounds:
            return None
        self.bounds = told
        return told

    def _told(self, bounds: Bounds) -> Bounds:
        mine = torch.tensor(bounds if self.links.rank == 0 else [0] * (self.links.size + 1))
        return tuple(self.links.sum([mine.to(self.device)])[0].tolist())


def train_part(
    model: nn.Module, store: GraphStore, links: RowLinks, task: Task, device: torch.device,
    tell: Callable[[Epoch], None] | None = None,
) -> WorkerResult:  # fmt: skip
    """Train on this worker's part of a graph, together with the others; rank 0 tells of epochs."""
    kept = _go_on_from(task.begin, model, store)
    epochs = [] if kept is None else [Epoch.from_dict(epoch) for epoch in kept.epochs]
    behind, earlier = len(epochs), epochs[-1].since_start if epochs else 0.0
    if len(links.gather(torch.tensor([behind], device=device)).unique()) > 1:
        raise InvalidTraining(
            f"rank {links.rank} found a checkpoint after {behind} epochs, and others another; the "
            "folder has to be one that all of them see"
        )
    torch.manual_seed((behind * 1_000_003 + task.seed) * links.size + links.rank)  # for dropout
    model.to(device)
    cutter = Cutter(store, links, task, task.cost if kept is None else kept.cost, device)
    cache = None
    if task.memory is not None:
        cache = DeviceCache(memory=task.memory, device=device, caching=task.caching)
    trainer = Trainer(model, links, task.problem, cache)
    if task.sampling is not None:
        trainer = SampledTrainer(
            model, links, task.problem, store, task.sampling, task.seed, behind
        )
    if kept is not None and trainer.optimizer is not None:
        trainer.optimizer.load_state_dict(dict(kept.optimizer))

    def move(bounds: Bounds) -> float:
        """Go on with other bounds; the seconds that it took."""
        began = time.perf_counter()
        trainer.take(cut_part(store, bounds, links, device))
        return time.perf_counter() - began

    move_seconds, started, paused = move(cutter.bounds), time.perf_counter(), 0.0
    for number in range(behind + 1, task.epochs + 1):
        began, bounds = time.perf_counter(), cutter.bounds
        loss = trainer.step()
        if number == behind + 1:
            _check_first_loss(loss, store, task.problem)
        seconds, clock = time.perf_counter() - began, trainer.clock
        told = [*clock.seconds, trainer.received_bytes, move_seconds]
        mine = torch.tensor(told, dtype=torch.float64, device=device)
        everywhere, widths = links.gather(mine).cpu(), list(clock.widths)
        busy, slowest_move = everywhere[:, :-2], float(everywhere[:, -1].max())
        received = tuple(map(int, everywhere[:, -2].tolist()))
        left = (task.epochs if task.horizon is None else task.horizon) - number
        found = cutter.again(busy, widths, left, slowest_move)
        if found is not None:
            move_seconds = move(found)
        copied: tuple[int, ...] = ()
        if cache is not None:
            moved = torch.tensor([cache.bytes_in + cache.bytes_out], device=device)
            copied = tuple(links.gather(moved).cpu().reshape(-1).tolist())
        since = earlier + time.perf_counter() - started - paused
        accuracy: dict[str, float] = {}
        if task.evaluate_every and (number % task.evaluate_every == 0 or number == task.epochs):
            began = time.perf_counter()
            _, accuracy = trainer.evaluate()
            paused += time.perf_counter() - began
        made = Epoch(
            number=number, loss=loss, seconds=seconds, busy=tuple(map(tuple, busy.tolist())),
            bounds=bounds, accuracy=accuracy, since_start=since, copied=copied, received=received,
        )  # fmt: skip
        epochs.append(made)
        if tell is not None and links.rank == 0:
            tell(made)
        is_due = number % task.every == 0 or number == task.epochs
        if task.directory is not None and is_due and links.rank == 0:
            began = time.perf_counter()
            _checkpoint(trainer, epochs, cutter, store).save(task.directory)
            paused += time.perf_counter() - began
    outputs, _ = trainer.evaluate()
    restore_statistics(model)
    state = {name: value.cpu() for name, value in model.state_dict().items()}
    return WorkerResult(
        epochs=tuple(epochs) if links.rank == 0 else (),
        state=state if links.rank == 0 else None,
        outputs=outputs.cpu(),
        bounds=cutter.bounds,
        cost=cutter.cost,
    )


def _check_first_loss(loss: float, store: GraphStore, problem: Problem) -> None:
    """Refuse to train on what is not finite before anything was learned; all workers alike."""
    if isfinite(loss):
        return
    values = store.node[problem.features]
    finite = torch.isfinite(values).reshape(len(values), -1).all(1)
    bad = (~finite).nonzero().reshape(-1)
    cause = "all features are finite: look at the model, the labels and the loss function"
    if len(bad):
        cause = (
            f"feature '{problem.features}' has NaN or infinity at {len(bad):,} of {len(values):,} "
            f"vertices, {int(bad[0])} among them; torch.nan_to_num replaces them"
        )
    raise InvalidTraining(f"the first loss is {loss}: {cause}")


def _go_on_from(path: Path | None, model: nn.Module, store: GraphStore) -> Checkpoint | None:
    if path is None:
        return None
    kept = Checkpoint.load(path)
    kept.check(model, path, (store.num_nodes, store.num_edges))
    model.load_state_dict(kept.model)
    return kept


def _checkpoint(
    trainer: Trainer, epochs: list[Epoch], cutter: Cutter, store: GraphStore
) -> Checkpoint:
    assert trainer.optimizer is not None
    return Checkpoint(
        epochs=tuple(asdict(epoch) for epoch in epochs),
        model={name: value.detach() for name, value in trainer.model.state_dict().items()},
        optimizer=trainer.optimizer.state_dict(),
        cost=cutter.cost,
        graph=(store.num_nodes, store.num_edges),
    )
