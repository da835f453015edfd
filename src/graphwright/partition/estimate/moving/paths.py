"""The shortest path between two shardings, and what fetching regions takes, over whole numbers: the inside of `moving`.

    fill           the table: for every source and target
      bundle       neighbouring axes of one level that start and end alike
      cheapest     the shortest path (A*) over the placements of the bundles: the moves are those of `tasks.reshard`
        collective   seconds of one collective: by its prices
        fetch        seconds of fetching just what is missing: see `moving_messages`

A state is a whole number of four bits for every bundle: its placement + 2. Compiled code counts the references to each array that it
hands on, so what is handed on often is in few arrays: a row of `bundles` for each of its figures, a column of `paths` likewise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphwright.partition.estimate.moving.messages import (
    LEVEL,
    NOW,
    SMALL,
    SOURCE,
    SPAN,
    TARGET,
    WAYS,
    Known,
    Machine,
    fetch,
)
from graphwright.tasks import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Codes = NDArray[np.int8]

REPLICATED, PARTIAL = -1, -2
GATHER, SCATTER, REDUCE, SWAP = range(4)
BITS = 4
ALL = (1 << BITS) - 1
ONES = sum(1 << (BITS * i) for i in range(15))
FETCH = 1 << 62
"""Of a state: what is missing is to be fetched next."""
MOST_STATES = 512
"""A search that has seen so many states goes on with those."""
FEW = 3
"""Up to so many bundles, detours over other dims are looked at, as `tasks.reshard` does."""


class Tariff(NamedTuple):
    """Prices of collectives: `points` by kind and group are seconds at 2^i bytes; or, after a -1, latency and seconds per byte.

    `group_of` is for every set of axes, as bits, the number of its group.
    """

    group_of: NDArray[np.int32]
    points: Floats


# The columns of `paths`: seconds so far, no more than those of a path through the state, bytes so far, whether it was looked at.
SPENT, LEAST, MOVED, DONE = range(4)


@compiled
def fill(
    machine: Machine,
    tariff: Tariff,
    known: Known,
    shape: Ints,
    width: float,
    sources: Codes,
    targets: Codes,
    seconds: Floats,
    moved: Floats,
) -> None:
    """Seconds and bytes moved from every one of `sources` to every one of `targets`."""
    bundles = np.empty((6, machine.axis_size.size), np.int64)
    keys, paths = np.empty(MOST_STATES, np.int64), np.empty((MOST_STATES, 4))
    ways = np.empty(shape.size, np.int64)
    for u in range(len(sources)):
        for v in range(len(targets)):
            count = bundle(machine.axis_size, machine.axis_level, sources[u], targets[v], bundles)
            seconds[u, v], moved[u, v] = cheapest(
                machine, tariff, known, shape, width, bundles, count, keys, paths, ways
            )


@compiled
def bundle(sizes: Ints, levels: Ints, source: Codes, target: Codes, made: Ints) -> int:
    """Join neighbouring axes; how many bundles there are."""
    count = 0
    for a in range(source.size):
        if (
            a > 0
            and levels[a] == levels[a - 1]
            and source[a] == source[a - 1]
            and target[a] == target[a - 1]
        ):
            made[SPAN, count - 1] |= 1 << a
            made[WAYS, count - 1] *= sizes[a]
        else:
            made[SPAN, count] = 1 << a
            made[WAYS, count] = sizes[a]
            made[LEVEL, count] = levels[a]
            made[SOURCE, count] = source[a]
            made[TARGET, count] = target[a]
            count += 1
    return count


# -- the search ---------------------------------------------------------------------------------------


@compiled
def cheapest(
    machine: Machine,
    tariff: Tariff,
    known: Known,
    shape: Ints,
    width: float,
    b: Ints,
    count: int,
    keys: Ints,
    paths: Floats,
    ways: Ints,
) -> tuple[float, float]:
    """Seconds and bytes of the cheapest path: the same states and moves as in `tasks.reshard`."""
    rank, ports = shape.size, machine.ports
    group_of, points = tariff.group_of, tariff.points
    devices, start = 1, 0
    had_terms, kept_terms, same = False, False, True
    for i in range(count):
        devices *= b[WAYS, i]
        start |= (b[SOURCE, i] + 2) << (BITS * i)
        had_terms = had_terms or b[SOURCE, i] == PARTIAL
        kept_terms = kept_terms or b[TARGET, i] == PARTIAL
        same = same and b[SOURCE, i] == b[TARGET, i]
    if same:
        return 0.0, 0.0
    size = width
    for d in range(rank):
        size *= shape[d]
    wide = count <= FEW
    settles = not wide and not had_terms
    best, best_moved = plain(b, count, group_of, points, shape, width, devices)
    if not had_terms and not kept_terms:
        states = reach(b, count, keys, paths, ports, size, 0, start | FETCH, 0.0, 0.0, best)
    else:
        states = 0
    if settles:
        start = settled(b, count, start)
    states = reach(b, count, keys, paths, ports, size, states, start, 0.0, 0.0, best)
    while True:
        at = -1
        lowest = best
        for i in range(states):
            if paths[i, DONE] == 0 and paths[i, LEAST] < lowest:
                at, lowest = i, paths[i, LEAST]
        if at < 0:
            return best, best_moved
        paths[at, DONE] = 1
        spent, so_far, key = paths[at, SPENT], paths[at, MOVED], keys[at]
        for d in range(rank):
            ways[d] = 1
        summed = had_terms and not kept_terms
        for i in range(count):
            now = ((key >> (BITS * i)) & ALL) - 2
            b[NOW, i] = now
            if now >= 0:
                ways[now] *= b[WAYS, i]
            if b[SOURCE, i] == PARTIAL:
                cut = now >= 0 and wide and devices <= SMALL
                summed = summed and (now == REPLICATED or cut)
            else:
                summed = summed and now == b[SOURCE, i]
        if key & FETCH:
            took, carried = fetch(machine, known, b, count, size)
            if spent + took < best:
                best, best_moved = spent + took, so_far + carried
            continue
        if only_slices(b, count):
            return spent, so_far
        if summed:
            key |= FETCH
            states = reach(b, count, keys, paths, ports, size, states, key, spent, so_far, best)
            key ^= FETCH
        held = width
        average = size
        for d in range(rank):
            held *= -(-shape[d] // ways[d])
            average /= ways[d]

        # Terms are added up, of one bundle or of all.
        first, partial = -1, 0
        joint, joint_ways, joint_bits = 0, 1, 0
        for i in range(count):
            if b[NOW, i] == PARTIAL and b[TARGET, i] != PARTIAL:
                first = i if first < 0 else first
                partial += 1
                joint |= b[SPAN, i]
                joint_ways *= b[WAYS, i]
                joint_bits |= ALL << (BITS * i)
        for i in range(first, count + 1 if partial > 1 else count):
            if partial == 0:
                break
            if i == count:
                lead, span, group, bits = first, joint, joint_ways, joint_bits
            elif b[NOW, i] == PARTIAL and b[TARGET, i] != PARTIAL:
                lead, span, group, bits = i, b[SPAN, i], b[WAYS, i], ALL << (BITS * i)
            else:
                continue
            took = spent + collective(group_of, points, REDUCE, span, held)
            carried = so_far + devices * average * 2.0 * (group - 1) / group
            state = (key & ~bits) | ((REPLICATED + 2) * ONES & bits)
            states = reach(b, count, keys, paths, ports, size, states, state, took, carried, best)
            longest, second = -1, -1
            for d in range(rank):
                if opens(b, count, shape, ways, lead, group, d):
                    if longest < 0 or shape[d] > shape[longest]:
                        longest, second = d, longest
                    elif second < 0 or shape[d] > shape[second]:
                        second = d
            for d in range(rank):
                wanted = d == b[TARGET, lead] and opens(b, count, shape, ways, lead, group, d)
                if not (wanted or d == longest or (wide and d == second)):
                    continue
                passed = (held - part(shape, ways, width, d, group)) * group / (group - 1)
                took = spent + collective(group_of, points, SCATTER, span, passed)
                carried = so_far + devices * average * (group - 1) / group
                state = (key & ~bits) | ((d + 2) * ONES & bits)
                states = reach(
                    b, count, keys, paths, ports, size, states, state, took, carried, best
                )

        # Parts are gathered: of a dim the innermost cuts, however many.
        for d in range(rank):
            if ways[d] == 1:
                continue
            span, group, bits = 0, 1, 0
            for i in range(count - 1, -1, -1):
                if b[NOW, i] != d:
                    continue
                span |= b[SPAN, i]
                group *= b[WAYS, i]
                bits |= ALL << (BITS * i)
                if stays(b, i, d):
                    break
                whole = held // -(-shape[d] // ways[d]) * -(-shape[d] // (ways[d] // group))
                passed = (whole - part(shape, ways, width, d, 1)) * group / (group - 1)
                took = spent + collective(group_of, points, GATHER, span, passed)
                carried = so_far + devices * average * (group - 1)
                state = (key & ~bits) | ((REPLICATED + 2) * ONES & bits)
                if settles:
                    state = settled(b, count, state)
                states = reach(
                    b, count, keys, paths, ports, size, states, state, took, carried, best
                )

        for i in range(count):
            own, then, group = b[NOW, i], b[TARGET, i], b[WAYS, i]
            bits = ALL << (BITS * i)
            # What is whole is sliced, or becomes terms of which one is not zero.
            if own == REPLICATED:
                if then == PARTIAL or (then >= 0 and opens(b, count, shape, ways, i, group, then)):
                    state = (key & ~bits) | ((then + 2) << (BITS * i))
                    states = reach(
                        b, count, keys, paths, ports, size, states, state, spent, so_far, best
                    )
            # The innermost cut moves to another dim.
            elif own >= 0 and innermost(b, count, i):
                detour = longest_other(b, count, shape, ways, i) if wide else -1
                for d in range(rank):
                    wanted = d == then and d != own and opens(b, count, shape, ways, i, group, d)
                    if not (wanted or d == detour):
                        continue
                    took = spent + collective(group_of, points, SWAP, b[SPAN, i], average)
                    carried = so_far + devices * average * (group - 1) / group
                    state = (key & ~bits) | ((d + 2) << (BITS * i))
                    if settles:
                        state = settled(b, count, state)
                    states = reach(
                        b, count, keys, paths, ports, size, states, state, took, carried, best
                    )


@compiled
def plain(
    b: Ints,
    count: int,
    group_of: NDArray[np.int32],
    points: Floats,
    shape: Ints,
    width: float,
    devices: int,
) -> tuple[float, float]:
    """The plain way: add up all terms, gather all parts, take the part that is needed. Nothing found is worse."""
    span, terms = 0, 1
    for i in range(count):
        if b[SOURCE, i] == PARTIAL and b[TARGET, i] != PARTIAL:
            span |= b[SPAN, i]
            terms *= b[WAYS, i]
    whole, held = width, width
    for d in range(shape.size):
        ways = 1
        for i in range(count):
            if b[SOURCE, i] == d:
                ways *= b[WAYS, i]
        whole *= shape[d]
        held *= -(-shape[d] // ways)
    seconds = collective(group_of, points, REDUCE, span, held) if span else 0.0
    moved = devices * held * 2.0 * (terms - 1) / terms
    for d in range(shape.size):
        span, ways = 0, 1
        for i in range(count):
            if b[SOURCE, i] == d:
                span |= b[SPAN, i]
                ways *= b[WAYS, i]
        if span:
            before = held
            held = held // -(-shape[d] // ways) * shape[d]
            passed = (held - held // shape[d] * (shape[d] // ways)) * ways / (ways - 1)
            seconds += collective(group_of, points, GATHER, span, passed)
            moved += devices * (held - before)
    return seconds, moved


@compiled
def reach(
    b: Ints,
    count: int,
    keys: Ints,
    paths: Floats,
    ports: Floats,
    size: float,
    states: int,
    key: int,
    spent: float,
    moved: float,
    best: float,
) -> int:
    """Note that a state can be reached so; how many states are known."""
    if spent >= best:
        return states
    for i in range(states):
        if keys[i] == key:
            if spent < paths[i, SPENT]:
                paths[i, LEAST] += spent - paths[i, SPENT]
                paths[i, SPENT], paths[i, MOVED], paths[i, DONE] = spent, moved, 0
            return states
    least = spent + remaining(b, count, ports, size, key)
    if least < best and states < MOST_STATES:
        keys[states] = key
        paths[states, SPENT], paths[states, LEAST] = spent, least
        paths[states, MOVED], paths[states, DONE] = moved, 0
        return states + 1
    return states


@compiled
def remaining(b: Ints, count: int, ports: Floats, size: float, key: int) -> float:
    """No more than what is still to come: what the ports of a member of some level have to let in.

    A member needs its part of the target, of which it has what cuts that the target does not share leave it. Of a sum
    over so many members each gets at least all terms of its part. What is fetched comes to every device by itself.
    """
    fetches = key & FETCH != 0
    broken = 0
    goal, cut, away, terms = 1.0, 1.0, 1.0, 1.0
    before_away, before_terms, most = 1.0, 1.0, 0.0
    if fetches:
        for i in range(count):
            if b[TARGET, i] >= 0:
                goal *= b[WAYS, i]
    for i in range(count):
        own, then, ways = ((key >> (BITS * i)) & ALL) - 2, b[TARGET, i], b[WAYS, i]
        if own != then:
            if own >= 0:
                away *= ways
                broken |= 1 << own
            elif own == PARTIAL:
                terms *= ways
                if then == REPLICATED:
                    away *= ways
            if then >= 0:
                broken |= 1 << then
        elif own >= 0 and (broken >> own) & 1:
            away *= ways
        if then >= 0 and not fetches:
            goal *= ways
        if own >= 0 or (own == REPLICATED and then >= 0):
            cut *= ways
        level = b[LEVEL, i]
        if i + 1 == count or b[LEVEL, i + 1] != level:
            took = 0.0
            if away > before_away:
                came = size / goal * (1 / before_away - 1 / away)
                if fetches:
                    came *= ports[level, 2]
                took += came / ports[level, 0] + ports[level, 1]
            if terms > before_terms:
                came = size / cut * (1 / before_terms - 1 / terms)
                took += came / ports[level, 0] + ports[level, 1]
            most = max(most, took)
            before_away, before_terms = away, terms
    return most


@compiled
def settled(b: Ints, count: int, key: int) -> int:
    """The state with all that is whole cut as the target wants it, where the cuts outside of it are there already."""
    broken = 0
    for i in range(count):
        own, then = ((key >> (BITS * i)) & ALL) - 2, b[TARGET, i]
        if own == REPLICATED and then >= 0 and not (broken >> then) & 1:
            inside = False
            for j in range(i + 1, count):
                inside = inside or ((key >> (BITS * j)) & ALL) - 2 == then
            if not inside:
                key += (then - own) << (BITS * i)
                own = then
        if own != then:
            if own >= 0:
                broken |= 1 << own
            if then >= 0:
                broken |= 1 << then
    return key


@compiled
def only_slices(b: Ints, count: int) -> bool:
    """Whether every device has what it needs: all of it, or its part, cut as the target's outer cuts are."""
    for i in range(count):
        then = b[TARGET, i]
        if b[NOW, i] != then:
            if b[NOW, i] != REPLICATED:
                return False
            for j in range(i + 1, count):  # an outer cut is yet to come: those inside do not nest
                if then >= 0 and b[NOW, j] == then:
                    return False
    return True


