"""Cut the vertices of a graph into consecutive ranges (ROC, section 4.4.2).

    equal_vertices   as many vertices each
    equal_edges      as many in-edges each, as nearly as vertices allow
    balanced         the largest cost of a range is as small as it can be

`balanced` asks for the cost of all vertices before one, which may never fall. For a limit, each
range is made as long as the limit allows, by bisection; the least limit for which all vertices find
a place is bisected, too: O(N log V) for each limit. Where cutting at equal shares of the total cost
is as good, it is done so, since that leaves no worker with the rest.

Workers wait for each other in every layer, and what balances one layer need not balance another:
`refined` shifts bounds from there on, towards the least sum over layers of the slowest worker.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from operator import index

from torch import Tensor

from graphwright.gnn.storage import DGLError

Bounds = tuple[int, ...]
"""Where ranges begin, and the number of vertices at the end."""

_CLOSE = 1.001


class InvalidRanges(DGLError):
    """Bounds are no ranges of the graph's vertices, one for each worker.

    Bounds begin with 0, never fall and end with the number of vertices; there is one more of them
    than there are workers. Two that are equal give a worker nothing.
    """


def check_bounds(bounds: Sequence[int], num_nodes: int, workers: int) -> Bounds:
    """Bounds that a user gave."""
    try:
        made = tuple(index(bound) for bound in bounds)
    except TypeError:
        raise InvalidRanges(f"bounds are whole numbers. Got {list(bounds)}.") from None
    if len(made) != workers + 1 or made[0] != 0 or made[-1] != num_nodes:
        raise InvalidRanges(
            f"{workers} workers on {num_nodes} vertices need {workers + 1} bounds from 0 to "
            f"{num_nodes}. Got {list(made)}."
        )
    if sorted(made) != list(made):
        raise InvalidRanges(f"bounds may not fall. Got {list(made)}.")
    return made


def equal_vertices(num_nodes: int, workers: int) -> Bounds:
    """As many vertices each."""
    return tuple(num_nodes * number // workers for number in range(workers + 1))


def equal_edges(indptr: Tensor, workers: int) -> Bounds:
    """As many in-edges each; vertices without any count nothing."""
    return at_equal_shares(lambda vertex: float(indptr[vertex]), len(indptr) - 1, workers)


def at_equal_shares(cost: Callable[[int], float], num_nodes: int, workers: int) -> Bounds:
    """Cut where the cost of what comes before is nearest to each worker's share of the total."""
    total, bounds = cost(num_nodes), [0]
    for number in range(1, workers):
        goal = total * number / workers
        place = bisect_left(range(num_nodes + 1), goal, bounds[-1], num_nodes, key=cost)
        if place > bounds[-1] and goal - cost(place - 1) < cost(place) - goal:
            place -= 1
        bounds.append(place)
    return (*bounds, num_nodes)


def balanced(cost: Callable[[int], float], num_nodes: int, workers: int) -> Bounds:
    """The ranges whose largest cost is least; `cost(v)` is that of all vertices before v."""
    simple = at_equal_shares(cost, num_nodes, workers)
    high = largest(cost, simple)
    low, best = cost(num_nodes) / workers, simple
    if high <= low * _CLOSE:
        return simple
    while high - low > 1e-9 * high:
        limit = (low + high) / 2
        found = _filled(cost, num_nodes, workers, limit)
        if found is None:
            low = limit
        else:
            high, best = min(limit, largest(cost, found)), found
    return simple if largest(cost, simple) <= high * _CLOSE else best


def refined(seconds: Callable[[Bounds], float], bounds: Bounds) -> Bounds:
    """Shift single bounds by ever smaller steps as long as that saves time; never a slower cut."""
    best, step = seconds(bounds), bounds[-1] // 4
    while step:
        shifted = False
        for place in range(1, len(bounds) - 1):
            for there in (bounds[place] - step, bounds[place] + step):
                if bounds[place - 1] <= there <= bounds[place + 1]:
                    other = (*bounds[:place], there, *bounds[place + 1 :])
                    taken = seconds(other)
                    if taken < best:
                        bounds, best, shifted = other, taken, True
        step = step if shifted else step // 2
    return bounds


def largest(cost: Callable[[int], float], bounds: Bounds) -> float:
    """The cost of the dearest range."""
    sums = [cost(bound) for bound in bounds]
    return max(after - before for before, after in itertools.pairwise(sums))


def _filled(
    cost: Callable[[int], float], num_nodes: int, workers: int, limit: float
) -> Bounds | None:
    """Ranges that are as long as the limit allows; None if vertices are left."""
    bounds = [0]
    for _ in range(workers):
        most = cost(bounds[-1]) + limit
        bounds.append(bisect_right(range(num_nodes + 1), most, bounds[-1], key=cost) - 1)
    return tuple(bounds) if bounds[-1] == num_nodes else None
