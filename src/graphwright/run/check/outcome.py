"""The outcome of a run: its steps, restarts and comparison, and the time predicted and measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any, cast

from graphwright.plans import Plan, format_seconds
from graphwright.run.check.training import Comparison
from graphwright.run.training import Attempt, StepRecord

SHOWN = 5
"""Tensors of a comparison that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A worker that was lost, and with how many and from which checkpoint the run went on."""

    lost_rank: int
    exit_code: int | None
    num_workers: int
    checkpoint: Path | None

    @staticmethod
    def after(attempt: Attempt) -> Restart:
        """What an attempt begins with."""
        assert attempt.failure is not None
        return Restart(
            lost_rank=attempt.failure.rank,
            exit_code=attempt.failure.exit_code,
            num_workers=attempt.num_workers,
            checkpoint=attempt.checkpoint,
        )

    @property
    def line(self) -> str:
        """The restart in words."""
        where = "the beginning" if self.checkpoint is None else str(self.checkpoint)
        left = f"{self.num_workers} worker{'s' * (self.num_workers != 1)}"
        lost = f"rank {self.lost_rank} is lost (exit code {self.exit_code})"
        return f"{lost}; going on with {left} from {where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A run that ended well; `is_first` where this process is the one that tells of it."""

    plan: Plan
    steps: tuple[StepRecord, ...] = ()
    restarts: tuple[Restart, ...] = ()
    checkpoint: Path | None = None
    comparison: Comparison | None = None
    is_first: bool = True

    @property
    def measured(self) -> float | None:
        """The median time of the steps under the last plan, but for the first, which sets up."""
        size = self.plan.cluster.num_devices
        steps = self.steps if self.comparison is None else self.comparison.steps
        made = [done.seconds for done in steps if done.num_workers == size]
        return median(made[1:] or made) if made else None

    @property
    def verdict(self) -> str | None:
        """The comparison in one sentence."""
        return None if self.comparison is None else _verdict(self.comparison)

    def lines(self) -> list[str]:
        """All of it in a few words."""
        lines = []
        if self.comparison is not None:
            lines += _compared(self.comparison)
        elif self.measured is None:
            lines.append("nothing was left to train")
        else:
            lines.append(self._timed(self.measured))
        first = next((done.step for done in self.steps if not isfinite(done.loss)), None)
        if first is not None:
            lines.append(
                f"from step {first} on the loss is not a finite number: try a lower learning rate, "
                "or look at the data"
            )
        if self.checkpoint is not None:
            lines.append(f"saved {self.checkpoint}")
        return lines

    def _timed(self, measured: float) -> str:
        taken = f"a step took {format_seconds(measured)}"
        if self.plan.figures is None:
            return taken
        predicted = self.plan.figures.time
        times = measured / predicted
        shown = f"{times:.2g}" if times < 100 else f"{times:,.0f}"
        return f"{taken}, {shown} times the {format_seconds(predicted)} predicted"

    def to_dict(self) -> dict[str, Any]:
        """The same as data for JSON."""
        compared, figures = self.comparison, self.plan.figures
        document = {
            "workers": self.plan.cluster.num_devices,
            "plan": self.plan.algorithm,
            "predicted_time": None if figures is None else figures.time,
            "predicted_memory": None if figures is None else figures.memory,
            "measured_time": self.measured,
            "steps": [asdict(done) for done in self.steps],
            "restarts": [asdict(restart) for restart in self.restarts],
            "checkpoint": self.checkpoint,
            "check": None if compared is None else {**asdict(compared), "agrees": compared.agrees},
        }
        return cast(dict[str, Any], _plain(document))


def _verdict(comparison: Comparison) -> str:
    name, worst = comparison.worst
    word = "the same" if comparison.agrees else "NOT THE SAME"
    return (
        f"{word} as {comparison.against}: after {len(comparison.steps)} steps in "
        f"{comparison.dtype}, the largest difference of {len(comparison.differences)} tensors is "
        f"{worst:.2g} of the largest element ({name}; {comparison.tolerance:.0e} is allowed)"
    )


def _compared(comparison: Comparison) -> list[str]:
    head = _verdict(comparison)
    pairs = list(zip(comparison.steps, comparison.expected_losses, strict=True))
    losses = [
        f"step {done.step:>5}   loss {done.loss:<11.6g} on one device {loss:<11.6g} "
        f"{format_seconds(done.seconds):>9}"
        for done, loss in pairs
    ]
    if any(not isfinite(done.loss) and not isfinite(loss) for done, loss in pairs):
        head += (
            "\nThe loss is not a finite number on one device either, so nothing can be compared: "
            "try a lower learning rate or another batch."
        )
    shown = list(comparison.differences.items())[:SHOWN]
    return [*losses, head, *(f"  {difference:9.2e}  {name}" for name, difference in shown)]


def _plain(value: object) -> object:
    """What JSON can hold: paths as text, and null for a number that is not finite."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value
