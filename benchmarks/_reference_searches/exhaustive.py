"""The fastest plan of a finite space, proved: depth first, with what cannot be faster left out
(Jia's thesis, section 3.7.5).

    conv1 -+- i i -+- conv2 ...          bound >= best so far: nothing beneath is looked at
           +- i j -+- conv2 ...          the most promising choice first
           +- j j                        a plan with all choices made is simulated

The thesis searches LeNet and an RNNLM of two time steps on four devices in this way, to see whether
its Markov chains find what is best. The space is that of `finite_space`, the bound that of
`lower_bounds`; what is simulated at the leaves is what annealing goes by.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from time import perf_counter

import numpy as np

from _reference_searches.finite_space import FiniteSpace
from _reference_searches.lower_bounds import Tables, tabulate
from graphwright.errors import NothingFound
from graphwright.ir import collection_paused
from graphwright.partition.progress import Progress
from graphwright.partition.search.annealing import Changes
from graphwright.plans import Plan
from graphwright.simulate import Incremental
from graphwright.tasks import Costs, Expansion


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted:
    """The optimum of a space: of `num_plans` plans, `num_simulated` were simulated and `num_bounds`
    bounds taken.

    `proved` is False where the time was over before the end; the plan is then the best so far, and
    `bound` what none is faster than.
    """

    plan: Plan
    makespan: float
    choices: tuple[int, ...]
    proved: bool
    bound: float
    num_plans: int
    num_simulated: int
    num_bounds: int
    seconds: float

    def __repr__(self) -> str:
        how = "proved" if self.proved else f"nothing is faster than {self.bound * 1e3:,.6g} ms"
        return (
            f"Exhausted({self.makespan * 1e3:,.6g} ms, {how}: {self.num_simulated:,} of {self.num_plans:,} plans simulated, "
            f"{self.num_bounds:,} bounds, {self.seconds:,.1f} s)"
        )


def search(
    space: FiniteSpace,
    costs: Costs,
    *,
    budget: float | None = None,
    progress: Progress | None = None,
) -> Exhausted:
    """The fastest plan of a space."""
    with collection_paused():
        return _Search(space, costs, inf if budget is None else budget, progress).run()


class _Search:
    def __init__(
        self,
        space: FiniteSpace,
        costs: Costs,
        budget: float,
        progress: Progress | None,
    ) -> None:
        self.space, self.budget, self.progress = space, budget, progress
        self.began = perf_counter()
        first = [0] * len(space.families)
        plan = space.plan(first)
        expansion = Expansion(space.estimate.coarse.facts, plan, costs)
        self.tables: Tables = tabulate(space, expansion)
        self.run_ = Incremental(space.graph, plan, costs, expansion)
        self.at = list(first)
        self.choices = np.append(self.tables.num_choices[:-1], 0)
        self.best, self.least = tuple(first), self.run_.makespan
        self.num_simulated, self.num_bounds = 1, 0
        self.over = False
        self.unseen = inf

    def run(self) -> Exhausted:
        if not self.space.families:
            raise NothingFound("nothing to choose: the graph has no heavy operators")
        self._visit(0)
        return Exhausted(
            plan=self.space.plan(self.best),
            makespan=self.least,
            choices=self.best,
            proved=not self.over,
            bound=min(self.least, self.unseen),
            num_plans=self.space.num_plans,
            num_simulated=self.num_simulated,
            num_bounds=self.num_bounds,
            seconds=perf_counter() - self.began,
        )

    def _visit(self, number: int) -> None:
        """Every choice of a family, those before it being decided."""
        if number == len(self.space.families):
            self._simulate()
            return
        count = len(self.space.families[number])
        ranked = []
        for c in range(count):
            self.choices[number] = c
            ranked.append((self.tables.bound(self.choices), c))
        self.num_bounds += count
        for done, (bound, c) in enumerate(sorted(ranked)):
            if bound >= self.least:
                break
            self.over |= perf_counter() - self.began > self.budget
            if self.over:
                self.unseen = min(self.unseen, bound)
                break
            self.choices[number] = c
            self._visit(number + 1)
            if number == 0 and self.progress is not None:
                self.progress(f"every plan: {self.least * 1e3:.4g} ms", done + 1, count)
        self.choices[number] = count

    def _simulate(self) -> None:
        chosen = self.choices[:-1].tolist()
        changes: Changes = {}
        for family, was, c in zip(self.space.families, self.at, chosen, strict=True):
            if was != c:
                before = family.choices[was]
                changes |= {n: s for n, s in family.choices[c].items() if before[n] != s}
        self.num_simulated += 1
        seconds = self.run_.propose(changes)
        self.run_.accept()
        self.at = chosen
        if seconds < self.least:
            self.best, self.least = tuple(chosen), seconds
