"""The cheapest path between two shardings: A* in compiled code over the placements of bundles of
axes (TensorOpt section 4.2).

A bundle is neighbouring axes of one level that start and end alike; they move together, so a path
has few states (`states`) however many devices there are. From a state lead, with the prices of a
`Tariff`,

    sums       terms of one bundle, or of all, are put together: all-reduce, or reduce-scatter to a
               dim worth it
    gathers    of a dim the innermost cuts, however many; given pieces all at once
    slices     what is whole becomes part, or terms of which one is not zero: free
    swaps      the innermost cut of a dim goes to another one: all-to-all
    fetches    every device fetches what it lacks of the target, or of one of several `exits` on
               another mesh

What fetching takes depends on regions; that is for whoever searches to say. So `advance` looks at
states, the nearest first, until the search has ended (ENDED), until the price of a collective is
missing (PRICE; then it has to begin anew), or until a fetch is to be priced (FETCH), which `arrive`
is told. Where `leaves`, the target is on another mesh, and a path ends with a fetch to an exit,
from which on it takes what `exits` says.

What is not looked at: states beyond MOST_STATES; with more than FEW bundles, detours over other
dims. Sizes of uneven parts are those of the largest part (`DIM`), where the exact price knows each.
"""

from __future__ import annotations

import numpy as np

from graphwright.plans import transfers
from graphwright.tasks.compiled import compiled
from graphwright.tasks.resharding.states import (
    ALL,
    BITS,
    ELSEWHERE,
    FEW,
    MOST_STATES,
    PARTIAL,
    REPLICATED,
    SMALL,
    Axes,
    Codes,
    Rates,
    Record,
    Records,
    code,
    filled,
    innermost,
    longest_other,
    only_slices,
    opens,
    placed,
    price,
    remaining,
    settled,
    stays,
)

ENDED, PRICE, FETCH = range(3)

HOPS: tuple[transfers.HopKind | transfers.Send, ...] = (*transfers.TRANSFERS, transfers.Slice())
"""Kinds by their numbers in a search."""
GATHER = HOPS.index(transfers.AllGather())
SCATTER = HOPS.index(transfers.ReduceScatter())
REDUCE = HOPS.index(transfers.AllReduce())
SWAP = HOPS.index(transfers.AllToAll())
EXCHANGE = HOPS.index(transfers.Exchange())
SLICE = HOPS.index(transfers.Slice())


# -- the search ------------------------------------------------------------------------------------


@compiled
def begin(
    search: Records, rates: Rates, axes: Axes, source: Codes, target: Codes, width: float
) -> None:
    """Pose a problem: codes of both ends for every axis, and the bytes of an element."""
    s = search[0]
    bundle(s, axes, source, target)
    s.width = width
    s.size = width
    for d in range(s.rank):
        s.size *= s.dims[d].size
    s.num_states, s.last, s.kind = 0, -1, -1
    s.devices, s.summed, s.leaves, s.usable = 1, 0, 0, s.num_exits
    start = 0
    for i in range(s.num_bundles):
        b = s.bundles[i]
        s.devices *= b.ways
        s.summed |= b.source <= PARTIAL
        s.leaves |= b.target == ELSEWHERE
        if ELSEWHERE < b.target <= PARTIAL:
            s.usable = 0
        start = placed(start, i, b.source)
    s.leaves |= s.num_exits > 0 and s.num_bundles == 0
    s.wide = s.num_bundles <= FEW
    s.settles = not (s.wide or s.summed or s.leaves)
    s.best, s.moved = np.inf, 0.0
    if not s.leaves:
        plain(s, rates, start)
    reach(s, SLICE, start, -1, -1, 0.0, 0.0)
    if s.usable and not s.summed and not s.leaves:
        reach(s, EXCHANGE, start, 0, -1, 0.0, 0.0)


@compiled
def bundle(s: Record, axes: Axes, source: Codes, target: Codes) -> None:
    """Join neighbouring axes."""
    sizes, levels, ports = axes
    count = 0
    for a in range(source.size):
        alike = (
            a > 0
            and levels[a] == levels[a - 1]
            and source[a] == source[a - 1]
            and target[a] == target[a - 1]
        )
        if alike:
            s.bundles[count - 1].span |= 1 << a
            s.bundles[count - 1].ways *= sizes[a]
            continue
        b = s.bundles[count]
        b.span, b.ways, b.level = 1 << a, sizes[a], levels[a]
        b.source, b.target, b.wanted = source[a], target[a], target[a]
        if target[a] >= 0:
            b.wanted = s.dims[target[a]].dim
        b.rate, b.wait, b.members = np.inf, 0.0, 1.0
        if ports.size:
            b.rate, b.wait = ports[levels[a], 0], ports[levels[a], 1]
            b.members = ports[levels[a], 2]
        count += 1
    s.num_bundles = count


