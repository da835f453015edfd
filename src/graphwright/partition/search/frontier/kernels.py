"""The hot loops of `tracking`: frontiers of time and memory, added and thinned.

A frontier is a range of points sorted by memory, upwards, and so by time, downwards; the frontiers
of all entries of a factor lie one after another in flat columns (`Frontiers`).

    contract        a step of elimination for a range of its entries. For each one, the union over
                    the eliminated variable of products: all sums of a point of each operand
      find_corners    the least time and memory of each product; hopeless ones are left out
      promising       the order in which products are added, so that the later ones find much beaten
      add_product     one product: for each point of the shorter operand the other one, moved by it
        merge           a moved frontier into the union so far
      drop_covered    what bounds rule out
      thin            what is close to others
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphwright.partition.estimate import Floats
from graphwright.tasks import compiled, inlined

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Columns = tuple[Floats, Floats, Int32s, Int32s, Int64s]
"""What `Frontiers` are made of: to return the named tuple itself takes Numba longer."""


class Frontiers(NamedTuple):
    """The frontiers of all entries of a factor, one after another.

    time, memory    of every point
    left, right     the points of the operands whose sum it is; of a leaf the option and nothing
    begin           [entries + 1]: entry e has the points begin[e] to begin[e + 1]
    """

    time: Floats
    memory: Floats
    left: Int32s
    right: Int32s
    begin: Int64s


class Points(NamedTuple):
    """Columns with room for points of one frontier."""

    time: Floats
    memory: Floats
    left: Int32s
    right: Int32s


class Bounds(NamedTuple):
    """Which partial points lead to nothing new: those with alpha time + beta memory + outside >=
    enough, for all lines.

    outside    [entries, lines]; infinite where no point of the entry is of use
    """

    alpha: Floats
    beta: Floats
    enough: Floats
    outside: Floats


class Maps(NamedTuple):
    """The operands' entries that a step reads: [shared, first, variable] and so on."""

    left: Int32s
    right: Int32s


class Corners(NamedTuple):
    """The least time and the least memory of products, the number of the variable's configuration,
    and how far it is from the least of all."""

    time: Floats
    memory: Floats
    variable: Int64s
    rank: Floats


@compiled
def leaf_points(time: Floats, memory: Floats) -> Columns:
    """The frontier of the options of every entry; time and memory [entries, options]."""
    num_entries, options = time.shape
    begin = np.zeros(num_entries + 1, np.int64)
    out_time, out_memory = np.empty(time.size), np.empty(time.size)
    left = np.empty(time.size, np.int32)
    n = 0
    for e in range(num_entries):
        bound = np.inf  # the time of the last point taken
        while True:
            best = -1  # the least memory, then the least time, among those faster than the last
            for x in range(options):
                if time[e, x] < bound and (
                    best < 0
                    or memory[e, x] < memory[e, best]
                    or (memory[e, x] == memory[e, best] and time[e, x] < time[e, best])
                ):
                    best = x
            if best < 0:
                break
            out_time[n], out_memory[n], left[n] = time[e, best], memory[e, best], best
            bound = time[e, best]
            n += 1
        begin[e + 1] = n
    right = np.zeros(n, np.int32)
    return out_time[:n].copy(), out_memory[:n].copy(), left[:n].copy(), right, begin


