"""What a calibration found: times of operators' calls on a device, measured and by the roofline.

`graphwright.run.measure.calls.operators` makes it, `graphwright.report` shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import quantiles

from graphwright.describe import Types
from graphwright.ir import Attrs
from graphwright.machine import Device

CALM = 0.1
"""Samples whose spread is more than this share of their median were disturbed by something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCall:
    """A distinct call, `count` times in what was given; the seconds are those of one."""

    op: str
    attrs: Attrs
    types: Types
    count: int
    measured: float
    spread: float
    repeats: int
    roofline: float
    new: bool

    @property
    def ratio(self) -> float:
        """Measured over roofline."""
        return self.measured / self.roofline


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A distinct call that was not measured, and why."""

    op: str
    attrs: Attrs
    types: Types
    count: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Calibration:
    """What was measured on a device, the longest first, beside the roofline of its figures."""

    device: str
    figures: Device
    torch: str
    rows: tuple[MeasuredCall, ...]
    skipped: tuple[Skipped, ...]
    num_free: int
    """Calls that take no time: views and constants."""

    @property
    def num_new(self) -> int:
        """How many were measured now; the others were known."""
        return sum(row.new for row in self.rows)

    @property
    def num_disturbed(self) -> int:
        """How many vary so much that the machine must have been busy with something else."""
        return sum(row.spread > CALM * row.measured for row in self.rows)

    @property
    def measured(self) -> float:
        """Seconds of all calls together, by measurement."""
        return sum(row.measured * row.count for row in self.rows)

    @property
    def roofline(self) -> float:
        """Seconds of all calls together, by the roofline."""
        return sum(row.roofline * row.count for row in self.rows)

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """Of measured over roofline, each distinct call counted once; 1 where there are none."""
        return quartiles([row.ratio for row in self.rows] or [1.0])

    @property
    def median_ratio(self) -> float:
        """The median of measured over roofline."""
        return self.quartiles[1]

    def __repr__(self) -> str:
        return (
            f"Calibration({self.device}: {len(self.rows)} calls, {self.num_new} new, "
            f"{len(self.skipped)} skipped, measured/roofline {self.median_ratio:.3g})"
        )


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """The quartiles of one number or more."""
    if len(values) == 1:
        return (values[0], values[0], values[0])
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return (low, middle, high)