@compiled
def opens(b: Ints, count: int, shape: Ints, ways: Ints, lead: int, group: int, d: int) -> bool:
    """Whether dim `d` can be cut further by bundles from `lead` on, as its innermost cut."""
    if shape[d] < group * ways[d]:
        return False
    inside = False
    for i in range(lead, count):
        inside = inside or b[NOW, i] == d
    return not inside


@compiled
def innermost(b: Ints, count: int, i: int) -> bool:
    """Whether bundle `i` is the innermost cut of its dim."""
    inside = False
    for j in range(i + 1, count):
        inside = inside or b[NOW, j] == b[NOW, i]
    return not inside


@compiled
def stays(b: Ints, i: int, d: int) -> bool:
    """Whether the target has dim `d` cut alike down to bundle `i`: no reason to begin a gathering there, or outside of it."""
    alike = True
    for j in range(i + 1):
        alike = alike and (b[NOW, j] == d) == (b[TARGET, j] == d)
    return alike


@compiled
def longest_other(b: Ints, count: int, shape: Ints, ways: Ints, i: int) -> int:
    """Where an outer cut of its dim is in the way of bundle `i`, the longest other dim that it can cut; else -1."""
    own, longest = b[NOW, i], -1
    for j in range(i):
        if b[NOW, j] == own and (b[TARGET, j] != own or b[TARGET, i] == own):
            for d in range(shape.size):
                longer = longest < 0 or shape[d] > shape[longest]
                if d != own and longer and opens(b, count, shape, ways, i, b[WAYS, i], d):
                    longest = d
            return longest
    return -1


@compiled
def part(shape: Ints, ways: Ints, width: float, d: int, group: int) -> float:
    """The bytes of the least part, with dim `d` cut further `group` ways; other dims as in the largest."""
    least = width
    for other in range(shape.size):
        if other == d:
            least *= shape[other] // (ways[other] * group)
        else:
            least *= -(-shape[other] // ways[other])
    return least


@compiled
def collective(
    group_of: NDArray[np.int32], points: Floats, kind: int, span: int, nbytes: float
) -> float:
    """Seconds of a collective over the axes of `span`, all groups at once; bandwidths are interpolated between sizes."""
    if nbytes <= 0:
        return 0.0
    group = group_of[span]
    if points[kind, group, 0] < 0:
        return float(points[kind, group, 1] + points[kind, group, 2] * nbytes)
    low = 0
    while low + 2 < points.shape[2] and 2.0 ** (low + 1) <= nbytes:
        low += 1
    share = nbytes / 2.0**low - 1.0
    if share < 0:
        return float(points[kind, group, 0])
    rate = (1 - share) / points[kind, group, low] + 2.0 * share / points[kind, group, low + 1]
    return float(nbytes / (2.0**low * rate))
