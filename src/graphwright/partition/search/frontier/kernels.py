"""The hot loops of `tracking`: frontiers of time and memory, added and thinned.

A frontier is a range of points sorted by memory, upwards, and so by time, downwards; the frontiers of all entries of a factor lie
one after another in flat arrays:

    time, memory    of every point
    begin           [entries + 1]: entry e has the points begin[e] to begin[e + 1]
    left, right     the points of the operands whose sum a point is; of a leaf the option and nothing
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphwright.partition.estimate import Floats
from graphwright.tasks import compiled

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Points = tuple[Floats, Floats, Int32s, Int32s, Int64s]


@compiled
def leaf_points(time: Floats, memory: Floats) -> Points:
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


@compiled
def is_covered(
    time: float, memory: float, alpha: Floats, beta: Floats, enough: Floats, rest: Floats
) -> bool:
    """Whether everything at or above (time, memory), with what the rest takes at least, is no news to the known assignments."""
    for j in range(len(enough)):
        if alpha[j] * time + beta[j] * memory + rest[j] < enough[j]:
            return False
    return True


@compiled
def thin(
    time: Floats, memory: Floats, left: Int32s, right: Int32s, size: int, factor: float
) -> int:
    """Keep points such that each of the others has one of at most `factor` times its time and memory; both ends are kept."""
    n = 1  # the first is kept
    i = 1
    while i < size - 1:
        if time[n - 1] <= factor * time[i]:  # the last one kept does for it
            i += 1
            continue
        j = i
        while j + 1 < size and memory[j + 1] <= factor * memory[i]:
            j += 1
        time[n], memory[n], left[n], right[n] = time[j], memory[j], left[j], right[j]
        n += 1
        i = j + 1
    if i < size:
        j = size - 1
        time[n], memory[n], left[n], right[n] = time[j], memory[j], left[j], right[j]
        n += 1
    return n


@compiled
def contract(
    left_time: Floats,
    left_memory: Floats,
    left_begin: Int64s,
    right_time: Floats,
    right_memory: Floats,
    right_begin: Int64s,
    left_map: Int32s,
    right_map: Int32s,
    alpha: Floats,
    beta: Floats,
    enough: Floats,
    outside: Floats,
    factor: float,
    from_entry: int,
    to_entry: int,
) -> Points:
    """The frontiers of a range of a step's entries: for each the union, over the eliminated variable, of products.

    left_map [shared, first, variable], right_map [shared, variable, last]; outside [entries, weights] and `enough` [weights] say
    which points need not be kept (`is_covered`); with a factor above 1 frontiers are thinned.
    """
    first, variable = left_map.shape[1], left_map.shape[2]
    last = right_map.shape[2]
    num_entries = to_entry - from_entry
    bounded = len(enough) > 0
    begin = np.zeros(num_entries + 1, np.int64)
    capacity = 4 * num_entries + 64
    out_time, out_memory = np.empty(capacity), np.empty(capacity)
    out_left, out_right = np.empty(capacity, np.int32), np.empty(capacity, np.int32)
    total = 0
    room = 256  # the running frontier, and the one being merged
    t, m = np.empty(room), np.empty(room)
    x, y = np.empty(room, np.int32), np.empty(room, np.int32)
    new_t, new_m = np.empty(room), np.empty(room)
    new_x, new_y = np.empty(room, np.int32), np.empty(room, np.int32)
    corner_t, corner_m = np.empty(variable), np.empty(variable)
    rank = np.empty(variable)
    number = np.empty(variable, np.int64)
    for entry in range(num_entries):
        e = from_entry + entry
        row, b = e // last, e % last
        s = row // first
        n = 0
        count = 0
        least_t = least_m = np.inf
        for v in range(variable):
            a, c = left_map[s, row - s * first, v], right_map[s, v, b]
            if left_begin[a] == left_begin[a + 1] or right_begin[c] == right_begin[c + 1]:
                continue
            ct = left_time[left_begin[a + 1] - 1] + right_time[right_begin[c + 1] - 1]
            cm = left_memory[left_begin[a]] + right_memory[right_begin[c]]
            if bounded and is_covered(ct, cm, alpha, beta, enough, outside[e]):
                continue
            corner_t[count], corner_m[count], number[count] = ct, cm, v
            least_t, least_m = min(least_t, ct), min(least_m, cm)
            count += 1
        scale_t = 1.0 / least_t if least_t > 0.0 else 1.0
        scale_m = 1.0 / least_m if least_m > 0.0 else 1.0
        for i in range(count):
            rank[i] = corner_t[i] * scale_t + corner_m[i] * scale_m
        order = np.argsort(rank[:count])
        for i in order:
            at = count_up_to(m, n, corner_m[i])
            if at > 0 and t[at - 1] <= corner_t[i]:
                continue
            v = number[i]
            a, c = left_map[s, row - s * first, v], right_map[s, v, b]
            a_begin, a_end = left_begin[a], left_begin[a + 1]
            c_begin, c_end = right_begin[c], right_begin[c + 1]
            swapped = a_end - a_begin > c_end - c_begin  # the shorter one outside
            if swapped:
                a_begin, a_end, c_begin, c_end = c_begin, c_end, a_begin, a_end
                outer_t, outer_m, inner_t, inner_m = (
                    right_time,
                    right_memory,
                    left_time,
                    left_memory,
                )
            else:
                outer_t, outer_m, inner_t, inner_m = (
                    left_time,
                    left_memory,
                    right_time,
                    right_memory,
                )
            for p in range(a_begin, a_end):
                dt, dm = outer_t[p], outer_m[p]
                ct, cm = dt + inner_t[c_end - 1], dm + inner_m[c_begin]
                at = count_up_to(m, n, cm)
                if at > 0 and t[at - 1] <= ct:
                    continue
                if (
                    bounded
                    and a_end - a_begin > 1
                    and is_covered(ct, cm, alpha, beta, enough, outside[e])
                ):
                    continue
                if n + c_end - c_begin > room:
                    room = 2 * (n + c_end - c_begin)
                    t, m = grown(t, room), grown(m, room)
                    x, y = grown_ints(x, room), grown_ints(y, room)
                    new_t, new_m = np.empty(room), np.empty(room)
                    new_x, new_y = np.empty(room, np.int32), np.empty(room, np.int32)
                # Points of less memory than all of the new ones stay where they are.
                start = at if at > 0 and m[at - 1] < cm else max(at - 1, 0)
                bound = t[start - 1] if start > 0 else np.inf
                k, q, size = start, c_begin, 0
                while k < n or q < c_end:
                    if q < c_end:
                        qt, qm = dt + inner_t[q], dm + inner_m[q]
                        if qt >= bound:
                            q += 1
                            continue
                        take_old = k < n and (m[k] < qm or (m[k] == qm and t[k] <= qt))
                    else:
                        qt = qm = 0.0
                        take_old = True
                    if take_old:
                        if t[k] < bound:
                            new_t[size], new_m[size] = t[k], m[k]
                            new_x[size], new_y[size] = x[k], y[k]
                            bound = t[k]
                            size += 1
                        k += 1
                    else:
                        new_t[size], new_m[size] = qt, qm
                        if swapped:
                            new_x[size], new_y[size] = q, p
                        else:
                            new_x[size], new_y[size] = p, q
                        bound = qt
                        size += 1
                        q += 1
                t[start : start + size] = new_t[:size]
                m[start : start + size] = new_m[:size]
                x[start : start + size] = new_x[:size]
                y[start : start + size] = new_y[:size]
                n = start + size
        if bounded:
            size = 0
            for i in range(n):
                if not is_covered(t[i], m[i], alpha, beta, enough, outside[e]):
                    t[size], m[size], x[size], y[size] = t[i], m[i], x[i], y[i]
                    size += 1
            n = size
        if factor > 1.0 and n > 2:
            n = thin(t, m, x, y, n, factor)
        if total + n > capacity:
            capacity = 2 * (total + n)
            out_time, out_memory = grown(out_time, capacity), grown(out_memory, capacity)
            out_left, out_right = grown_ints(out_left, capacity), grown_ints(out_right, capacity)
        out_time[total : total + n] = t[:n]
        out_memory[total : total + n] = m[:n]
        out_left[total : total + n] = x[:n]
        out_right[total : total + n] = y[:n]
        total += n
        begin[entry + 1] = total
    return (
        out_time[:total].copy(),
        out_memory[:total].copy(),
        out_left[:total].copy(),
        out_right[:total].copy(),
        begin,
    )


@compiled
def grown(values: Floats, size: int) -> Floats:
    """The values in an array of that size."""
    result = np.empty(size)
    result[: len(values)] = values
    return result


@compiled
def grown_ints(values: Int32s, size: int) -> Int32s:
    """The values in an array of that size."""
    result = np.empty(size, np.int32)
    result[: len(values)] = values
    return result