@compiled
def contract(
    left: Frontiers,
    right: Frontiers,
    maps: Maps,
    bounds: Bounds,
    factor: float,
    from_entry: int,
    to_entry: int,
) -> Columns:
    """The frontiers of a range of a step's entries; with a factor above 1 they are thinned."""
    first, variable, last = maps.left.shape[1], maps.left.shape[2], maps.right.shape[2]
    num_entries = to_entry - from_entry
    begin = np.zeros(num_entries + 1, np.int64)
    out = empty_points(4 * num_entries + 64)
    union, spare, n = empty_points(256), empty_points(256), 0
    corners = Corners(
        np.empty(variable), np.empty(variable), np.empty(variable, np.int64), np.empty(variable)
    )
    total = 0
    for entry in range(num_entries):
        e = from_entry + entry
        row, b = e // last, e % last
        s = row // first
        left_entries, right_entries = maps.left[s, row - s * first], maps.right[s, :, b]
        count = find_corners(left, right, left_entries, right_entries, bounds, e, corners)
        n = 0
        for i in promising(corners, count):
            at = count_up_to(union.memory, n, corners.memory[i])
            if at > 0 and union.time[at - 1] <= corners.time[i]:
                continue
            v = corners.variable[i]
            union, spare, n = add_product(
                union, spare, n, left, right, left_entries[v], right_entries[v], bounds, e
            )
        n = drop_covered(union, n, bounds, e)
        if factor > 1.0 and n > 2:
            n = thin(union, n, factor)
        if total + n > len(out.time):
            out = grown(out, total, 2 * (total + n))
        copy_points(union, 0, out, total, n)
        total += n
        begin[entry + 1] = total
    return (
        out.time[:total].copy(),
        out.memory[:total].copy(),
        out.left[:total].copy(),
        out.right[:total].copy(),
        begin,
    )


@inlined
def find_corners(
    left: Frontiers,
    right: Frontiers,
    left_entries: Int32s,
    right_entries: Int32s,
    bounds: Bounds,
    e: int,
    corners: Corners,
) -> int:
    """The corners of the products that have points and are not covered; returns how many."""
    count = 0
    for v in range(len(left_entries)):
        a, c = left_entries[v], right_entries[v]
        if left.begin[a] == left.begin[a + 1] or right.begin[c] == right.begin[c + 1]:
            continue
        time = left.time[left.begin[a + 1] - 1] + right.time[right.begin[c + 1] - 1]
        memory = left.memory[left.begin[a]] + right.memory[right.begin[c]]
        if is_covered(time, memory, bounds, e):
            continue
        corners.time[count], corners.memory[count], corners.variable[count] = time, memory, v
        count += 1
    return count


@inlined
def promising(corners: Corners, count: int) -> Int64s:
    """The numbers of the corners, those nearest to the least time and the least memory first."""
    least_time = least_memory = np.inf
    for i in range(count):
        least_time = min(least_time, corners.time[i])
        least_memory = min(least_memory, corners.memory[i])
    per_time = 1.0 / least_time if least_time > 0.0 else 1.0
    per_memory = 1.0 / least_memory if least_memory > 0.0 else 1.0
    for i in range(count):
        corners.rank[i] = corners.time[i] * per_time + corners.memory[i] * per_memory
    return np.argsort(corners.rank[:count])


@inlined
def add_product(
    union: Points,
    spare: Points,
    n: int,
    left: Frontiers,
    right: Frontiers,
    a: int,
    c: int,
    bounds: Bounds,
    e: int,
) -> tuple[Points, Points, int]:
    """The union of n points and of all sums of a point of left's entry `a` and one of right's `c`.

    Returns it with the columns to merge in, which may have grown, and how many points it has.
    """
    swapped = left.begin[a + 1] - left.begin[a] > right.begin[c + 1] - right.begin[c]
    outer, inner = (right, left) if swapped else (left, right)  # the shorter one outside
    p_begin, p_end = (
        (right.begin[c], right.begin[c + 1]) if swapped else (left.begin[a], left.begin[a + 1])
    )
    q_begin, q_end = (
        (left.begin[a], left.begin[a + 1]) if swapped else (right.begin[c], right.begin[c + 1])
    )
    for p in range(p_begin, p_end):
        time = outer.time[p] + inner.time[q_end - 1]
        memory = outer.memory[p] + inner.memory[q_begin]
        at = count_up_to(union.memory, n, memory)
        if at > 0 and union.time[at - 1] <= time:
            continue
        if p_end - p_begin > 1 and is_covered(time, memory, bounds, e):
            continue
        if n + q_end - q_begin > len(union.time):
            union = grown(union, n, 2 * (n + q_end - q_begin))
            spare = empty_points(len(union.time))
        # Points of less memory than all of the new ones stay where they are.
        start = at if at > 0 and union.memory[at - 1] < memory else max(at - 1, 0)
        n = merge(union, spare, start, n, outer, p, inner, q_begin, q_end, swapped)
    return union, spare, n


