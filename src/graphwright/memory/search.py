"""Searching for a memory plan: which schedule, which places, which victims.

| search  | schedule        | memory             | what makes room                              |
| ------- | --------------- | ------------------ | -------------------------------------------- |
| lru     | program         | any offset         | least recently used, asked for just in time  |
| belady  | program         | any offset         | furthest next use, several thresholds        |
| greedy  | program, early, | any offset         | least waiting and copying, several weights;  |
|         | local           |                    | cheap tensors are made again, residents go   |
|         |                 |                    | home                                         |
| random  | random          | any offset         | as greedy                                    |
| genetic | evolves         | any offset         | as greedy, the weights evolve too            |
| pools   | evolves         | size classes       | SwapAdvisor's genetic search as published    |

Two more show what it takes to search both at once: `schedules` tries all that `greedy` begins with,
in one way to choose, and `places` all ways to choose, in the order of the program.

All are reported side by side. A search takes over from those before it where it is faster by more
than a thousandth: of equal plans that of the simplest search is taken. The time budget is shared by
the random and genetic searches; an interrupted search returns the best plan so far.

More memory never makes a plan slower: a plan for less memory is a plan for more. So plans that are
known are tried first, and the searches that do not draw try smaller capacities as well, from a grid
that depends on the problem alone: what is tried at some capacity is tried at every larger one.
Large problems try the whole capacity only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from graphwright.errors import InvalidOption
from graphwright.memory import genetic
from graphwright.memory.arrays import Ints
from graphwright.memory.orders import early_order, local_order, program_order
from graphwright.memory.planner import Choice, Passed, Planner, Pool
from graphwright.plans import MemoryPlan, MemoryProblem, retime, verify_actions

PRESSURES = (1e-3, 3e-2, 3e-1)
RECOMPUTE = 0.1
REPEATS = (
    (0.0, 0.1),
    (RECOMPUTE, 0.1),
    (RECOMPUTE, 0.2),
    (RECOMPUTE, 0.7),
    (RECOMPUTE, 0.8),
    (0.3, 0.1),
    (0.3, 0.6),
)
"""Shares `recompute` and `gap`: with a large gap only what the first layers make is made again."""

CHOICES = tuple(
    Choice(pressure=pressure, recompute=recompute, gap=gap)
    for pressure in PRESSURES
    for recompute, gap in REPEATS
)
HOMING = 1.0
FIRST = (
    Choice(),
    Choice(homing=HOMING),
    Choice(recompute=RECOMPUTE),
    Choice(recompute=RECOMPUTE, gap=0.8),
)
SMALL = (0.0, 0.007, 0.04)
"""Shares of the capacity: what takes less goes to the top of memory; windows stay whole below."""
KEEPS = tuple(Choice(keep=keep) for keep in (0.3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95))
ROOMS, LEAN_ROOMS = (0.25, 0.5, 0.75, 1.0), (0.2, 0.25, 0.4)
"""Shares of the capacity that local orders, and lean ones, take to be there."""
STEPS = (1 / 8, 1 / 16, 1 / 32)
"""How far from the best of these others are tried then, one after the other."""

THRESHOLDS = (0, 4, 16, 64)
LOOKAHEAD = 8
GRID = 2 ** (1 / 8)
MOST_FOR_GRID, MOST_FOR_LOCAL, MOST_FOR_ALL = 200, 20_000, 10_000
"""Operators of a problem that is planned for all of a grid; in local orders; by all choices."""
LEAST_FOR_THREADS = 1000
START, KNOWN = "start", "known"
TIE = 1e-3
"""Times of two searches that differ by a smaller share are the same."""

POPULATION = 24
MUTATION = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Individual:
    """A schedule, a way to choose, and a pool or none; and what a pass made of it."""

    order: Ints
    choice: Choice
    capacity: int
    pool: Pool | None = None
    passed: Passed | None = None

    @property
    def time(self) -> float:
        return inf if self.passed is None else float(self.passed.makespan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A generation: seconds since the search began, and times of its plans in picoseconds."""

    search: str
    seconds: float
    best: float
    mean: float
    worst: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The best plan, the best time of each search (picoseconds), and how they came about."""

    plan: MemoryPlan
    times: dict[str, float]
    progress: tuple[Progress, ...] = ()
    interrupted: bool = False


@dataclass(slots=True)
class _Search:
    planner: Planner
    capacity: int
    random: np.random.Generator
    deadline: float
    began: float
    best: Individual | None = None
    winner: str = ""
    times: dict[str, float] = field(default_factory=dict)
    progress: list[Progress] = field(default_factory=list)

    @property
    def problem(self) -> MemoryProblem:
        return self.planner.problem

    def try_one(
        self, search: str, order: Ints, choice: Choice, pool: Pool | None = None,
        capacity: int | None = None,
    ) -> Individual:  # fmt: skip
        """Plan with some choices, and remember the best."""
        made = self._plan(order, choice, pool, capacity)
        self._note(search, made)
        return made

    def try_all(
        self, search: str, pairs: Iterable[tuple[Ints, Choice]], capacity: int | None = None
    ) -> list[Individual]:
        """Plan with all of some orders and choices; large problems use all processors."""
        if len(self.problem.operators) < LEAST_FOR_THREADS:
            return [self.try_one(search, *pair, capacity=capacity) for pair in pairs]
        made: list[Individual] = []
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
            try:
                for one in threads.map(
                    lambda pair: self._plan(pair[0], pair[1], None, capacity), pairs
                ):
                    self._note(search, one)
                    made.append(one)
            except KeyboardInterrupt:
                threads.shutdown(wait=False, cancel_futures=True)
                raise
        return made

    def _plan(
        self, order: Ints, choice: Choice, pool: Pool | None, capacity: int | None
    ) -> Individual:
        room = self.capacity if capacity is None else capacity
        passed = self.planner.time(order, room, choice, pool)
        return Individual(order=order, choice=choice, capacity=room, pool=pool, passed=passed)

    def _note(self, search: str, made: Individual) -> None:
        self.times[search] = min(self.times.get(search, inf), made.time)
        if self._is_better(search, made):
            self.best, self.winner = made, search

    def _is_better(self, search: str, made: Individual) -> bool:
        if self.best is None or self.best.passed is None:
            return True
        if self.winner == START:
            return made.time <= self.best.time
        margin = 0.0 if search == self.winner else TIE
        return made.time < (1 - margin) * self.best.time

    def is_over(self) -> bool:
        assert self.best is not None
        least = self.problem.compute_time / (1 - TIE)
        return time.monotonic() > self.deadline or self.best.time <= least


def find_plan(
    problem: MemoryProblem,
    capacity: int,
    *,
    searches: tuple[str, ...] = ("lru", "belady", "greedy", "random", "genetic", "pools"),
    budget: float = 10.0,
    seed: int = 0,
    planner: Planner | None = None,
    known: Sequence[MemoryPlan] = (),
) -> Found:
    """Search for the fastest plan of a problem within a capacity; `known` plans count as found."""
    check_searches(searches)
    check_seed(seed)
    planner = Planner(problem) if planner is None else planner
    planner.check_capacity(capacity)
    began = time.monotonic()
    random = np.random.default_rng(seed)
    search = _Search(planner, capacity, random, began, began)
    interrupted = False
    least = next(_capacities(problem, max(problem.needs, default=1)))
    start = capacity if len(problem.operators) > MOST_FOR_GRID else least
    search.try_one(START, program_order(problem), Choice(), capacity=start)
    timed = [name for name in searches if name in TIMED]
    try:
        for name in searches:
            share = budget / max(1, len(timed)) if name in TIMED else 0.0
            search.deadline = time.monotonic() + share
            SEARCHES[name](search)
    except KeyboardInterrupt:
        interrupted = True
    best = search.best
    assert best is not None and best.passed is not None
    words = f"{search.winner}: {best.choice}"
    plan = planner.unpack(best.passed, capacity, best.pool, words, seed)
    if (other := fastest_known(problem, capacity, known)) is not None:
        search.times[KNOWN] = float(other.makespan)
        plan = min(plan, other, key=lambda one: one.makespan)
    return Found(
        plan=plan,
        times={name: t for name, t in search.times.items() if name != START} or search.times,
        progress=tuple(search.progress),
        interrupted=interrupted,
    )


def fastest_known(
    problem: MemoryProblem, capacity: int, known: Sequence[MemoryPlan]
) -> MemoryPlan | None:
    """The fastest of the plans that lie within a capacity, which was another one for them."""
    fitting = [replace(plan, capacity=capacity) for plan in known if plan.arena <= capacity]
    for plan in fitting:
        verify_actions(plan, problem)
    timed = [retime(plan, problem) for plan in fitting]
    return min(timed, key=lambda plan: plan.makespan, default=None)


def check_searches(names: tuple[str, ...]) -> None:
    """Refuse names of searches that there are not."""
    for name in names:
        if name not in SEARCHES:
            raise InvalidOption(f"{name!r} is no search; there are {', '.join(SEARCHES)}")


def check_seed(seed: int) -> None:
    """Refuse what random numbers cannot start from."""
    if type(seed) is not int or not 0 <= seed < 2**63:
        raise InvalidOption(f"seed={seed!r} is no seed; give a whole number from 0, below 2**63")


def _lru(search: _Search) -> None:
    choice = Choice(policy="lru", lookahead=LOOKAHEAD)
    for capacity in _capacities(search.problem, search.capacity):
        search.try_one("lru", program_order(search.problem), choice, capacity=capacity)


def _belady(search: _Search) -> None:
    order = program_order(search.problem)
    choices = [Choice(policy="belady", threshold=threshold) for threshold in THRESHOLDS]
    for capacity in _capacities(search.problem, search.capacity):
        search.try_all("belady", [(order, choice) for choice in choices], capacity)


def _greedy(search: _Search) -> None:
    """The best order by a few choices, the best choice for that order, the best order for it."""
    problem = search.problem
    for capacity in _capacities(problem, search.capacity):
        choices = [replace(c, small=share) for c in FIRST for share in _small(problem)]
        tried = _try_orders(search, "greedy", choices, capacity)
        if len(problem.operators) > MOST_FOR_LOCAL:
            continue
        order = min(tried, key=lambda one: one.time).order
        best = min(
            search.try_all("greedy", _all_choices(problem, order), capacity),
            key=lambda one: one.time,
        )
        if len(problem.operators) > MOST_FOR_GRID:
            orders = {id(one.order): one.order for one in tried if one.order is not order}
            search.try_all("greedy", [(o, best.choice) for o in orders.values()], capacity)


def _schedules(search: _Search) -> None:
    for capacity in _capacities(search.problem, search.capacity):
        _try_orders(search, "schedules", [Choice()], capacity)


def _try_orders(
    search: _Search, name: str, choices: Sequence[Choice], capacity: int
) -> list[Individual]:
    """Try all orders to begin with, then local ones like the best, with other shares of memory."""
    problem = search.problem
    tried: list[Individual] = []
    locals_: dict[int, _Local] = {}

    def attempt(kinds: Iterable[tuple[Ints, _Local | None]]) -> None:
        pairs: list[tuple[Ints, Choice]] = []
        for order, local in kinds:
            if local is not None:
                locals_[id(order)] = local
            pairs += [(order, choice) for choice in choices]
        tried.extend(search.try_all(name, pairs, capacity))

    attempt(_orders(problem, capacity))
    for step in STEPS if len(problem.operators) > MOST_FOR_GRID else ():
        best = locals_.get(id(min(tried, key=lambda one: one.time).order))
        if best is None:
            break
        near = [replace(best, share=best.share + d) for d in (-step, step)]
        attempt((local.order(problem, capacity), local) for local in near if local.share > 0)
    return tried


def _places(search: _Search) -> None:
    order = program_order(search.problem)
    for capacity in _capacities(search.problem, search.capacity):
        search.try_all("places", _all_choices(search.problem, order), capacity)


def _small(problem: MemoryProblem) -> tuple[float, ...]:
    """Shares of the capacity below which storages lie apart."""
    count = len(problem.operators)
    if count > MOST_FOR_ALL:
        return SMALL[1:2]
    return SMALL if count > MOST_FOR_GRID else SMALL[:1]


def _all_choices(problem: MemoryProblem, order: Ints) -> list[tuple[Ints, Choice]]:
    """An order with all ways to choose."""
    is_large = len(problem.operators) > MOST_FOR_ALL
    choices = [
        replace(choice, small=share, homing=homing)
        for homing in ((HOMING,) if is_large else (0.0, HOMING))
        for choice in CHOICES
        for share in _small(problem)
    ]
    return [(order, choice) for choice in (*choices, *KEEPS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Local:
    """A local order that takes so much of the capacity to be there."""

    share: float
    lean: bool = False

    def order(self, problem: MemoryProblem, capacity: int) -> Ints:
        return local_order(problem, int(self.share * capacity), lean=self.lean)


def _orders(problem: MemoryProblem, capacity: int) -> Iterator[tuple[Ints, _Local | None]]:
    """Schedules to begin with, and how the local ones come about."""
    yield program_order(problem), None
    yield early_order(problem), None
    if len(problem.operators) <= MOST_FOR_LOCAL:
        kinds = [_Local(share=share) for share in ROOMS]
        if len(problem.operators) > MOST_FOR_GRID:
            kinds += [_Local(share=share, lean=True) for share in LEAN_ROOMS]
        for kind in kinds:
            yield kind.order(problem, capacity), kind


def _capacities(problem: MemoryProblem, capacity: int) -> Iterator[int]:
    """Capacities to plan for: all of a grid up to the given one, or this alone."""
    least = max(problem.needs, default=1)
    most = sum(s.nbytes for s in problem.storages)
    if len(problem.operators) > MOST_FOR_GRID:
        yield capacity
        return
    if capacity >= most:
        yield most
    room = float(least)
    while room <= min(capacity, most):
        yield int(room)
        room *= GRID


def _random(search: _Search) -> None:
    order = program_order(search.problem)
    while True:
        chance = search.random.choice((0.01, 0.1, 1.0))
        other = genetic.mutate_order(search.planner.arrays, order, chance, search.random)
        search.try_one("random", other, Choice())
        if search.is_over():
            break


def _evolve(search: _Search, name: str, first: Iterator[Individual], with_pools: bool) -> None:
    """Generations of crossing, mutating and selecting, until the time is over."""
    random, arrays = search.random, search.planner.arrays
    population = []
    for individual in first:
        population.append(individual)
        if search.is_over() and any(i.passed is not None for i in population):
            break
    while not search.is_over():
        children: list[Individual] = []
        pairs = random.permutation(len(population))
        for a, b in zip(pairs[::2], pairs[1::2], strict=False):
            one, other = population[int(a)], population[int(b)]
            n = len(one.order)
            cut = int(random.integers(n + 1))
            orders = [
                genetic.cross_orders(one.order, other.order, cut),
                genetic.cross_orders(other.order, one.order, cut),
            ]
            for order in orders:
                moved = genetic.mutate_order(arrays, order, _chance(random), random)
                if with_pools and one.pool is not None and other.pool is not None:
                    cut = int(random.integers(len(one.pool.sizes) + 1))
                    pool = genetic.cross_pools(one.pool, other.pool, cut, search.capacity)
                    pool = genetic.mutate_pool(pool, MUTATION, search.capacity, random)
                    child = search.try_one(name, moved, one.choice, pool)
                else:
                    child = search.try_one(name, moved, _vary(one.choice, other.choice, random))
                children.append(child)
                if search.is_over():
                    break
            if search.is_over():
                break
        if len(population) < 2:
            break
        population += children
        times = [i.time for i in population]
        finite = [t for t in times if t < inf]
        if not finite:
            break
        kept = genetic.survivors(times, POPULATION, min(finite), random)
        population = [population[i] for i in kept]
        search.progress.append(
            Progress(
                search=name,
                seconds=time.monotonic() - search.began,
                best=min(finite),
                mean=float(np.mean(finite)),
                worst=max(finite),
            )
        )


def _chance(random: np.random.Generator) -> float:
    """How many operators a mutation moves: the published tenth for some, far fewer for others."""
    return float(random.choice((0.0, 0.001, 0.01, MUTATION)))


def _vary(one: Choice, other: Choice, random: np.random.Generator) -> Choice:
    """A choice between two others, with some change."""
    pressure = one.pressure * float(np.exp(random.normal(0, 0.5)))
    parent = one if random.random() < 0.5 else other
    return replace(
        one,
        pressure=pressure,
        recompute=parent.recompute,
        homing=parent.homing,
        gap=min(0.9, one.gap * float(np.exp(random.normal(0, 0.3)))),
    )


def _genetic(search: _Search) -> None:
    arrays = search.planner.arrays
    orders = [order for order, _ in _orders(search.problem, search.capacity)]
    best = search.best
    assert best is not None

    def first() -> Iterator[Individual]:
        yield search.try_one("genetic", best.order, replace(best.choice, policy="cost"))
        for order in orders:
            yield search.try_one("genetic", order, Choice(recompute=RECOMPUTE))
        while True:
            order = (
                best.order
                if search.random.random() < 0.5
                else orders[int(search.random.integers(len(orders)))]
            )
            other = genetic.mutate_order(arrays, order, _chance(search.random), search.random)
            yield search.try_one("genetic", other, _vary(best.choice, best.choice, search.random))

    _evolve(search, "genetic", _limited(first(), POPULATION), with_pools=False)


def _pools(search: _Search) -> None:
    order, arrays = program_order(search.problem), search.planner.arrays
    sizes = tuple(sorted({s.nbytes for s in search.problem.storages}))

    def first() -> Iterator[Individual]:
        one_class = (0,) * len(sizes)
        whole = [search.capacity / sizes[-1]] * len(sizes)
        pool = genetic.make_pool(sizes, one_class, whole, search.capacity)
        yield search.try_one("pools", order, Choice(), pool)
        while True:
            other = genetic.mutate_order(arrays, order, _chance(search.random), search.random)
            pool = genetic.random_pool(sizes, search.capacity, search.random)
            policy = (
                Choice()
                if search.random.random() < 0.5
                else Choice(policy="belady", threshold=int(search.random.integers(0, 32)))
            )
            yield search.try_one("pools", other, policy, pool)

    _evolve(search, "pools", _limited(first(), POPULATION), with_pools=True)


def _limited(individuals: Iterator[Individual], count: int) -> Iterator[Individual]:
    for _ in range(count):
        yield next(individuals)


SEARCHES: dict[str, Callable[[_Search], None]] = {
    "lru": _lru,
    "belady": _belady,
    "greedy": _greedy,
    "random": _random,
    "genetic": _genetic,
    "pools": _pools,
    "schedules": _schedules,
    "places": _places,
}
TIMED = ("random", "genetic", "pools")
