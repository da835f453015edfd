"""FlexFlow's search: Markov chains over plans, with the simulator as the cost (Jia's thesis,
section 3.5).

    plan --propose--> plan'    one group, or one operator, is spread differently (`proposals`)
                               what changes is simulated (`simulate.Incremental`)
    accept with probability    min(1, exp(-beta * (cost(plan') - cost(plan)) / best))
                               Metropolis-Hastings, equation 3.1

A faster plan is always taken, a slower one sometimes, so that a chain leaves what is best only
nearby. `beta` grows while a chain runs (annealing): at first a plan that is slower by 1% is often
taken, at the end hardly ever.

Each starting plan has a chain of its own. The budget is split evenly between the chains that are
left; one that has found nothing better for half of its share, or is far behind the others by then,
ends (the half-time rule), and leaves the rest to them. The last chain starts from the best plan of
all, with `beta` at its greatest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, inf
from random import Random
from time import perf_counter
from typing import Literal, Protocol

from graphwright.errors import InvalidOption, InvalidStrategy, NothingFound
from graphwright.ir import Role, collection_paused
from graphwright.machine import Cluster
from graphwright.partition.estimate import make_estimate
from graphwright.partition.progress import Progress
from graphwright.partition.search.annealing.proposals import Proposal, Proposals
from graphwright.partition.space import Coarse, Space
from graphwright.plans import Plan, Strategy, make_plan
from graphwright.simulate import Incremental
from graphwright.tasks import Costs, Expansion

Stopped = Literal["budget", "half-time rule", "proposals"]

BETA = (300.0, 5000.0)
"""At the beginning and at the end of a chain: a plan that is slower by 0.3% is taken with
probability 1/e, then one by 0.02%."""
_FAR = 1.1
"""A chain that is not even this close to the best plan of all chains by half-time ends, too."""
_OFTEN = 64
"""Proposals between two reports, and between two looks at whether a new best plan fits."""


class Moves(Protocol):
    """What proposes changes."""

    def draw(self, rng: Random, now: Mapping[str, Strategy]) -> Proposal:
        """A random proposal, given the strategies of all nodes now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Annealed:
    """The best plan of a search, and how it went.

    `history` is (seconds since the beginning, proposals so far, best makespan so far), a row for
    each improvement; `stopped` says why the last chain ended; `kinds` counts for each kind of
    proposal (made, accepted, new best).
    """

    plan: Plan
    makespan: float
    start_makespans: tuple[float, ...]
    num_proposals: int
    num_accepted: int
    history: tuple[tuple[float, int, float], ...]
    stopped: Stopped
    seconds: float
    kinds: Mapping[str, tuple[int, int, int]]

    def __repr__(self) -> str:
        rate = self.num_proposals / max(self.seconds, 1e-9)
        return (
            f"Annealed({self.makespan * 1e3:,.6g} ms "
            f"from {min(self.start_makespans) * 1e3:,.6g} ms, "
            f"{self.num_proposals:,} proposals at {rate:,.0f}/s, stopped by the {self.stopped})"
        )


