"""The fastest plan of a finite space, proved: depth first, with what cannot be faster left out (Jia's thesis, section 3.7.5).

    conv1 -+- i i -+- conv2 ...          bound >= best so far: nothing beneath is looked at
           +- i j -+- conv2 ...          the most promising choice first
           +- j j                        a plan with all choices made is simulated

The thesis searches LeNet and an RNNLM of two time steps on four devices in this way, to see whether its Markov chains find what is best. The
space is that of `tied`, the bound that of `bounds`; what is simulated at the leaves is what annealing goes by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from time import perf_counter

import numpy as np

from graphwright.errors import NothingFound
from graphwright.ir import collection_paused
from graphwright.partition.search.annealing import Changes
from graphwright.partition.search.reference.finite_space import Tied
from graphwright.partition.search.reference.lower_bounds import Tables, tabulate
from graphwright.plans import Plan
from graphwright.simulate import Incremental
from graphwright.tasks import Costs, Expansion


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted:
    """The optimum of a space: of `num_plans` plans, `num_simulated` were simulated and `num_bounds` bounds taken.

    `proved` is False where the time was over before the end; the plan is then the best so far, and `bound` what none is faster than.
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
    tied: Tied,
    costs: Costs,
    *,
    budget: float | None = None,
    report: Callable[[str, int, int], None] | None = None,
) -> Exhausted:
    """The fastest plan of a space."""
    with collection_paused():
        return _Search(tied, costs, inf if budget is None else budget, report).run()


class _Search:
    def __init__(
        self,
        tied: Tied,
        costs: Costs,
        budget: float,
        report: Callable[[str, int, int], None] | None,
    ) -> None:
        self.tied, self.budget, self.report = tied, budget, report
        self.began = perf_counter()
        first = [0] * len(tied.families)
        plan = tied.plan(first)
        expansion = Expansion(tied.model.coarse.site, plan, costs)
        self.tables: Tables = tabulate(tied, expansion)
        self.run_ = Incremental(tied.graph, plan, costs, expansion)
        self.at = list(first)
        self.choices = np.append(self.tables.num_choices[:-1], 0)
        self.best, self.least = tuple(first), self.run_.makespan
        self.num_simulated, self.num_bounds = 1, 0
        self.over = False
        self.unseen = inf

    def run(self) -> Exhausted:
        if not self.tied.families:
            raise NothingFound("nothing to choose: the graph has no heavy operators")
        self._visit(0)
        return Exhausted(
            plan=self.tied.plan(self.best),
            makespan=self.least,
            choices=self.best,
            proved=not self.over,
            bound=min(self.least, self.unseen),
            num_plans=self.tied.num_plans,
            num_simulated=self.num_simulated,
            num_bounds=self.num_bounds,
            seconds=perf_counter() - self.began,
        )

    def _visit(self, number: int) -> None:
        """Every choice of a family, those before it being decided."""
        if number == len(self.tied.families):
            self._simulate()
            return
        count = len(self.tied.families[number])
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
            if number == 0 and self.report is not None:
                self.report(f"every plan: {self.least * 1e3:.4g} ms", done + 1, count)
        self.choices[number] = count

    def _simulate(self) -> None:
        chosen = self.choices[:-1].tolist()
        changes: Changes = {}
        for family, was, c in zip(self.tied.families, self.at, chosen, strict=True):
            if was != c:
                before = family.choices[was]
                changes |= {n: s for n, s in family.choices[c].items() if before[n] != s}
        self.num_simulated += 1
        seconds = self.run_.propose(changes)
        self.run_.accept()
        self.at = chosen
        if seconds < self.least:
            self.best, self.least = tuple(chosen), seconds