@compiled
def advance(search: Records, rates: Rates) -> int:
    """Look at states, the nearest first, until the search has ended or has to be told something."""
    s = search[0]
    while True:
        at = nearest(s)
        if at < 0:
            return ENDED
        state = s.states[at]
        if state.exit >= 0:
            s.at = at
            return FETCH
        look_at(s, state.key)
        if only_slices(s):
            s.best, s.moved, s.last = state.spent, state.moved, at
            return ENDED
        sums(s, rates, at)
        gathers(s, rates, at)
        if not s.leaves:
            slices(s, at)
            swaps(s, rates, at)
        fetches(s, at)
        if s.kind >= 0:
            return PRICE
        state.done = 1


@compiled
def arrive(search: Records, seconds: float, moved: float) -> None:
    """What the fetch that was asked for takes."""
    s = search[0]
    state = s.states[s.at]
    state.done = 1
    total = state.spent + seconds + s.exits[state.exit]
    if total < s.best:
        s.best, s.moved, s.last = total, state.moved + moved, s.at


@compiled
def nearest(s: Record) -> int:
    """The most promising state that might beat the best path; -1 for none."""
    at = -1
    lowest = s.best
    for i in range(s.num_states):
        if s.states[i].done == 0 and s.states[i].least < lowest:
            at, lowest = i, s.states[i].least
    return at


@compiled
def reach(s: Record, kind: int, raw: int, exit: int, came: int, spent: float, moved: float) -> None:
    """Note that a state, or a fetch from it, can be reached so, by a kind of transfer."""
    if not spent < s.best:
        return
    key = settled(s, raw) if s.settles and exit < 0 else raw
    for i in range(s.num_states):
        state = s.states[i]
        if state.key == key and state.exit == exit:
            if spent < state.spent:
                state.least += spent - state.spent
                state.raw, state.kind, state.came, state.done = raw, kind, came, 0
                state.spent, state.moved = spent, moved
            return
    least = spent + remaining(s, key, exit)
    if least < s.best and s.num_states < MOST_STATES:
        state = s.states[s.num_states]
        state.key, state.exit, state.raw, state.kind = key, exit, raw, kind
        state.came, state.done = came, 0
        state.spent, state.least, state.moved = spent, least, moved
        s.num_states += 1


