"""What an algorithm that finds plans is: a value whose fields are its options, registered by name.

    @algorithm("tofu", "system", whose="Tofu")
    class Recursive(OnePlan):
        \"""The least bytes, one axis at a time, nothing replicated.\"""

        def plan(self, context: Context) -> Plan: ...

It is given a `Context` (a graph in groups, a cluster, costs, plans that are known, a deadline) and
returns `Candidates`: plans to simulate, and notes on how it went. The options of `gw.plan`, the
command line with its help, the errors and the table in docs/planning.md are read from `REGISTRY`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from typing import ClassVar, Literal, TypeVar, dataclass_transform

from graphwright.errors import InvalidOption
from graphwright.machine import Cluster
from graphwright.partition.estimate import Estimate, make_estimate
from graphwright.partition.progress import Progress, silent
from graphwright.partition.search import narrow
from graphwright.partition.space import Coarse, Space
from graphwright.plans import Plan
from graphwright.tasks import Costs

Kind = Literal["search", "system", "recipe", "reference"]
Made = TypeVar("Made", bound="Algorithm")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Context:
    """What an algorithm is given.

    batch_dim   the dim of the step's data that runs over samples
    known       plans that were made before, to start from and to be no worse than
    deadline    when to come to an end, by `perf_counter`; None for as long as it takes
    """

    coarse: Coarse
    cluster: Cluster
    costs: Costs
    batch_dim: int = 0
    known: tuple[Plan, ...] = ()
    deadline: float | None = None
    progress: Progress = silent
    _estimates: dict[Space, Estimate] = field(default_factory=dict, init=False, repr=False)
    _plans: dict[OnePlan, Plan] = field(default_factory=dict, init=False, repr=False)

    @property
    def plain(self) -> Space:
        """The default space for this data."""
        return Space(batch_dim=self.batch_dim)

    @property
    def seconds_left(self) -> float:
        return inf if self.deadline is None else max(0.0, self.deadline - perf_counter())

    def estimate(self, space: Space) -> Estimate:
        """The estimate of time in a space, made once for all algorithms that are given this."""
        if space not in self._estimates:
            self._estimates[space] = make_estimate(self.coarse, self.cluster, self.costs, space)
        return self._estimates[space]

    def plan(self, algorithm: OnePlan) -> Plan:
        """The plan of an algorithm, made once for all that are given this."""
        if algorithm not in self._plans:
            self._plans[algorithm] = algorithm.plan(self)
        return self._plans[algorithm]

    def has_estimate(self, space: Space) -> bool:
        return space in self._estimates

    def estimate_bytes(self, space: Space, width: int | None) -> Estimate:
        """The estimate of bytes moved in a space, narrowed."""
        every = make_estimate(self.coarse, self.cluster, self.costs, space, measure="bytes")
        return narrow(every, width)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """Plans, each with the estimate, (seconds, bytes), that the search had of it, if any."""

    plans: tuple[tuple[Plan, tuple[float, float] | None], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm(ABC):
    """A way to find plans. The first line of its docstring says what it may do, `whose` it is."""

    name: ClassVar[str]
    kind: ClassVar[Kind]
    whose: ClassVar[str]

    @classmethod
    def summary(cls) -> str:
        """What it may do, in one line."""
        return (cls.__doc__ or "").partition("\n")[0].removesuffix(".")

    @abstractmethod
    def candidates(self, context: Context) -> Candidates:
        """The plans that it finds."""


REGISTRY: dict[str, type[Algorithm]] = {}
"""Every algorithm by its name."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def algorithm(name: str, kind: Kind, *, whose: str) -> Callable[[type[Made]], type[Made]]:
    """Make a class a frozen dataclass, and register it."""

    def register(cls: type[Made]) -> type[Made]:
        made = dataclass(frozen=True, slots=True, kw_only=True)(cls)
        made.name, made.kind, made.whose = name, kind, whose
        REGISTRY[name] = made
        return made

    return register


@dataclass(frozen=True, slots=True, kw_only=True)
class OnePlan(Algorithm):
    """A way to find one plan."""

    @abstractmethod
    def plan(self, context: Context) -> Plan:
        """The plan that it finds."""

    def candidates(self, context: Context) -> Candidates:
        return Candidates(plans=((self.plan(context), None),))


def check_number(name: str, value: object, *, least: float) -> None:
    """Refuse an option that is no finite number, or too small a one."""
    if not is_number(value) or not least <= value < inf:  # type: ignore[operator]
        raise InvalidOption(f"{name} has to be {least:g} or more, not {value!r}")


def check_budget(value: object) -> None:
    """Refuse what is no number of seconds."""
    if value is not None and not (is_number(value) and value >= 0):  # type: ignore[operator]
        raise InvalidOption(f"budget is a number of seconds, or None, not {value!r}")


def is_number(value: object) -> bool:
    """Whether it is a number, and not a truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)
