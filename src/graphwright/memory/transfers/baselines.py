"""Rules for what leaves: everything, the least recently used, what is needed again last (Belady).

The first two know nothing of what comes, but for what is gone for good: a tensor that nobody holds
takes no memory, and is not copied. The last one serves where operators are too many to search.
"""

from __future__ import annotations

from bisect import bisect_left

from graphwright.memory.transfers.replay import Lives, Transfers, check_transfers
from graphwright.plans import MemoryProblem


def keep_nothing(problem: MemoryProblem, capacity: int) -> Transfers:
    """Streaming: every operator's inputs are copied in, and what it makes is copied out."""
    ops, lives = problem.operators, Lives.of(problem)
    leaves: list[tuple[int, ...]] = []
    there: set[int] = set()
    for i, op in enumerate(ops):
        leaves.append(tuple(sorted(there - set(op.reads))))
        there = {s for s in (*op.reads, *op.makes) if lives.last[s] > i}
    return check_transfers(problem, capacity, Transfers(leaves=tuple(leaves)))


def keep_recent(problem: MemoryProblem, capacity: int) -> Transfers:
    """Where there is no room, what was used the longest time ago leaves.

    What is there when the operators end is what the next step begins with.
    """
    return _keep(problem, capacity, False)


def keep_soonest(problem: MemoryProblem, capacity: int) -> Transfers:
    """Where there is no room, what is needed again last leaves (Belady), if it is at all."""
    return _keep(problem, capacity, True)


def _keep(problem: MemoryProblem, capacity: int, looks_ahead: bool) -> Transfers:
    lasting = {s for s, storage in enumerate(problem.storages) if storage.ends == "home"}
    _, residents = _walk(problem, capacity, (), lasting, looks_ahead)
    while True:
        leaves, ends = _walk(problem, capacity, residents, set(residents), looks_ahead)
        if set(residents) <= set(ends):
            choice = Transfers(leaves=tuple(leaves), residents=residents)
            return check_transfers(problem, capacity, choice)
        residents = tuple(s for s in residents if s in ends)


def _walk(
    problem: MemoryProblem, capacity: int, begin: tuple[int, ...], stays: set[int],
    looks_ahead: bool,
) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:  # fmt: skip
    """Who leaves before each operator, and which of those that may stay are there at the end."""
    nbytes, lives = [s.nbytes for s in problem.storages], Lives.of(problem)
    count, recent = len(problem.operators), dict.fromkeys(begin)
    leaves: list[tuple[int, ...]] = []
    held = sum(nbytes[s] for s in recent)

    def next_use(s: int) -> int:
        uses, i = lives.uses[s], len(leaves)
        at = bisect_left(uses, i)
        return uses[at] if at < len(uses) else count + (uses[0] if s in stays else 0)

    for i, op in enumerate(problem.operators):
        touched = dict.fromkeys((*op.reads, *op.makes))
        held += sum(nbytes[s] for s in touched if s not in recent)
        leaving = []
        if held > capacity:
            others = [s for s in recent if s not in touched]
            for s in sorted(others, key=next_use, reverse=True) if looks_ahead else others:
                if held <= capacity:
                    break
                leaving.append(s)
                held -= nbytes[s]
        leaves.append(tuple(leaving))
        for s in (*leaving, *touched):
            recent.pop(s, None)
        recent |= touched
        for s in touched:
            if lives.last[s] <= i and s not in stays:
                del recent[s]
                held -= nbytes[s]
    return leaves, tuple(s for s in recent if s in stays)