@compiled
def look_at(s: Record, key: int) -> None:
    """Put a state's codes and sizes where the moves find them."""
    for d in range(s.rank):
        s.dims[d].ways, s.dims[d].pieced = 1, 0
    for i in range(s.num_bundles):
        b = s.bundles[i]
        b.now = code(key, i)
        if b.now >= 0:
            cut = s.dims[b.now]
            dim = s.dims[cut.dim]
            dim.ways *= b.ways
            dim.pieced, dim.largest, dim.least = cut.pieced, cut.largest, cut.least
    s.held, s.average = s.width, s.size
    for d in range(s.rank):
        dim = s.dims[d]
        if not dim.pieced:
            dim.largest = max(1, -(-dim.size // dim.ways))
            dim.least = dim.size // dim.ways
        s.held *= dim.largest
        s.average /= dim.ways


# -- moves -----------------------------------------------------------------------------------------


@compiled
def sums(s: Record, rates: Rates, at: int) -> None:
    """Terms are put together, of one bundle or, if their reducers are the same, of all."""
    first, number, same = -1, 0, True
    span, group, bits = 0, 1, 0
    for i in range(s.num_bundles):
        b = s.bundles[i]
        if b.now <= PARTIAL and b.target != b.now:
            sum_over(s, rates, at, i, b.span, b.ways, ALL << (BITS * i))
            first = i if first < 0 else first
            same = same and b.now == s.bundles[first].now
            number += 1
            span |= b.span
            group *= b.ways
            bits |= ALL << (BITS * i)
    if number > 1 and same:
        sum_over(s, rates, at, first, span, group, bits)


@compiled
def sum_over(s: Record, rates: Rates, at: int, lead: int, span: int, group: int, bits: int) -> None:
    """Put terms together along the bundles of `bits`, `lead` first: whole, or in parts along the
    dims worth it.

    Those are where the target wants it, and the longest ones, to be moved or gathered again.
    """
    state = s.states[at]
    spent = state.spent + price(s, rates, REDUCE, span, s.held)
    moved = state.moved + s.devices * s.average * 2.0 * (group - 1) / group
    reach(s, REDUCE, filled(state.key, bits, REPLICATED), -1, at, spent, moved)
    longest, second = -1, -1
    for d in range(s.rank):
        if opens(s, lead, group, d):
            if longest < 0 or s.dims[d].size > s.dims[longest].size:
                longest, second = d, longest
            elif second < 0 or s.dims[d].size > s.dims[second].size:
                second = d
    for d in range(s.rank):
        wanted = d == s.bundles[lead].wanted and opens(s, lead, group, d)
        if wanted or d == longest or (s.wide and d == second):
            dim = s.dims[d]
            part = s.held / dim.largest * (dim.size // (dim.ways * group))
            passed = (s.held - part) * group / max(1, group - 1)
            spent = state.spent + price(s, rates, SCATTER, span, passed)
            moved = state.moved + s.devices * s.average * (group - 1) / group
            reach(s, SCATTER, filled(state.key, bits, d), -1, at, spent, moved)


@compiled
def gathers(s: Record, rates: Rates, at: int) -> None:
    """Parts are gathered: of a dim the innermost cuts, however many; given pieces all at once."""
    for cut in range(s.num_codes):
        if cut >= s.rank or not s.dims[cut].pieced:
            gather(s, rates, at, cut)


@compiled
def gather(s: Record, rates: Rates, at: int, cut: int) -> None:
    """Gather the parts that the code `cut` stands for."""
    state, dim = s.states[at], s.dims[s.dims[cut].dim]
    span, group, bits = 0, 1, 0
    outermost = -1
    for i in range(s.num_bundles - 1, -1, -1):
        if s.bundles[i].now == cut:
            outermost = i
    for i in range(s.num_bundles - 1, -1, -1):
        b = s.bundles[i]
        if b.now != cut:
            continue
        span |= b.span
        group *= b.ways
        bits |= ALL << (BITS * i)
        if stays(s, i, cut):
            return
        if cut >= s.rank and i != outermost:
            continue
        parts = dim.ways // group
        whole = s.held / dim.largest * -(-dim.size // parts)
        passed = (whole - s.held / dim.largest * dim.least) * group / max(1, group - 1)
        spent = state.spent + price(s, rates, GATHER, span, passed)
        moved = state.moved + s.devices * s.average * (group - 1)
        reach(s, GATHER, filled(state.key, bits, REPLICATED), -1, at, spent, moved)


@compiled
def slices(s: Record, at: int) -> None:
    """What is whole is sliced, or becomes terms of which one is not zero."""
    state = s.states[at]
    for i in range(s.num_bundles):
        b = s.bundles[i]
        if b.now == REPLICATED:
            terms = b.target <= PARTIAL
            if terms or (b.wanted >= 0 and opens(s, i, b.ways, b.wanted)):
                reach(s, SLICE, placed(state.key, i, b.wanted), -1, at, state.spent, state.moved)


@compiled
def swaps(s: Record, rates: Rates, at: int) -> None:
    """The innermost cut of a dim moves to the target's dim, or makes way for others."""
    state = s.states[at]
    for i in range(s.num_bundles):
        b = s.bundles[i]
        if not 0 <= b.now < s.rank or not innermost(s, i):
            continue
        detour = longest_other(s, i) if s.wide else -1
        for d in range(s.rank):
            wanted = d == b.wanted and d != b.now and opens(s, i, b.ways, d)
            if wanted or d == detour:
                spent = state.spent + price(s, rates, SWAP, b.span, s.average)
                moved = state.moved + s.devices * s.average * (b.ways - 1) / b.ways
                reach(s, SWAP, placed(state.key, i, d), -1, at, spent, moved)


@compiled
def fetches(s: Record, at: int) -> None:
    """What is missing is fetched: where nothing is left to sum, and not from everywhere, as it is
    the costly question.

    On one mesh from where terms have been summed, or where just the pieces are not yet the
    target's.
    """
    state = s.states[at]
    spreads = s.wide and s.devices <= SMALL
    summed, arrives = s.summed != 0, True
    for i in range(s.num_bundles):
        b = s.bundles[i]
        if b.now <= PARTIAL:
            return
        if b.source <= PARTIAL:
            summed = summed and (b.now == REPLICATED or spreads)
        else:
            summed = summed and b.now == b.source
        arrives = arrives and b.wanted == (s.dims[b.now].dim if b.now >= 0 else b.now)
    if summed or arrives or s.leaves:
        for exit in range(s.usable):
            reach(s, EXCHANGE, state.key, exit, at, state.spent, state.moved)


@compiled
def plain(s: Record, rates: Rates, start: int) -> None:
    """The plain way as the best so far: sum all terms, gather all parts, take what is needed."""
    look_at(s, start)
    span, terms = 0, 1
    for i in range(s.num_bundles):
        b = s.bundles[i]
        if b.now <= PARTIAL and b.target != b.now:
            span |= b.span
            terms *= b.ways
    seconds = price(s, rates, REDUCE, span, s.held) if span else 0.0
    moved = s.devices * s.held * 2.0 * (terms - 1) / terms
    held = s.held
    for d in range(s.rank):
        dim = s.dims[d]
        span = 0
        for i in range(s.num_bundles):
            b = s.bundles[i]
            if b.now >= 0 and s.dims[b.now].dim == d:
                span |= b.span
        if span:
            other = held / dim.largest
            before, held = held, other * dim.size
            passed = (held - other * dim.least) * dim.ways / max(1, dim.ways - 1)
            seconds += price(s, rates, GATHER, span, passed)
            moved += s.devices * (held - before)
    s.best, s.moved = seconds, moved
