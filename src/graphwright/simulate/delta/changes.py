"""Which tasks a proposal changes: the first thing that `delta_kernels.evaluate` asks."""

from __future__ import annotations

from graphwright.plans import Ints
from graphwright.simulate.delta.heap import push
from graphwright.simulate.delta.pools import ADDED, FIRST_OUT, KEY, MARK, NEXT_OUT, SOURCE, TARGET
from graphwright.tasks import compiled


@compiled
def mark_changed(
    tasks: Ints,
    links: Ints,
    position: Ints,
    edges: Ints,
    added: Ints,
    removed: Ints,
    linked: Ints,
    epoch: int,
    times: Ints,
    keys: Ints,
    slots: Ints,
) -> int:
    """Mark the added tasks and the survivors with other predecessors, into a heap by key; returns how many."""
    count = 0
    for t in added:
        if position[t] == ADDED:
            links[MARK, t] = epoch
            push(times, keys, slots, count, 0, tasks[KEY, t], t)
            count += 1
    for r in removed:
        e = links[FIRST_OUT, r]
        while e >= 0:
            t = edges[TARGET, e]
            if position[t] >= 0 and links[MARK, t] != epoch:
                links[MARK, t] = epoch
                push(times, keys, slots, count, 0, tasks[KEY, t], t)
                count += 1
            e = edges[NEXT_OUT, e]
    for e in linked:
        t = edges[TARGET, e]
        if position[t] >= 0 and position[edges[SOURCE, e]] >= 0 and links[MARK, t] != epoch:
            links[MARK, t] = epoch
            push(times, keys, slots, count, 0, tasks[KEY, t], t)
            count += 1
    return count
