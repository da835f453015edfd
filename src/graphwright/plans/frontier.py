"""The trade-off between time and memory: plans of one graph, none both slower and larger.

    time
      |x                       x   a plan; more memory, less time
      | x
      |  o                     o   the turning point (TensorOpt section 5.1)
      |     x
      |            x      x
      +------------------------ memory

The turning point is where further memory stops paying: the plan that lies farthest below the
straight line between the two ends, with both axes logarithmic and scaled to [0, 1]. On these axes a
slope is how many per cent of time one per cent of memory buys, so the point depends neither on
units nor on how extreme the slow end is: before it memory buys more than on average, behind it
less.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite, log
from pathlib import Path
from typing import Any, Protocol, overload

from graphwright.errors import (
    DoesNotFit,
    InvalidCluster,
    InvalidLimit,
    MemoryTooSmall,
    PlanFormatError,
    PlanMismatch,
)
from graphwright.frozen import FrozenDict
from graphwright.ir import format_bytes
from graphwright.machine import parse_quantity, to_toml
from graphwright.plans.figures import Figures, format_seconds
from graphwright.plans.plan import (
    Plan,
    body_from_json,
    body_to_json,
    read_cluster,
    read_field,
    read_json,
    refuse_unknown,
    write_json,
)

FORMAT = "graphwright.frontier"
FRONTIER_VERSION = 1
_FIELDS = ("format", "version", "graph", "cluster", "plans", "others", "notes")
_SHOWN = 12


class Swapped(Protocol):
    """A plan in less memory than it needs."""

    @property
    def plan(self) -> Plan:
        """The plan with its limit, and the figures that it has then."""


class Swap(Protocol):
    """What makes a plan fit into a limit, or raises `MemoryTooSmall`."""

    def __call__(self, memory: int, *, partition: Plan) -> Swapped: ...


@dataclass(frozen=True, slots=True)
class Frontier:
    """Plans from the smallest and slowest to the largest and fastest, each with its figures.

    `make_frontier` makes one. `others` are plans to compare with, by name, such as data
    parallelism; `notes` say what was left out or assumed.
    """

    plans: tuple[Plan, ...]
    others: Mapping[str, Plan] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "plans", tuple(self.plans))
        object.__setattr__(self, "others", FrozenDict(self.others))
        object.__setattr__(self, "notes", tuple(self.notes))
        if not self.plans:
            raise PlanMismatch("a frontier has at least one plan")
        first = self.plans[0]
        for plan in (*self.plans, *self.others.values()):
            _check_alike(plan, first)
        ordered = [figures_of(plan) for plan in self.plans]
        for a, b in pairwise(ordered):
            if not (a.memory < b.memory and a.time > b.time):
                raise PlanMismatch(
                    f"a frontier goes from small and slow to large and fast, but {b} follows {a}; "
                    "use make_frontier"
                )

    def __len__(self) -> int:
        return len(self.plans)

    def __iter__(self) -> Iterator[Plan]:
        return iter(self.plans)

    @overload
    def __getitem__(self, at: int) -> Plan: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Plan, ...]: ...
    def __getitem__(self, at: int | slice) -> Plan | tuple[Plan, ...]:
        return self.plans[at]

    def fastest(self, memory: int | str | None = None, *, swap: Swap | None = None) -> Plan:
        """The fastest plan, or the fastest within a memory limit on every device: 10**9, "14.5GB".

        Raises `DoesNotFit` where even the smallest needs more. Without a limit, warns
        (`TooLargeForDevice`) of a plan that needs more than a device has. With `swap`, plans that
        need more than the limit may wait in host memory, as far as they do not fit; the chosen one
        then has that limit and what it costs, and `gw.compile` keeps to it.

        >>> plan = frontier.fastest("8GB", swap=partial(gw.swap, graph))
        """
        if swap is not None:
            return self._fastest_swapped(memory, swap)
        if memory is None:
            self._warn_if_too_large()
            return self.plans[-1]
        limit = parse_limit(memory)
        fitting = [plan for plan in self.plans if figures_of(plan).memory <= limit]
        if not fitting:
            raise does_not_fit(limit, self.smallest())
        return fitting[-1]

    def _fastest_swapped(self, memory: int | str | None, swap: Swap) -> Plan:
        """The fastest plan of those that fit and those that can be made to fit."""
        if memory is None:
            raise InvalidLimit("swap makes plans fit into a limit; give memory as well")
        limit = parse_limit(memory)
        made: list[Plan] = []
        failure: MemoryTooSmall | None = None
        for plan in self.plans:
            if figures_of(plan).memory <= limit:
                made.append(plan)
                continue
            try:
                made.append(swap(limit, partition=plan).plan)
            except MemoryTooSmall as error:
                failure = error if failure is None else failure
        if not made:
            assert failure is not None
            raise failure
        return min(made, key=lambda plan: figures_of(plan).time)

    def _warn_if_too_large(self) -> None:
        """Say that the fastest plan does not fit, and which one does."""
        cluster, needed = self.plans[-1].cluster, figures_of(self.plans[-1]).memory
        limit = min(device.memory for device in cluster.devices)
        if needed <= limit:
            return
        small = figures_of(self.smallest()).memory
        instead = (
            f"The fastest that does is fastest(memory={limit})"
            if small <= limit
            else f"None does: the smallest needs {format_bytes(small)}. Use more devices, a "
            "smaller batch or a smaller model"
        )
        warnings.warn(
            f"the fastest plan needs {format_bytes(needed)} on a device of {cluster.name}, which "
            f"has {format_bytes(limit)}: it does not fit. {instead}",
            TooLargeForDevice,
            stacklevel=3,
        )

    def smallest(self) -> Plan:
        """The plan that needs the least memory."""
        return self.plans[0]

    def turning_point(self) -> Plan:
        """The plan behind which further memory stops paying; the fastest if there is no bend."""
        turning, farthest = len(self.plans) - 1, 0.0
        if len(self.plans) > 2:
            memory = _scaled([log(max(figures_of(p).memory, 1)) for p in self.plans])
            time = _scaled([log(max(figures_of(p).time, 1e-12)) for p in self.plans])
            for at, (x, y) in enumerate(zip(memory, time, strict=True)):
                below = 1 - x - y  # the line between the ends goes from (0, 1) to (1, 0)
                if below > farthest + 1e-9:
                    turning, farthest = at, below
        return self.plans[turning]

    def save(self, path: str | Path) -> None:
        """Write the frontier as JSON: all of it, or nothing; packed where the name ends in .gz."""
        first = self.plans[0]
        document = {
            "format": FORMAT,
            "version": FRONTIER_VERSION,
            "graph": first.graph_hash,
            "cluster": to_toml(first.cluster),
            "notes": list(self.notes),
            "plans": [body_to_json(plan) for plan in self.plans],
            "others": {name: body_to_json(plan) for name, plan in self.others.items()},
        }
        write_json(path, document)

    @staticmethod
    def load(path: str | Path) -> Frontier:
        """Read a frontier; what is not one is refused with the field that is wrong."""
        document = read_json(path)
        try:
            return _from_json(document)
        except (PlanFormatError, PlanMismatch) as error:
            raise PlanFormatError(f"{path}: {error}") from None

    def __repr__(self) -> str:
        """A small table: what every plan takes, the turning point marked, and the others below."""
        first, turning = self.plans[0], self.turning_point()
        cluster = first.cluster
        noun = "plan" if len(self) == 1 else "plans"
        lines = [
            f"Frontier({len(self)} {noun} on {cluster.num_devices} devices of {cluster.name})",
            f"  {'memory':>9}  {'time':>9}  {'moved':>9}",
        ]
        for plan in _some(self.plans, turning):
            mark = "  <- turning point" if plan is turning and len(self) > 2 else ""
            lines.append("        ..." if plan is None else f"{_row(plan)}{mark}")
        for name, plan in self.others.items():
            lines.append(f"{_row(plan)}  {name}")
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines)


class TooLargeForDevice(UserWarning):
    """The fastest plan of a frontier, asked for without a limit, needs more than a device has."""


def make_frontier(
    plans: Iterable[Plan], *, others: Mapping[str, Plan] | None = None, notes: Sequence[str] = ()
) -> Frontier:
    """The frontier of plans with figures: those that no other dominates, the first of equals."""
    given = list(plans)
    for plan in given:
        _check_alike(plan, given[0])
    kept: list[Plan] = []
    for plan in sorted(given, key=lambda p: (figures_of(p).memory, figures_of(p).time)):
        if not kept or figures_of(plan).time < figures_of(kept[-1]).time:
            kept.append(plan)
    return Frontier(tuple(kept), others or {}, tuple(notes))


def figures_of(plan: Plan) -> Figures:
    """The figures of a plan that has to have some."""
    if plan.figures is None:
        raise PlanMismatch(
            f"{plan!r} has no figures, so it cannot be compared; simulate it, and keep them: "
            "replace(plan, figures=...)"
        )
    return plan.figures


def parse_limit(memory: object) -> int:
    """Bytes, from a number of them or a text like "14.5GB"."""
    if isinstance(memory, bool) or (isinstance(memory, float) and not isfinite(memory)):
        raise InvalidLimit(f'memory: {memory!r} is not a size; write "80GB" or a number of bytes')
    try:
        limit = int(parse_quantity(memory, "size", "memory"))
    except InvalidCluster as error:
        raise InvalidLimit(str(error)) from None
    if limit < 0:
        raise InvalidLimit(f"memory: {memory!r} is less than nothing")
    return limit


def does_not_fit(limit: int, smallest: Plan, largest: Sequence[tuple[str, int]] = ()) -> DoesNotFit:
    """The error that no plan keeps to a limit: what the smallest one needs, and what for.

    `largest` are the largest tensors with their bytes.
    """
    figures = figures_of(smallest)
    held = sorted(figures.breakdown.items(), key=lambda item: -item[1])
    parts = ", ".join(f"{name.replace('_', ' ')} {format_bytes(n)}" for name, n in held if n)
    named = ", ".join(f"{name} {format_bytes(n)}" for name, n in largest)
    return DoesNotFit(
        f"no plan needs at most {format_bytes(limit)} on every device of {smallest.cluster.name}; "
        f"the smallest needs "
        f"{format_bytes(figures.memory)}{f' ({parts})' if parts else ''}"
        f"{f'; the largest tensors are {named}' if named else ''}. Use more devices, a smaller "
        "batch or a smaller model",
        limit=limit,
        needed=figures.memory,
        largest=tuple(name for name, _ in largest),
    )


def _check_alike(plan: object, first: Plan) -> None:
    """Refuse what is no plan, or for another graph or cluster."""
    if not isinstance(plan, Plan):
        raise PlanMismatch(f"{plan!r} is no plan")
    figures_of(plan)
    if plan.graph_hash != first.graph_hash:
        raise PlanMismatch(
            f"a frontier is of one graph, but there are plans for {first.graph_hash[:12]} and "
            f"{plan.graph_hash[:12]}"
        )
    if plan.cluster != first.cluster:
        raise PlanMismatch(
            f"a frontier is on one cluster, but there are plans for {first.cluster.name} and "
            f"{plan.cluster.name}"
        )


def _scaled(values: list[float]) -> list[float]:
    low, high = min(values), max(values)
    return [(value - low) / ((high - low) or 1.0) for value in values]


def _some(plans: tuple[Plan, ...], turning: Plan) -> list[Plan | None]:
    """The plans to show: all, or both ends, the turning point and some between; None for gaps."""
    if len(plans) <= _SHOWN:
        return list(plans)
    last = len(plans) - 1
    chosen = {round(at * last / (_SHOWN - 1)) for at in range(_SHOWN)}
    chosen |= {at for at, plan in enumerate(plans) if plan is turning}
    shown: list[Plan | None] = []
    before = -1
    for at in sorted(chosen):
        if at > before + 1:
            shown.append(None)
        shown.append(plans[at])
        before = at
    return shown


def _row(plan: Plan) -> str:
    f = figures_of(plan)
    return (
        f"  {format_bytes(f.memory):>9}  {format_seconds(f.time):>9}  {format_bytes(f.nbytes):>9}"
    )


def _from_json(document: Any) -> Frontier:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise PlanFormatError(f"not a frontier: the field format has to be {FORMAT!r}")
    if document.get("version") != FRONTIER_VERSION:
        raise PlanFormatError(
            f"version {document.get('version')!r}; this Graphwright reads version "
            f"{FRONTIER_VERSION}: plan again"
        )
    refuse_unknown(document, _FIELDS)
    cluster, graph_hash = read_cluster(document), read_field(document, "graph", str)

    def plan(body: object, where: str) -> Plan:
        try:
            return body_from_json(body, cluster, graph_hash)
        except PlanFormatError as error:
            raise PlanFormatError(f"{where}: {error}") from None

    notes = read_field(document, "notes", list)
    if not all(isinstance(note, str) for note in notes):
        raise PlanFormatError("notes hold text")
    return Frontier(
        tuple(
            plan(body, f"plans[{n}]") for n, body in enumerate(read_field(document, "plans", list))
        ),
        {
            name: plan(body, f"others.{name}")
            for name, body in read_field(document, "others", dict).items()
        },
        tuple(notes),
    )
