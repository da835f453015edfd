"""The ways to choose tilings, as values in a registry.

exact      the least bytes of all tilings, by elimination (OptCNN section 5); within a budget for
           duplicates, by frontier tracking (TensorOpt section 3)
greedy     Spartan's smart tiling
rows       every array by rows, each operator as is best for that
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, isinf
from typing import ClassVar, TypeVar, dataclass_transform

import numpy as np

from graphwright.errors import DoesNotFit, InvalidOption
from graphwright.partition.estimate import Assignment, Problem
from graphwright.partition.search import least, track, work_of
from graphwright.partition.tiling.bounds import (
    Pruned,
    complete,
    diffuse,
    nearest,
    prune,
    whole,
    within,
)
from graphwright.partition.tiling.greedy import smart_tiling
from graphwright.partition.tiling.problem import TilingGraph, make_problem, tiling_bytes
from graphwright.partition.tiling.space import Tilings
from graphwright.partition.tiling.workers import Sides
from graphwright.plans import Partial, Replicated, Sharding, Split

Made = TypeVar("Made", bound="TilingAlgorithm")
_SLACK = 1.0
"""Bytes by which preferences among tilings that take the same may differ."""
_LOOKAHEAD = 3
"""How far the greedy search looks ahead that an inexact one is compared with."""
_ROUNDS = 20
"""How often costs are passed on."""
_WIDTH = 24
"""How many of a variable's tilings are looked at where all would be too many, or fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A tiling for every variable, and whether no other takes fewer bytes."""

    tilings: list[int]
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TilingAlgorithm(ABC):
    """A way to choose tilings; its fields are its options, `whose` it is."""

    name: ClassVar[str]
    whose: ClassVar[str]

    @classmethod
    def summary(cls) -> str:
        """What it does, in one line."""
        return (cls.__doc__ or "").partition("\n")[0].removesuffix(".")

    @abstractmethod
    def choose(self, graph: TilingGraph, memory: float) -> Chosen:
        """A tiling for every variable, with duplicates of at most `memory` bytes on a worker."""


