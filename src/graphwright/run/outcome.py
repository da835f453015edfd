"""What came of a run: every step, every restart, the comparison, and the plan's prediction beside what was measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any, cast

from graphwright.plans import Plan, format_seconds
from graphwright.run.check import Comparison
from graphwright.run.elastic import Attempt
from graphwright.run.training import Trained

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
        return f"rank {self.lost_rank} is lost (exit code {self.exit_code}); going on with {left} from {where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A run that ended well; `is_first` where this process is the one that tells of it."""

    plan: Plan
    steps: tuple[Trained, ...] = ()
    restarts: tuple[Restart, ...] = ()
    checkpoint: Path | None = None
    comparison: Comparison | None = None
    is_first: bool = True

    @property
    def measured(self) -> float | None:
        """The median time of the steps under the last plan, but for the first of them, which sets up."""
        size = self.plan.cluster.num_devices
        steps = self.steps if self.comparison is None else self.comparison.steps
        made = [done.seconds for done in steps if done.num_workers == size]
        return median(made[1:] or made) if made else None

    def lines(self) -> list[str]:
        """All of it in a few words."""
        found = []
        if self.comparison is not None:
            found += _compared(self.comparison)
        elif self.measured is None:
            found.append("nothing was left to train")
        else:
            found.append(self._timed(self.measured))
        first = next((done.step for done in self.steps if not isfinite(done.loss)), None)
        if first is not None:
            found.append(
                f"from step {first} on the loss is no number: try a lower learning rate, or look at the data"
            )
        if self.checkpoint is not None:
            found.append(f"saved {self.checkpoint}")
        return found

    def _timed(self, measured: float) -> str:
        taken = f"a step took {format_seconds(measured)}"
        if self.plan.figures is None:
            return taken
        predicted = self.plan.figures.time
        return (
            f"{taken}, {measured / predicted:.2g} times the {format_seconds(predicted)} predicted"
        )

    def to_dict(self) -> dict[str, Any]:
        """The same as data for JSON."""
        compared, figures = self.comparison, self.plan.figures
        found = {
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
        return cast(dict[str, Any], _plain(found))


def _compared(found: Comparison) -> list[str]:
    name, apart = found.worst
    word = "the same" if found.agrees else "NOT THE SAME"
    head = (
        f"{word} as {found.against}: after {len(found.steps)} steps in {found.dtype}, the largest difference of {len(found.differences)} tensors is "
        f"{apart:.2g} of the largest element ({name}; {found.tolerance:.0e} is allowed)"
    )
    losses = [
        f"step {done.step:>5}   loss {done.loss:<11.6g} on one device {loss:<11.6g} {format_seconds(done.seconds):>9}"
        for done, loss in zip(found.steps, found.expected_losses, strict=True)
    ]
    rows = list(found.differences.items())[:SHOWN]
    pairs = zip(found.steps, found.expected_losses, strict=True)
    if any(not isfinite(done.loss) and not isfinite(loss) for done, loss in pairs):
        head += "\nThe loss is no number on one device either, so nothing can be compared: try a lower learning rate or another batch."
    return [*losses, head, *(f"  {difference:9.2e}  {name}" for name, difference in rows)]


def _plain(value: object) -> object:
    """What JSON can hold: paths as text, and null for a number that is none."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value
