"""What was predicted for a plan: time, memory and bytes moved, simulated and estimated.

    time      ###############                 simulated: overlap, queues and lifetimes are known
    estimate  #############                   additive: each operator and each movement by itself

Their ratio says how far the estimate may be trusted where nothing was simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from graphwright.errors import PlanFormatError
from graphwright.frozen import FrozenDict
from graphwright.ir import format_bytes
from graphwright.plans.taskgraph import CATEGORIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Seconds and bytes of one step under a plan.

    `memory` is the peak of the fullest device and `breakdown` what it is held for, by category;
    `nbytes` is what moves between devices. `compute_time` is that of the busiest device,
    `communication_time` that of the busiest link; both are parts of `time`, and overlap. `samples`
    and `tokens` are what a step trains on, 0 where unknown; `utilisation` is the model's arithmetic
    as a share of the devices' rate (model FLOPs utilisation).
    """

    time: float
    memory: int
    nbytes: int = 0
    estimate_time: float | None = None
    estimate_memory: int | None = None
    compute_time: float = 0.0
    communication_time: float = 0.0
    breakdown: Mapping[str, int] = field(default_factory=dict)
    samples: int = 0
    tokens: int = 0
    utilisation: float | None = None

    def __post_init__(self) -> None:
        if self.utilisation is not None:
            object.__setattr__(self, "utilisation", _seconds(self.utilisation, "utilisation"))
        _check_bytes(self.samples, "samples")
        _check_bytes(self.tokens, "tokens")
        for name in ("time", "compute_time", "communication_time", "estimate_time"):
            value = getattr(self, name)
            if value is not None or name == "time":
                object.__setattr__(self, name, _seconds(value, name))
        for name in ("memory", "nbytes", "estimate_memory"):
            value = getattr(self, name)
            if value is not None or name != "estimate_memory":
                _check_bytes(value, name)
        if not isinstance(self.breakdown, Mapping):
            raise PlanFormatError(f"breakdown has to be a table, not {self.breakdown!r}")
        for name, value in self.breakdown.items():
            if name not in CATEGORIES:
                raise PlanFormatError(
                    f"breakdown has {name!r}; memory is held for {', '.join(CATEGORIES)}"
                )
            _check_bytes(value, f"breakdown.{name}")
        object.__setattr__(self, "breakdown", FrozenDict(self.breakdown))

    def dominates(self, other: Figures) -> bool:
        """Whether this is no worse in time and memory, and better in one of them."""
        mine, its = (self.time, self.memory), (other.time, other.memory)
        return mine != its and mine[0] <= its[0] and mine[1] <= its[1]

    @property
    def unit(self) -> str:
        """What a step is counted in: tokens, or samples."""
        return "tokens" if self.tokens else "samples"

    def rate(self, num_devices: int) -> float:
        """Tokens, or samples, in a second on each device."""
        count = self.tokens or self.samples
        return count / self.time / num_devices if self.time else 0.0

    def price(self, per_hour: float, num_devices: int) -> float | None:
        """What a billion tokens cost, or a million samples, at a price of a device and hour."""
        rate, many = self.rate(num_devices), 1e9 if self.tokens else 1e6
        return many / rate / 3600 * per_hour if rate else None

    def __str__(self) -> str:
        time, memory = format_seconds(self.time), format_bytes(self.memory)
        return f"{time}, {memory}, {format_bytes(self.nbytes)} moved"

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {
            "breakdown": dict(self.breakdown)
        }

    @staticmethod
    def from_json(document: object) -> Figures:
        """The figures that `to_json` wrote; anything else is refused with the field at fault."""
        if not isinstance(document, dict):
            raise PlanFormatError(f"figures has to be a table, not {document!r}")
        known = {f.name for f in fields(Figures)}
        for name in document:
            if name not in known:
                raise PlanFormatError(f"figures has the unknown field {name!r}")
        for name in ("time", "memory"):
            if name not in document:
                raise PlanFormatError(f"figures has no {name}")
        try:
            return Figures(**document)
        except PlanFormatError as error:
            raise PlanFormatError(f"figures.{error}") from None


MAX_FIGURE = 1 << 63
"""Seconds and bytes of a plan are below this."""


def _seconds(value: object, name: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MAX_FIGURE:
        return float(value)
    raise PlanFormatError(f"{name} has to be seconds from 0 on, not {value!r}")


def _check_bytes(value: object, name: str) -> None:
    if type(value) is not int or not 0 <= value < MAX_FIGURE:
        raise PlanFormatError(f"{name} has to be a whole number of bytes from 0 on, not {value!r}")


def format_seconds(seconds: float) -> str:
    """Write a length of time with three digits: `1.25 ms`."""
    if seconds == 0:
        return "0 s"
    unit, scale = time_unit(seconds)
    value = seconds / scale
    return f"{value:,.0f} {unit}" if value >= 999.5 else f"{value:.3g} {unit}"


def time_unit(seconds: float) -> tuple[str, float]:
    """The unit to write a length of time in, and its seconds."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= 0.9995 * scale:  # what would round to 1000 goes to the next unit
            return unit, scale
    return "ns", 1e-9