TILING_ALGORITHMS: dict[str, type[TilingAlgorithm]] = {}
"""Every way to choose tilings, by its name."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def tiling_algorithm(name: str, *, whose: str) -> Callable[[type[Made]], type[Made]]:
    """Make a class a frozen dataclass, and register it."""

    def register(cls: type[Made]) -> type[Made]:
        made = dataclass(frozen=True, slots=True, kw_only=True)(cls)
        made.name, made.whose = name, whose
        TILING_ALGORITHMS[name] = made
        return made

    return register


def find_tiling_algorithm(algorithm: TilingAlgorithm | str) -> TilingAlgorithm:
    """An algorithm by its name, with its default options."""
    if isinstance(algorithm, TilingAlgorithm):
        return algorithm
    known = TILING_ALGORITHMS.get(algorithm)
    if known is None:
        names = ", ".join(TILING_ALGORITHMS)
        raise InvalidOption(f"no way to choose tilings is called {algorithm!r}; one of {names}")
    return known()


@tiling_algorithm("exact", whose="OptCNN, TensorOpt")
class ExactTiling(TilingAlgorithm):
    """The least bytes of all tilings. The default.

    First with one choice for all sides of the grid, which is soon solved and bounds what the best
    can take; then with all tilings that may keep the bound. Where that takes more than `work` sums,
    bounds are made tighter; where it still does, each operator has but its most promising tilings,
    and the plan does not say that it is exact. Such a plan is no worse than a greedy one.
    """

    work: int = 30_000_000

    def choose(self, graph: TilingGraph, memory: float) -> Chosen:
        chosen = self._search(graph, memory)
        if chosen.exact or not isinf(memory):
            return chosen
        others = [smart_tiling(graph, lookahead=ahead) for ahead in (0, _LOOKAHEAD)]
        best = min((chosen.tilings, *others), key=lambda tilings: tiling_bytes(graph, tilings))
        return Chosen(tilings=best)

    def _search(self, graph: TilingGraph, memory: float) -> Chosen:
        limited = not isinf(memory)
        if len(graph.sides) < 2 and not limited:
            made = make_problem(graph, other=True)
            if work_of(made.problem) <= self.work:
                choices, _, exact = _least(whole(made.problem), made.other)
                return Chosen(tilings=choices[: len(graph.tilings)], exact=exact)
        known = self._first(graph, count_duplicates=limited)
        if limited:
            made = make_problem(graph, count_duplicates=True)
            bound, held = made.problem.evaluate(complete(made.problem, known), {})
            best, time, exact = self._within(made.problem, bound if held <= memory else inf, memory)
            return Chosen(tilings=best[: len(known)], exact=exact and time <= made.beyond)
        bound = tiling_bytes(graph, known) + _SLACK
        made = make_problem(graph, other=True, bound=bound, known=known)
        at = complete(made.problem, known, made.other)
        left, all_left = self._narrowed(made.problem, bound + _SLACK, at)
        best, _, exact = _least(left, made.other)
        return Chosen(tilings=best[: len(known)], exact=exact and all_left)

    def _first(self, graph: TilingGraph, *, count_duplicates: bool) -> list[int]:
        """The best tilings with one choice for all sides."""
        uniform = {v: _uniform(tilings, graph.sides) for v, tilings in enumerate(graph.tilings)}
        made = make_problem(graph.restricted(uniform), count_duplicates=count_duplicates)
        choices = least(made.problem).choices[: len(graph.tilings)].tolist()
        return [uniform[v][choice] for v, choice in enumerate(choices)]

    def _narrowed(self, problem: Problem, bound: float, known: list[int]) -> tuple[Pruned, bool]:
        """What is left to choose from, and whether the best is there."""
        left = prune(problem, bound)
        if isinf(bound) or work_of(left.problem) <= self.work:
            return left, True
        costs = diffuse(left.problem, bound, _ROUNDS)
        left = left.only(kept := within(costs, bound))
        if work_of(left.problem) <= self.work:
            return left, True
        costs = [own[numbers] for own, numbers in zip(costs, kept, strict=True)]
        at = [
            int(np.flatnonzero(numbers == number)[0])
            for numbers, number in zip(left.kept, known, strict=True)
        ]
        width = _WIDTH
        while True:
            narrow = left.only(nearest(costs, at, width))
            if work_of(narrow.problem) <= self.work or width == 1:
                return narrow, False
            width = width * 2 // 3

    def _within(
        self, problem: Problem, bound: float, memory: float
    ) -> tuple[list[int], float, bool]:
        """The fewest bytes within a budget for duplicates."""
        left = prune(problem, bound + _SLACK)
        tracked = track(left.problem, limit=10 * self.work, threads=1)
        fitting: list[Assignment] = [p for p in tracked.points if p.memory <= memory]
        if not fitting:
            smallest = least(problem, inf)
            raise DoesNotFit(
                f"no tilings keep duplicates within {memory:,.0f} bytes on a worker; the fewest "
                f"take {smallest.memory:,.0f}: allow that much, or use more workers",
                limit=int(memory),
                needed=int(smallest.memory),
            )
        best = min(fitting, key=lambda point: point.time)
        return left.original(best.choices), best.time, tracked.exact


def _least(left: Pruned, other: Mapping[int, int]) -> tuple[list[int], float, bool]:
    """The least of what is left, and whether it is the least of all tilings: it does without the
    entries for larger sets of layouts, or takes no more than the least with them."""
    bound = least(left.problem)
    choices = left.original(bound.choices)
    if all(choices[v] != number for v, number in other.items()):
        return choices, bound.time, bound.exact
    real = left.only([np.flatnonzero(kept != other.get(v, -1)) for v, kept in enumerate(left.kept)])
    solution = least(real.problem)
    exact = solution.exact and bound.exact and solution.time <= bound.time + _SLACK
    return real.original(solution.choices), solution.time, exact


def _uniform(tilings: Tilings, sides: Sides) -> list[int]:
    """The tilings with one choice for all sides; all of them if there is none."""
    axes = tuple(side[0] for side in sides)
    rows = (
        [s.choices for s in tilings.strategies]
        if tilings.strategies
        else [tilings.made[0][n].placements for n in range(len(tilings))]
    )
    uniform = [n for n, row in enumerate(rows) if len({row[axis] for axis in axes}) == 1]
    return uniform or list(range(len(tilings)))


@tiling_algorithm("greedy", whose="Spartan")
class SmartTiling(TilingAlgorithm):
    """Greedily, what touches most others first, looking through views."""

    lookahead: int = 0

    def choose(self, graph: TilingGraph, memory: float) -> Chosen:
        return Chosen(tilings=smart_tiling(graph, memory, self.lookahead))


@tiling_algorithm("rows", whose="what distributed arrays do without hints")
class RowTiling(TilingAlgorithm):
    """Every array by rows, each operator as is best for that.

    Views show rows as they are.
    """

    def choose(self, graph: TilingGraph, memory: float) -> Chosen:
        kept: dict[int, list[int]] = {}
        for variable, tilings in enumerate(graph.tilings):
            if graph.is_view(variable):
                kept[variable] = list(range(len(tilings)))
                continue
            by_rows = [
                tiling
                for tiling in range(len(tilings))
                if all(_by_rows(made[tiling]) for made in tilings.made)
            ]
            kept[variable] = by_rows or list(range(len(tilings)))
        solution = least(make_problem(graph.restricted(kept)).problem)
        chosen = solution.choices[: len(graph.tilings)].tolist()
        return Chosen(tilings=[kept[variable][tiling] for variable, tiling in enumerate(chosen)])


def _by_rows(sharding: Sharding) -> bool:
    """Whether an array is in rows, or terms of it are still to be added up."""
    kinds = set(sharding.placements)
    return kinds <= {Split(0), Partial("sum")} or kinds == {Replicated()}
