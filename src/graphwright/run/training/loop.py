"""Training under a plan, as one rank of many does it: the loop behind ``graphwright run``.

make("cpu") -> model, loss, batch, optimizer      the same on every rank, from one seed
step = gw.compile(...); step.load(checkpoint)
loss = step(batch), for every step left           rank 0 prints it; all save now and then
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from graphwright.aten import named_tensors
from graphwright.capture import Trainable
from graphwright.errors import GraphFileError, InvalidWorkload
from graphwright.ir import Graph
from graphwright.plans import Plan, format_seconds
from graphwright.run.checkpoint import DamagedCheckpoint
from graphwright.run.compile import compile_step
from graphwright.run.processes import world
from graphwright.run.step import Step

KEEP = 3
"""Checkpoints that stay."""
JOIN_SECONDS = 1800.0
"""How long ranks wait for one another: another one may still plan, or save."""
PRINT_SECONDS = 0.5
"""After the first steps, rank 0 prints a step no more often than this."""


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
    """A checkpoint, or a folder of them: the newest that is whole."""
    step_log: Path | None = None
    """Where rank 0 writes each step, so that the steps of a run that is lost are known."""
    quiet: bool = False
    torch_compile: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step that was made: its number from 1, its loss, its seconds on rank 0, its workers."""

    step: int
    loss: float
    seconds: float
    num_workers: int


def train(training: Training) -> list[StepRecord]:
    """Train on this rank up to step `num_steps`, from the checkpoint on; the steps made here."""
    here = world(timeout=JOIN_SECONDS)
    workload = make_seeded(training)
    step = compile_training(training, workload)
    if training.resume is not None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DamagedCheckpoint)
            step.load(training.resume)
        for warning in caught if here.rank == 0 else ():
            print(f"graphwright: {warning.message}", file=sys.stderr, flush=True)
    made: list[StepRecord] = []
    saved, printed = step.num_steps, 0.0
    while step.num_steps < training.num_steps:
        done = timed_step(step, workload.batch)
        now = time.monotonic()
        made.append(done)
        if here.rank == 0:
            is_last = done.step == training.num_steps
            _log(training.step_log, done)
            if not training.quiet and (len(made) <= 10 or is_last or now - printed > PRINT_SECONDS):
                print(_line(done), flush=True)
                printed = now
        if training.checkpoint is not None and _is_due(training, done.step):
            step.save(training.checkpoint, keep=KEEP)
            saved = done.step
    if training.checkpoint is not None and saved < step.num_steps:
        step.save(training.checkpoint, keep=KEEP)
    return made


def timed_step(step: Step, batch: Any) -> StepRecord:
    """Make a step, and wait for its loss."""
    began = time.perf_counter()
    loss = float(step(batch))
    return StepRecord(
        step=step.num_steps,
        loss=loss,
        seconds=time.perf_counter() - began,
        num_workers=step.world.size,
    )


def read_step_log(path: Path) -> list[StepRecord]:
    """The steps that rank 0 has written; of a step made again, the last."""
    steps: dict[int, StepRecord] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                done = StepRecord(**json.loads(line))
            except ValueError:  # the last line of a worker that was killed while writing it
                continue
            steps[done.step] = done
    return [steps[number] for number in sorted(steps)]


def make_seeded(training: Training) -> Trainable:
    """The workload, with values that follow from the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        workload = training.make("cpu")
    if any(tensor.is_meta for _, tensor in named_tensors("batch", workload.batch)):
        raise InvalidWorkload(
            "the batch is on the meta device, which has no values to train on; make it outside of "
            "`with torch.device('meta')`"
        )
    return workload


def compile_training(training: Training, workload: Trainable) -> Step:
    """The step of this rank."""
    return compile_step(
        training.plan,
        workload.model,
        workload.loss_fn,
        workload.optimizer,
        batch=workload.batch,
        optimizer_options=workload.optimizer_options,
        seed=training.seed,
        torch_compile=training.torch_compile,
    )


def _is_due(training: Training, step: int) -> bool:
    return training.every is not None and step % training.every == 0


def _log(path: Path | None, done: StepRecord) -> None:
    if path is not None:
        try:
            with path.open("a") as log:
                log.write(json.dumps(asdict(done)) + "\n")
        except OSError as error:
            raise GraphFileError(
                f"the log of the steps cannot be written to the temporary folder {path.parent}: "
                f"{error.strerror or error}; free some room, or set TMPDIR to another folder"
            ) from error


def _line(done: StepRecord) -> str:
    return f"step {done.step:>5}   loss {done.loss:<11.6g} {format_seconds(done.seconds):>9}"
