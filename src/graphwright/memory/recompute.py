"""Making cheap tensors again instead of keeping or swapping them: operators that run twice.

    forward   conv  norm  relu ... | backward ...  norm  relu  relu' conv'
                                                   ~~~~  ~~~~
What an operator makes is made again before it is next read, if

    its time        is less than `share` of that of copying what it makes out and in
    its readers     leave it alone for longer than `gap` of the step
    it repeats      it draws nothing, and nobody has changed what it reads meanwhile

What it reads may have to be made again first. The planner needs to know nothing of this: what an
operator makes a second time was free since its last reader before that.
"""

from __future__ import annotations

import numpy as np

from graphwright.memory.arrays import Ints
from graphwright.plans import MemoryProblem

MOST_AGAIN = 1.0
"""Recomputing may add this share of the step's own time at most."""


def extend_order(problem: MemoryProblem, order: Ints, share: float, gap: float) -> Ints:
    """The order with operators repeated where that is cheap; the order itself if it is not."""
    maker = _cheap(problem, share)
    while True:
        extended, spoilt = _walk(problem, order, maker, int(gap * problem.compute_time))
        if extended is None:
            return order
        if not spoilt:
            return np.array(extended, np.int64)
        for s in spoilt:
            del maker[s]


def _cheap(problem: MemoryProblem, share: float) -> dict[int, int]:
    """Storages that are cheap to make again, and the operators that make them."""
    cheap: dict[int, int] = {}
    for i, op in enumerate(problem.operators):
        if op.repeats and not op.writes and len(op.makes) == 1:
            made = problem.storages[op.makes[0]]
            if op.duration < share * (made.out_time + made.in_time):
                cheap[op.makes[0]] = i
    return cheap


def _walk(
    problem: MemoryProblem, order: Ints, maker: dict[int, int], gap: int
) -> tuple[list[int] | None, set[int]]:
    """The order with repeated operators; and what was to be made again from changed values."""
    ops = problem.operators
    now = 0
    touched: dict[int, int] = {}
    made_at: dict[int, int] = {}
    written_at: dict[int, int] = {}
    extended: list[int] = []
    spoilt: set[int] = set()
    most = problem.compute_time * (1 + MOST_AGAIN)

    def ensure(s: int) -> None:
        """Make a storage again if nobody has touched it for too long."""
        stack = [(s, False)]
        while stack:
            t, is_ready = stack.pop()
            i = maker[t]
            if is_ready:
                run(i)
                continue
            if now - touched[t] <= gap:
                touched[t] = now
                continue
            if any(written_at.get(r, -1) > made_at[t] for r in ops[i].reads):
                spoilt.add(t)
            touched[t] = now
            stack.append((t, True))
            stack += [(r, False) for r in ops[i].reads if r in maker]

    def run(i: int) -> None:
        nonlocal now
        for s in ops[i].writes:
            written_at[s] = len(extended)
        extended.append(i)
        now += ops[i].duration
        for s in (*ops[i].reads, *ops[i].makes):
            touched[s] = now

    for i in order.tolist():
        for s in ops[i].reads:
            if s in maker:
                ensure(s)
        for s in ops[i].makes:
            made_at[s] = len(extended)
        run(i)
        if now > most:
            return None, spoilt
    return extended, spoilt
