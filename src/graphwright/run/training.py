"""Training under a plan, as one rank of many does it: the loop behind ``graphwright run``.

make("cpu") -> model, loss, batch, optimizer      the same on every rank, as the random numbers start from one seed
step = gw.compile(...); step.load(checkpoint)
loss = step(batch), for every step left           rank 0 tells of each; all save together now and then
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from graphwright.aten import named_tensors
from graphwright.errors import InvalidWorkload
from graphwright.ir import Graph
from graphwright.plans import Plan, format_seconds
from graphwright.run.compile import compile_step
from graphwright.run.processes import world
from graphwright.run.step import Step

KEEP = 3
"""Checkpoints that stay."""
JOIN_SECONDS = 1800.0
"""How long ranks wait for one another: another one may still plan, or save."""
TALK_SECONDS = 0.5
"""After the first steps, rank 0 tells of a step no more often than this."""


class Trainable(Protocol):
    """One training step in parts, as `zoo.Workload` has them."""

    @property
    def model(self) -> nn.Module:
        """The model; on "meta", it is initialised part by part."""

    @property
    def loss_fn(self) -> Any:
        """From the model's output and the targets to the loss; None where the model returns it."""

    @property
    def batch(self) -> Any:
        """What every step trains on."""

    @property
    def optimizer(self) -> Any:
        """The optimizer's class."""

    @property
    def optimizer_options(self) -> Mapping[str, Any]:
        """What the class is called with."""


Make = Callable[[str], Trainable]
"""Makes it on a device ("cpu": with values; "meta": without); workers import it by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What every worker is given."""

    make: Make
    graph: Graph
    plan: Plan
    num_steps: int
    seed: int = 0
    checkpoint: Path | None = None
    every: int | None = None
    resume: Path | None = None
    notes: Path | None = None
    """Where rank 0 writes each step, so that the steps of a run that is lost are known."""
    quiet: bool = False
    torch_compile: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """One step: its number from 1, its loss, the seconds that it took on rank 0, and on how many workers."""

    step: int
    loss: float
    seconds: float
    num_workers: int


def train(training: Training) -> list[Trained]:
    """Train on this rank until `num_steps` steps are made, those of the checkpoint included; the steps made here."""
    here = world(timeout=JOIN_SECONDS)
    workload = make_seeded(training)
    step = compile_training(training, workload)
    if training.resume is not None:
        step.load(training.resume)
    made: list[Trained] = []
    saved, told = step.num_steps, 0.0
    while step.num_steps < training.num_steps:
        done = timed_step(step, workload.batch)
        now = time.monotonic()
        made.append(done)
        if here.rank == 0:
            is_last = done.step == training.num_steps
            _note(training.notes, done)
            if not training.quiet and (len(made) <= 10 or is_last or now - told > TALK_SECONDS):
                print(_line(done), flush=True)
                told = now
        if training.checkpoint is not None and _is_due(training, done.step):
            step.save(training.checkpoint, keep=KEEP)
            saved = done.step
    if training.checkpoint is not None and saved < step.num_steps:
        step.save(training.checkpoint, keep=KEEP)
    return made


def timed_step(step: Step, batch: Any) -> Trained:
    """Make a step, and wait for its loss."""
    began = time.perf_counter()
    loss = float(step(batch))
    return Trained(
        step=step.num_steps,
        loss=loss,
        seconds=time.perf_counter() - began,
        num_workers=step.world.size,
    )


def read_notes(path: Path) -> list[Trained]:
    """The steps that rank 0 has written, a step that was made again as it was made last."""
    found: dict[int, Trained] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                done = Trained(**json.loads(line))
            except ValueError:  # the last line of a worker that was killed while writing it
                continue
            found[done.step] = done
    return [found[number] for number in sorted(found)]


def make_seeded(training: Training) -> Trainable:
    """The workload, with values that follow from the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        workload = training.make("cpu")
    if any(tensor.is_meta for _, tensor in named_tensors("batch", workload.batch)):
        raise InvalidWorkload(
            "the batch is on the meta device, which has no values to train on; make it outside of `with torch.device('meta')`"
        )
    return workload


def compile_training(training: Training, workload: Trainable) -> Step:
    """The step of this rank."""
    return compile_step(
        training.plan,
        workload.model,
        workload.loss_fn,
        workload.optimizer,
        graph=training.graph,
        optimizer_options=workload.optimizer_options,
        seed=training.seed,
        torch_compile=training.torch_compile,
    )


def _is_due(training: Training, step: int) -> bool:
    return training.every is not None and step % training.every == 0


def _note(path: Path | None, done: Trained) -> None:
    if path is not None:
        with path.open("a") as notes:
            notes.write(json.dumps(asdict(done)) + "\n")


def _line(done: Trained) -> str:
    return f"step {done.step:>5}   loss {done.loss:<11.6g} {format_seconds(done.seconds):>9}"