@inlined
def merge(
    union: Points,
    spare: Points,
    start: int,
    n: int,
    outer: Frontiers,
    p: int,
    inner: Frontiers,
    q: int,
    q_end: int,
    swapped: bool,
) -> int:
    """Replace points `start` to `n` of a union by what is left of them and of point p of `outer`
    plus points q to q_end of `inner`; returns how many the union has then."""
    more_time, more_memory = outer.time[p], outer.memory[p]
    bound = union.time[start - 1] if start > 0 else np.inf
    k, size = start, 0
    while k < n or q < q_end:
        if q < q_end:
            time, memory = more_time + inner.time[q], more_memory + inner.memory[q]
            if time >= bound:
                q += 1
                continue
            take_old = k < n and (
                union.memory[k] < memory or (union.memory[k] == memory and union.time[k] <= time)
            )
        else:
            time = memory = 0.0
            take_old = True
        if take_old:
            if union.time[k] < bound:
                spare.time[size], spare.memory[size] = union.time[k], union.memory[k]
                spare.left[size], spare.right[size] = union.left[k], union.right[k]
                bound = union.time[k]
                size += 1
            k += 1
        else:
            spare.time[size], spare.memory[size] = time, memory
            spare.left[size], spare.right[size] = (q, p) if swapped else (p, q)
            bound = time
            size += 1
            q += 1
    copy_points(spare, 0, union, start, size)
    return start + size


@inlined
def count_up_to(memory: Floats, size: int, limit: float) -> int:
    """How many of the first `size` values, in ascending order, are no more than `limit`."""
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        if memory[middle] <= limit:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def is_covered(time: float, memory: float, bounds: Bounds, e: int) -> bool:
    """Whether everything at or above (time, memory), with what the rest takes at least, is no news
    to the known assignments; without bounds nothing is."""
    for j in range(len(bounds.enough)):
        value = bounds.alpha[j] * time + bounds.beta[j] * memory + bounds.outside[e, j]
        if value < bounds.enough[j]:
            return False
    return len(bounds.enough) > 0


@inlined
def drop_covered(points: Points, n: int, bounds: Bounds, e: int) -> int:
    """Keep the points that are not covered; returns how many."""
    if len(bounds.enough) == 0:
        return n
    size = 0
    for i in range(n):
        if not is_covered(points.time[i], points.memory[i], bounds, e):
            move_point(points, i, size)
            size += 1
    return size


@compiled
def thin(points: Points, size: int, factor: float) -> int:
    """Keep points such that each of the others has one of at most `factor` times its time and
    memory; both ends are kept. Returns how many."""
    time, memory = points.time, points.memory
    n = 1  # the first is kept
    i = 1
    while i < size - 1:
        if time[n - 1] <= factor * time[i]:  # the last one kept does for it
            i += 1
            continue
        j = i
        while j + 1 < size and memory[j + 1] <= factor * memory[i]:
            j += 1
        move_point(points, j, n)
        n += 1
        i = j + 1
    if i < size:
        move_point(points, size - 1, n)
        n += 1
    return n


# -- columns ---------------------------------------------------------------------------------------


@inlined
def empty_points(size: int) -> Points:
    """Room for so many points."""
    return Points(
        np.empty(size), np.empty(size), np.empty(size, np.int32), np.empty(size, np.int32)
    )


@inlined
def grown(points: Points, n: int, size: int) -> Points:
    """The first n points with room for `size`."""
    result = empty_points(size)
    copy_points(points, 0, result, 0, n)
    return result


@inlined
def copy_points(source: Points, i: int, target: Points, j: int, count: int) -> None:
    """Copy points from i onwards to j onwards."""
    target.time[j : j + count] = source.time[i : i + count]
    target.memory[j : j + count] = source.memory[i : i + count]
    target.left[j : j + count] = source.left[i : i + count]
    target.right[j : j + count] = source.right[i : i + count]


@inlined
def move_point(points: Points, i: int, j: int) -> None:
    """Put point i in the place of point j."""
    points.time[j], points.memory[j] = points.time[i], points.memory[i]
    points.left[j], points.right[j] = points.left[i], points.right[i]
