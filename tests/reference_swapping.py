"""The fastest way to run a tiny problem in a pool, by trying everything: breadth-first, unit by unit of time.

Independent of the planner: it knows nothing of windows, victims or passes. Operators take one unit, and a tensor is not copied
out while an operator uses it (SwapAdvisor section 4.3.2, the edges of Figure 4.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from graphwright.memory import Pool
from graphwright.plans import MemoryProblem

ABSENT, DEVICE, HOST, BOTH = range(4)
State = tuple[int, tuple[int, ...], tuple[int, int], tuple[int, int]]
"""Operators done, where each storage is, and (storage, time left) of what goes out and comes in."""

NOTHING = (-1, 0)


def fastest(
    problem: MemoryProblem, order: Sequence[int], pool: Pool, limit: int = 30
) -> int | None:
    """The least units of time, None where nothing fits."""
    assert all(op.duration == 1 and not op.writes for op in problem.operators)
    places = tuple(HOST if s.begins_on_host else ABSENT for s in problem.storages)
    states: set[State] = {(0, places, NOTHING, NOTHING)}
    seen: set[State] = set(states)
    for time in range(limit):
        if any(done == len(order) for done, *_ in states):
            return time
        states = {after for state in states for after in _unit(problem, order, pool, state)} - seen
        seen |= states
    return None


def all_pools(sizes: tuple[int, ...], capacity: int) -> Iterator[Pool]:
    """Every division of a capacity into size classes; the last one takes what the others leave."""
    for cuts in range(2 ** (len(sizes) - 1)):
        classes = [0]
        for n in range(len(sizes) - 1):
            classes.append(classes[-1] + (cuts >> n & 1))
        largest = dict(zip(classes, sizes, strict=True))
        for counts in _counts([largest[c] for c in sorted(largest)], capacity):
            yield Pool(sizes=sizes, classes=tuple(classes), counts=counts)


def all_orders(problem: MemoryProblem) -> Iterator[tuple[int, ...]]:
    """Every topological order."""

    def extend(done: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(done) == len(problem.operators):
            yield done
        for i, before in enumerate(problem.predecessors):
            if i not in done and set(before) <= set(done):
                yield from extend((*done, i))

    return extend(())


def _counts(nbytes: list[int], capacity: int) -> Iterator[tuple[int, ...]]:
    if len(nbytes) == 1:
        yield (capacity // nbytes[0],)
        return
    for first in range(capacity // nbytes[0] + 1):
        for rest in _counts(nbytes[1:], capacity - first * nbytes[0]):
            yield (first, *rest)


def _unit(
    problem: MemoryProblem, order: Sequence[int], pool: Pool, state: State
) -> Iterator[State]:
    """All states one unit of time later."""
    done, places, going, coming = state
    op = problem.operators[order[done]]
    needed = {s for i in order[done:] for s in problem.operators[i].reads}
    for kept in _drops(problem, places, needed, going[0]):
        runs = [False]
        if all(kept[s] in (DEVICE, BOTH) and s not in (going[0], coming[0]) for s in op.reads):
            runs.append(True)
        for is_run in runs:
            used = set(op.reads) if is_run else set()
            outs = [going]
            if going == NOTHING:
                outs += [(s, problem.storages[s].out_time) for s, p in enumerate(kept)
                         if p == DEVICE and s not in used and s != coming[0]]  # fmt: skip
            ins = [coming]
            if coming == NOTHING:
                ins += [
                    (s, problem.storages[s].in_time)
                    for s, p in enumerate(kept)
                    if p == HOST and s in needed
                ]
            for out in outs:
                for come in ins:
                    held = {s for s, p in enumerate(kept) if p in (DEVICE, BOTH)} | {come[0]} - {-1}
                    if is_run:
                        held |= set(op.makes)
                    if _fits(problem, pool, held - {-1}):
                        yield _after(op.makes if is_run else (), done + is_run, kept, out, come)


def _after(
    made: tuple[int, ...],
    done: int,
    places: tuple[int, ...],
    going: tuple[int, int],
    coming: tuple[int, int],
) -> State:
    now = list(places)
    for s in made:
        now[s] = DEVICE
    if going != NOTHING:
        going = (going[0], going[1] - 1)
        if going[1] == 0:
            now[going[0]] = BOTH
            going = NOTHING
    if coming != NOTHING:
        coming = (coming[0], coming[1] - 1)
        if coming[1] == 0:
            now[coming[0]] = BOTH
            coming = NOTHING
    return done, tuple(now), going, coming


def _drops(
    problem: MemoryProblem, places: tuple[int, ...], needed: set[int], going: int
) -> Iterator[tuple[int, ...]]:
    """Ways to give up places of what the host has as well; what nobody reads any more goes at once."""
    now = list(places)
    for s, place in enumerate(places):
        is_dead = s not in needed and problem.storages[s].ends == "free" and place == DEVICE
        if s not in needed and (place == BOTH or is_dead):
            now[s] = HOST if place == BOTH else ABSENT
    both = [s for s, place in enumerate(now) if place == BOTH]
    for count in range(len(both) + 1):
        for dropped in combinations(both, count):
            yield tuple(HOST if s in dropped else p for s, p in enumerate(now))


def _fits(problem: MemoryProblem, pool: Pool, held: set[int]) -> bool:
    of_size = dict(zip(pool.sizes, pool.classes, strict=True))
    used = [0] * len(pool.counts)
    for s in held:
        used[of_size[problem.storages[s].nbytes]] += 1
    return all(u <= c for u, c in zip(used, pool.counts, strict=True))