def anneal(
    coarse: Coarse,
    cluster: Cluster,
    costs: Costs,
    *,
    starts: Sequence[Plan],
    space: Space | None = None,
    seed: int = 0,
    budget: float | None = None,
    max_proposals: int | None = None,
    fits: Callable[[Plan], bool] | None = None,
    beta: tuple[float, float] = BETA,
    moves: Moves | None = None,
    progress: Progress | None = None,
) -> Annealed:
    """The fastest plan found from some starting plans within `budget` seconds or `max_proposals`,
    whichever is over first.

    With `max_proposals` alone the result depends on the seed only. `fits` says whether a plan may
    be returned, for example whether it needs little enough memory; it is asked about new best plans
    only.
    """
    if not starts:
        raise InvalidOption("annealing needs a plan to start from; data_parallel gives one")
    if budget is None and max_proposals is None:
        raise InvalidOption("annealing needs a budget in seconds, or max_proposals")
    if moves is None:
        moves = Proposals(make_estimate(coarse, cluster, costs, space or Space(subsets=True)))
    limits = _Limits(budget=budget, proposals=max_proposals)
    search = _Search(coarse, cluster, costs, moves, Random(seed), fits, beta, limits, progress)
    with collection_paused():
        return search.run(starts, seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    budget: float | None
    proposals: int | None


@dataclass(frozen=True, slots=True)
class _Share:
    """What one chain may use, as the clock and the count of the whole search will then read."""

    from_seconds: float
    to_seconds: float
    from_proposals: int
    to_proposals: float

    def used(self, seconds: float, proposals: int) -> float:
        """The share used up so far: 1 when either limit is reached."""
        by_time = _part(seconds - self.from_seconds, self.to_seconds - self.from_seconds)
        by_count = _part(proposals - self.from_proposals, self.to_proposals - self.from_proposals)
        return max(by_time, by_count)


@dataclass(frozen=True, slots=True)
class _FasterPlan:
    """A plan that is faster than all before, and has not been asked yet whether it fits."""

    seconds: float
    strategies: dict[str, Strategy]


def _part(done: float, whole: float) -> float:
    return 0.0 if whole == inf else done / whole if whole > 0 else 1.0


class _Search:
    """All chains, one after another, and the best plan of all."""

    def __init__(
        self,
        coarse: Coarse,
        cluster: Cluster,
        costs: Costs,
        moves: Moves,
        rng: Random,
        fits: Callable[[Plan], bool] | None,
        beta: tuple[float, float],
        limits: _Limits,
        progress: Progress | None,
    ) -> None:
        self.coarse, self.cluster, self.costs = coarse, cluster, costs
        self.moves, self.rng, self.fits, self.beta = moves, rng, fits, beta
        self.limits, self.progress = limits, progress
        self.began = perf_counter()
        self.num_proposals = self.num_accepted = 0
        self.history: list[tuple[float, int, float]] = []
        self.kinds: dict[str, list[int]] = {}
        self.best: Plan | None = None
        self.least = inf
        self._first: Expansion | None = None

    def run(self, starts: Sequence[Plan], seed: int) -> Annealed:
        """Every start's chain, then one from the best."""
        begun = [self._begin(start) for start in starts]
        stopped: Stopped = "budget"
        for number, start in enumerate(starts):
            stopped = self._chain(start, len(starts) + 1 - number, self.beta)
        if self.best is not None:
            stopped = self._chain(self.best, 1, (self.beta[1], self.beta[1]))
        if self.best is None:
            raise NothingFound(
                "no plan that annealing found fits, and neither does one it started from"
            )
        return Annealed(
            plan=replace(self.best, algorithm="mcmc", seed=seed, figures=None),
            makespan=self.least,
            start_makespans=tuple(begun),
            num_proposals=self.num_proposals,
            num_accepted=self.num_accepted,
            history=tuple(self.history),
            stopped=stopped,
            seconds=self._clock(),
            kinds={kind: (made, taken, best) for kind, (made, taken, best) in self.kinds.items()},
        )

    def _clock(self) -> float:
        return perf_counter() - self.began

    def _begin(self, start: Plan) -> float:
        """The makespan of a start as it was given; it counts among the plans found."""
        seconds = self._schedule(start).makespan
        if seconds < self.least and (self.fits is None or self.fits(start)):
            self._improve(start, seconds)
        return seconds

    def _schedule(self, plan: Plan) -> Incremental:
        expansion = Expansion(self.coarse.facts, plan, self.costs)
        if self._first is None:
            self._first = expansion
        expansion.cache = self._first.cache  # all that has been worked out before
        run = Incremental(self.coarse.facts.graph, plan, self.costs, expansion)
        for node in self.coarse.facts.graph.nodes:
            run.strategies.setdefault(node.name, plan.strategy(node.name))
        return run

    def _improve(self, plan: Plan, seconds: float) -> None:
        self.best, self.least = plan, seconds
        if not self.history or seconds < self.history[-1][2]:
            self.history.append((self._clock(), self.num_proposals, seconds))

    def _share(self, chains_left: int) -> _Share:
        now, budget, most = self._clock(), self.limits.budget, self.limits.proposals
        return _Share(
            now,
            inf if budget is None else now + max(0.0, budget - now) / chains_left,
            self.num_proposals,
            inf
            if most is None
            else self.num_proposals + -(-(most - self.num_proposals) // chains_left),
        )

    def _chain(self, start: Plan, chains_left: int, beta: tuple[float, float]) -> Stopped:
        """Metropolis-Hastings from a plan, until its share is used up or half of it was vain."""
        share = self._share(chains_left)
        start = self._homeless(start)
        run = self._schedule(start)
        now = best = run.makespan
        faster: _FasterPlan | None = None
        improved_at, number = 0.0, 0
        while True:
            used = share.used(self._clock(), self.num_proposals)
            hopeless = used > 0.5 and best > _FAR * self.least
            over = used >= 1.0 or used - improved_at > 0.5 or hopeless
            if faster is not None and (over or number % _OFTEN == 0):
                if not self._settle(start, faster):
                    run = self._schedule(self._homeless(self.best or start))
                    now = best = run.makespan
                faster = None
            if self.progress is not None and number % _OFTEN == 0:
                self._tell()
            if over:
                break
            number += 1
            seconds = self._step(run, now, beta[0] * (beta[1] / beta[0]) ** used)
            if seconds is None:
                continue
            now = seconds
            if now < best:
                best, improved_at = now, used
            if now < (self.least if faster is None else faster.seconds):
                faster = _FasterPlan(now, dict(run.strategies))
                if self.fits is None:
                    self.history.append((self._clock(), self.num_proposals, now))
        if used < 1.0:
            return "half-time rule"
        return "proposals" if self.num_proposals >= share.to_proposals else "budget"

    def _step(self, run: Incremental, now: float, beta: float) -> float | None:
        """One proposal: the new makespan if it was taken."""
        proposal = self.moves.draw(self.rng, run.strategies)
        self.num_proposals += 1
        counts = self.kinds.setdefault(proposal.kind, [0, 0, 0])
        counts[0] += 1
        if not proposal.changes:
            return None
        try:
            seconds = run.propose(proposal.changes)
        except InvalidStrategy:
            return None
        worse = (seconds - now) / min(now, self.least)
        if worse > 0 and self.rng.random() >= exp(-beta * worse):
            run.reject()
            return None
        run.accept()
        self.num_accepted += 1
        counts[1] += 1
        counts[2] += seconds < self.least
        return seconds

    def _settle(self, start: Plan, faster: _FasterPlan) -> bool:
        """Let a new best plan count, if it fits."""
        plan = make_plan(
            self.coarse.facts.graph,
            self.cluster,
            faster.strategies,
            inputs=start.inputs,
            keep=start.keep,
            algorithm="mcmc",
        )
        if self.fits is not None and not self.fits(plan):
            return False
        self._improve(plan, faster.seconds)
        return True

    def _homeless(self, start: Plan) -> Plan:
        """The plan without fixed places for parameters and states: they live where their first
        reader needs them, wherever that will be."""
        tensors = self.coarse.facts.graph.tensors
        data = {n: s for n, s in start.inputs.items() if tensors[n].role is Role.INPUT}
        return replace(start, inputs=data, figures=None)

    def _tell(self) -> None:
        assert self.progress is not None
        what = f"annealing: {self.least * 1e3:.4g} ms"
        if self.limits.proposals is not None:
            self.progress(what, self.num_proposals, self.limits.proposals)
        elif self.limits.budget is not None:
            total = max(1, round(self.limits.budget * 1000))
            self.progress(what, min(total, round(self._clock() * 1000)), total)
