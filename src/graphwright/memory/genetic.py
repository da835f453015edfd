"""The genetic operators of SwapAdvisor (section 4.4) on schedules and pools.

schedules    a child begins as one parent and goes on in the order of the other (Figure 4.5);
             a mutation follows the old order, but takes any ready operator now and then
classes      a child is the beginning of one list and the end of the other, repaired so that
             it never falls and grows by one at most (Figure 4.6)
counts       one for each size (extended), joined likewise, averaged over each class, and
             reduced until all fits: each class gives up equally many bytes
survival     softmax over how much slower than the best a plan is (equation 4.1)
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from graphwright.memory.arrays import Arrays, Ints
from graphwright.memory.planner import Pool

Random = np.random.Generator


def cross_orders(first: Ints, second: Ints, cut: int) -> Ints:
    """The beginning of the second order, then all else as the first has it."""
    head = second[:cut]
    taken = np.zeros(len(first), np.bool_)
    taken[head] = True
    return np.concatenate([head, first[~taken[first]]])


def mutate_order(arrays: Arrays, order: Ints, probability: float, random: Random) -> Ints:
    """An order that mostly follows another one, with some operators moved."""
    n = len(order)
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n)
    waiting = np.diff(arrays.pred_ptr).copy()
    followers: list[list[int]] = [[] for _ in range(n)]
    for i in range(n):
        for p in arrays.preds[arrays.pred_ptr[i] : arrays.pred_ptr[i + 1]].tolist():
            followers[p].append(i)
    ready = [(int(rank[i]), i) for i in range(n) if waiting[i] == 0]
    heapq.heapify(ready)
    moved = random.random(n) < probability
    result = np.empty(n, np.int64)
    for at in range(n):
        if moved[at] and len(ready) > 1:
            chosen = int(random.integers(len(ready)))
            _, i = ready[chosen]
            ready[chosen] = ready[-1]
            ready.pop()
            heapq.heapify(ready)
        else:
            _, i = heapq.heappop(ready)
        result[at] = i
        for follower in followers[i]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                heapq.heappush(ready, (int(rank[follower]), follower))
    return result


def repair_classes(classes: Sequence[int]) -> tuple[int, ...]:
    """The list, changed as little as makes it begin with 0, never fall and grow by one at most."""
    fixed: list[int] = []
    for c in classes:
        low = fixed[-1] if fixed else 0
        fixed.append(min(max(c, low), low + 1 if fixed else 0))
    return tuple(fixed)


def repair_counts(nbytes: Sequence[int], counts: Sequence[int], capacity: int) -> tuple[int, ...]:
    """Counts that fit: while they do not, every class gives up the same share of the excess."""
    fixed = [max(1, c) for c in counts]
    while (excess := sum(b * c for b, c in zip(nbytes, fixed, strict=True)) - capacity) > 0:
        giving = [n for n, c in enumerate(fixed) if c > 1]
        if not giving:
            break
        for n in giving:
            share = max(1, int(excess / len(giving) / nbytes[n]))
            fixed[n] = max(1, fixed[n] - share)
    return tuple(fixed)


def cross_pools(first: Pool, second: Pool, cut: int, capacity: int) -> Pool:
    """The beginning of the second pool's lists and the end of the first's, repaired."""
    classes = repair_classes((*second.classes[:cut], *first.classes[cut:]))
    extended = [
        *(second.counts[c] for c in second.classes[:cut]),
        *(first.counts[c] for c in first.classes[cut:]),
    ]
    return make_pool(first.sizes, classes, extended, capacity)


def make_pool(
    sizes: tuple[int, ...], classes: tuple[int, ...], extended: Sequence[float], capacity: int
) -> Pool:
    """A pool from counts for every size: averaged over each class, and reduced until all fits."""
    number = max(classes) + 1
    counts = [
        round(float(np.mean([e for e, of in zip(extended, classes, strict=True) if of == c])))
        for c in range(number)
    ]
    whole = Pool(sizes=sizes, classes=classes, counts=(1,) * number)
    fixed = repair_counts(whole.class_bytes(), counts, capacity)
    return Pool(sizes=sizes, classes=classes, counts=fixed)


def mutate_pool(pool: Pool, probability: float, capacity: int, random: Random) -> Pool:
    """Some sizes change their class, with all that follow; counts vary around what they were."""
    classes = list(pool.classes)
    for i in range(1, len(classes)):
        if random.random() < probability:
            step = 1 if classes[i] == classes[i - 1] else -1
            classes[i:] = [c + step for c in classes[i:]]
    extended = [float(pool.counts[c]) for c in pool.classes]
    varied = [
        max(1.0, random.normal(e, max(1.0, e / 3))) if random.random() < probability else e
        for e in extended
    ]
    return make_pool(pool.sizes, tuple(classes), varied, capacity)


def random_pool(sizes: tuple[int, ...], capacity: int, random: Random) -> Pool:
    """Any classes, and counts that share the capacity at random."""
    classes = [0]
    chance = random.random()
    for _ in sizes[1:]:
        classes.append(classes[-1] + int(random.random() < chance))
    share = capacity / (max(classes) + 1)
    largest = dict(zip(classes, sizes, strict=True))
    extended = [max(1.0, 2 * random.random() * share / largest[c]) for c in classes]
    return make_pool(sizes, tuple(classes), extended, capacity)


def survivors(times: Sequence[float], count: int, best: float, random: Random) -> list[int]:
    """Which of a population survive: the best one, and others by softmax of their relative time."""
    norm = np.array([(best - t) / best if np.isfinite(t) else -np.inf for t in times])
    alive = np.flatnonzero(np.isfinite(norm))
    weight = np.exp(norm[alive])
    first = int(np.argmin(times))
    rest = alive[alive != first]
    weight = weight[alive != first]
    number = min(count - 1, len(rest))
    if number <= 0:
        return [first]
    chosen = random.choice(rest, size=number, replace=False, p=weight / weight.sum())
    return [first, *map(int, chosen)]
