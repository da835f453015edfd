"""The demonstration: measure, predict, then run, beside PyTorch's DistributedDataParallel.

capture -> measure what the plans need -> plan -> time the fastest beside DDP, in turns
                                               -> compare every tensor with one device
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from graphwright.capture import prepare
from graphwright.ir import Graph
from graphwright.machine import Store, cluster
from graphwright.partition import Progress
from graphwright.pipeline.measured import MeasuredFrontier, plan_measured
from graphwright.pipeline.opening import open_session
from graphwright.pipeline.planning import RunOptions
from graphwright.plans import Frontier, Plan, figures_of
from graphwright.run import DDP, Make, Outcome, StepTimes, Training, launch, time_in_turns

COMPARED = ("data", "zero2", "megatron", "tofu")
FOUND, DATA = "the plan found", "data parallelism"
TURN_SECONDS, TURN_STEPS, TURNS = 0.5, (2, 10), 8
CHECKED_STEPS = 3
BUSY = 0.05
"""Where steps wait for a core for a larger share of their time, others are at work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to train: the time and bytes of a process predicted (None for PyTorch's own), the
    seconds of every step that was timed, and the share of them spent waiting for a core.
    """

    name: str
    predicted: float | None
    memory: int | None
    seconds: tuple[float, ...]
    waited: float | None

    @property
    def measured(self) -> float:
        """The median step."""
        return median(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Between them lies half of the steps."""
        low, _, high = quantiles(self.seconds, n=4)
        return low, high

    @property
    def unhindered(self) -> float:
        """About what a step takes without waiting for a core."""
        return self.measured * (1 - (self.waited or 0.0))

    @property
    def error(self) -> float | None:
        """How far the prediction is off, relative to what was measured."""
        return None if self.predicted is None else self.predicted / self.measured - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The plans of a model on processes of this machine, by what was measured just before."""

    make: Make
    graph: Graph
    num_parameters: int
    measured: MeasuredFrontier
    took: dict[str, float]
    """Seconds by stage."""

    @property
    def frontier(self) -> Frontier:
        """All plans worth having."""
        return self.measured.frontier

    @property
    def plan(self) -> Plan:
        """The fastest, which is to run."""
        return self.frontier.fastest()

    @property
    def num_workers(self) -> int:
        """How many processes train."""
        return self.plan.cluster.num_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """What was predicted, what was measured, and the comparison with one device."""

    prediction: Prediction
    ways: tuple[Way, ...]
    check: Outcome
    notes: tuple[str, ...]
    took: dict[str, float]

    @property
    def speedup(self) -> float | None:
        """The step of DistributedDataParallel over that of the plan; None if it could not run."""
        ddp = next((way.measured for way in self.ways if way.name == DDP), None)
        return None if ddp is None else ddp / self.found.measured

    @property
    def found(self) -> Way:
        """Training with the plan that was found."""
        return next(way for way in self.ways if way.name == FOUND)

    @property
    def is_busy(self) -> bool:
        """Whether other programs were at work, which predictions know nothing of."""
        return (self.found.waited or 0.0) > BUSY

    def to_dict(self) -> dict[str, Any]:
        """The same as data for JSON."""
        before = self.prediction
        return {
            "parameters": before.num_parameters,
            "operators": len(before.graph.nodes),
            "workers": before.num_workers,
            "measured": {"links": before.measured.num_links, "calls": before.measured.num_calls},
            "plans": len(before.frontier),
            "sure": before.measured.sure,
            "ways": [
                {
                    "name": way.name,
                    "predicted_time": way.predicted,
                    "measured_time": way.measured,
                    "prediction_error": way.error,
                    "predicted_memory": way.memory,
                    "waited_for_cores": way.waited,
                    "time_without_waiting": way.unhindered,
                    "steps": list(way.seconds),
                }
                for way in self.ways
            ],
            "speedup_over_ddp": self.speedup,
            "busy": self.is_busy,
            "check": self.check.to_dict()["check"],
            "notes": list(self.notes),
            "seconds": before.took | self.took,
        }


def predict(make: Make, workers: int, *, report: Progress) -> Prediction:
    """Measure what plans for so many processes of this machine need, and plan by that."""
    took: dict[str, float] = {}
    with _timed("capture", took):
        report("capturing a training step", 0, 0)
        workload = make("meta")
        graph = prepare(workload)
    # A store of its own: what was measured another day says nothing about the machine now.
    with TemporaryDirectory(prefix="graphwright-") as folder, _timed("measure and plan", took):
        measured = plan_measured(
            graph,
            cluster(f"local:{workers}"),
            Store(Path(folder) / "costs.sqlite"),
            baselines=COMPARED,
            report=report,
        )
    return Prediction(
        make=make,
        graph=graph,
        num_parameters=sum(p.numel() for p in workload.model.parameters()),
        measured=measured,
        took=took,
    )


def demonstrate(prediction: Prediction, *, report: Progress) -> Demonstration:
    """Train with the fastest plan and with DistributedDataParallel, and compare with one device."""
    make, fastest, took = prediction.make, prediction.plan, dict[str, float]()
    plans = {FOUND: fastest}
    data = prediction.frontier.others.get("data")
    if data is not None and data.strategies != fastest.strategies:
        plans[DATA] = data
    with _timed("run", took):
        report(f"training with {DDP} and with plans, in turns", 0, 0)
        training = Training(make=make, graph=prediction.graph, plan=fastest, num_steps=1)
        least, most = TURN_STEPS
        steps = min(most, max(least, round(TURN_SECONDS / figures_of(fastest).time)))
        times = launch(prediction.num_workers)(time_in_turns, training, plans, TURNS, steps)
    with _timed("check", took):
        report("comparing every tensor with one device", 0, 0)
        options = RunOptions(
            workers=prediction.num_workers, plan=fastest, check=True, steps=CHECKED_STEPS
        )
        check = open_session(make, options).run(lambda line: None)
    refused = (f"{name} cannot train it: {why}" for name, why in times[0].refused.items())
    return Demonstration(
        prediction=prediction,
        ways=tuple(_ways(times, plans)),
        check=check,
        notes=(*prediction.measured.notes, *refused),
        took=took,
    )


def _ways(ranks: Sequence[StepTimes], plans: Mapping[str, Plan]) -> Iterator[Way]:
    """Seconds of the first rank; ranks wait for each other, so the longest waiting counts."""
    for name, seconds in ranks[0].seconds.items():
        figures = figures_of(plans[name]) if name in plans else None
        waited = [times.waited[name] for times in ranks if name in times.waited]
        yield Way(
            name=name,
            predicted=None if figures is None else figures.time,
            memory=None if figures is None else figures.memory,
            seconds=seconds,
            waited=max(waited, default=None),
        )


@contextmanager
def _timed(stage: str, took: dict[str, float]) -> Iterator[None]:
    began = perf_counter()
    yield
    took[stage] = perf_counter() - began
