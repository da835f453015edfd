"""Orders to begin with, from which a search goes on.

program    as captured
early      updates run as soon as their gradients are there
local      what is ready and needs the least that was not used lately: all steps of one
           recurrent layer before those of the next, whose weights would have to come first
lean       as local, and what makes little and frees much goes first
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Sequence

import numpy as np

from graphwright.memory.arrays import Ints
from graphwright.plans import MemoryProblem


def program_order(problem: MemoryProblem) -> Ints:
    """The operators as the program has them."""
    return np.arange(len(problem.operators), dtype=np.int64)


def early_order(problem: MemoryProblem) -> Ints:
    """The order of the program, but updates run as soon as their gradients are there.

    So a gradient need not be kept, and parameters and state need not come back at the end, when
    nothing is left to compute beside that. What an update makes of state alone waits for the first
    of its readers.
    """
    ops, before = problem.operators, problem.predecessors
    rank = [float(i) for i in range(len(ops))]
    for i, op in enumerate(ops):
        if op.updates:
            rank[i] = max((rank[p] for p in before[i]), default=-1.0)
    readers = _followers(before)
    for i in reversed(range(len(ops))):
        if ops[i].updates and i in readers:
            latest = max(rank[i], min(rank[r] for r in readers[i]))
            rank[i] = latest
    waiting = [len(each) for each in before]
    ready = [(rank[i], i) for i, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, i = heapq.heappop(ready)
        order.append(i)
        for r in readers.get(i, ()):
            waiting[r] -= 1
            if waiting[r] == 0:
                heapq.heappush(ready, (rank[r], r))
    return np.array(order, np.int64)


def local_order(problem: MemoryProblem, room: int, lean: bool = False) -> Ints:
    """An order that reads what was read lately: `room` is how many bytes are taken to be there.

    Of the ready operators the one with the fewest missing bytes goes next, the first of these in
    the early order. Updates go at once, as gradients are gone with them. What has had its last
    reader takes no room any more: a recurrent layer's gradient is a sum of many, each gone at once.

    A lean order also counts what an operator makes, less what nobody reads after it. Backward, it
    takes a recurrent layer's gradients of states for all steps first, which need its weights, and
    then those of the weights, which do not.
    """
    ops, before = problem.operators, problem.predecessors
    nbytes = [s.nbytes for s in problem.storages]
    rank = np.empty(len(ops), np.int64)
    rank[early_order(problem)] = np.arange(len(ops))
    waiting = [len(each) for each in before]
    readers = _followers(before)
    left = Counter(s for op in ops for s in op.reads)
    is_free = [s.ends == "free" for s in problem.storages]
    recent: OrderedDict[int, None] = OrderedDict()
    held = 0
    ready: list[tuple[int, int, int]] = []
    needs: dict[int, int] = {}
    """What each ready operator needs now; `ready` also has what it needed before."""
    ready_readers: dict[int, set[int]] = {}

    def enter(i: int) -> None:
        need = 0
        if not (ops[i].updates and before[i]):
            need = sum(nbytes[s] for s in ops[i].reads if s not in recent)
            if lean:
                need += sum(nbytes[s] for s in ops[i].makes)
                need -= sum(nbytes[s] for s in ops[i].reads if left[s] == 1 and is_free[s])
        if needs.get(i) != need:
            needs[i] = need
            heapq.heappush(ready, (need, int(rank[i]), i))

    def become_ready(i: int) -> None:
        enter(i)
        for s in ops[i].reads:
            ready_readers.setdefault(s, set()).add(i)

    for i, count in enumerate(waiting):
        if count == 0:
            become_ready(i)
    order: list[int] = []
    while ready:
        need, _, chosen = heapq.heappop(ready)
        if needs.get(chosen) != need:
            continue
        del needs[chosen]
        order.append(chosen)
        changed = {s for s in (*ops[chosen].reads, *ops[chosen].makes) if s not in recent}
        for s in (*ops[chosen].reads, *ops[chosen].makes):
            if s in recent:
                recent.move_to_end(s)
            else:
                recent[s] = None
                held += nbytes[s]
        left.subtract(ops[chosen].reads)
        for s in ops[chosen].reads:
            ready_readers[s].discard(chosen)
            if left[s] <= 1:
                changed.add(s)
            if not left[s] and s in recent:
                del recent[s]
                held -= nbytes[s]
        while held > room and len(recent) > 1:
            oldest, _ = recent.popitem(last=False)
            changed.add(oldest)
            held -= nbytes[oldest]
        for r in readers.get(chosen, ()):
            waiting[r] -= 1
            if waiting[r] == 0:
                become_ready(r)
        for s in changed:
            for i in ready_readers.get(s, ()):
                enter(i)
    return np.array(order, np.int64)


def _followers(before: Sequence[Sequence[int]]) -> dict[int, list[int]]:
    """For each operator those that wait for it."""
    followers: dict[int, list[int]] = {}
    for i, each in enumerate(before):
        for p in each:
            followers.setdefault(p, []).append(i)
    return followers


def names_to_order(problem: MemoryProblem, names: Sequence[str]) -> Ints:
    """An order by names as numbers."""
    number = {op.name: n for n, op in enumerate(problem.operators)}
    return np.array([number[name] for name in names], np.int64)
