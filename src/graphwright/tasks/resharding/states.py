"""States of a search between shardings, in one record that compiled code reads and writes; `paths`
moves between them.

A placement of a bundle of axes is a code:

    -4 ... -2      terms, by their reducer            -1   replicated
    0 ... rank-1   split along that dim, evenly       rank ...   split in given pieces: see `DIM`

and a state is a whole number of four bits for every bundle: its code + 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from graphwright.plans import Pieces
from graphwright.tasks.compiled import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Codes = NDArray[np.int8]
Record: TypeAlias = Any
Records: TypeAlias = Any

LEAST, PARTIAL, REPLICATED = -4, -2, -1
"""The least code; the first of those for terms, which go down from here; whole."""
ELSEWHERE = -5
"""As a target: on another mesh."""
BITS, MOST_BUNDLES = 4, 16
ALL = (1 << BITS) - 1
ONES = sum(1 << (BITS * i) for i in range(MOST_BUNDLES))
MOST_EXITS = 256
MOST_STATES = 512
"""A search that has seen so many states goes on with those."""
FEW = 3
"""With so few bundles, as plans that people and searches arrive at have, detours over other dims
are looked at too.
"""
SMALL = 256
"""On more devices, what fetching takes is asked from fewer states."""

BUNDLE = np.dtype(
    [(name, np.int64) for name in ("span", "ways", "level", "source", "target", "wanted", "now")]
    + [(name, np.float64) for name in ("rate", "wait", "members")]
)
"""Its axes as bits, their devices, their level; its codes at both ends and in the state looked at;
`wanted`: the target's dim.

Of a member of the level: the bytes/s that it can receive, the least latency, and its devices.
"""
DIM = np.dtype([(name, np.int64) for name in ("dim", "size", "ways", "largest", "least", "pieced")])
"""By its code, a dim in the state looked at: in how many parts it is, the sizes of the largest and
the least, whether they were given.

Behind the dims, given pieces: of which `dim` they are, and their sizes.
"""
STATE = np.dtype(
    [(name, np.int64) for name in ("key", "exit", "raw", "kind", "came", "done")]
    + [(name, np.float64) for name in ("spent", "least", "moved")]
)
"""A state, or (`exit` >= 0) a fetch from it; `raw`: before free slices; the `kind` of transfer that
leads to it, and the state that it came from, or -1; whether it was looked at.

Seconds so far, no more than those of a path through it, bytes so far.
"""


class Axes(NamedTuple):
    """Axes of a mesh: the devices along each, and its level.

    `ports` are for every level the bytes/s that one member can receive, the least latency, and its
    devices: a bound for what is still to come, none where it is empty.
    """

    sizes: Ints
    levels: Ints
    ports: Floats


class Rates(NamedTuple):
    """What collectives take: the arrays of a Tariff."""

    group_of: NDArray[np.int32]
    points: Floats


_COUNTS = (
    "rank", "num_codes", "num_bundles", "devices", "wide", "settles", "leaves", "summed",
    "num_exits", "usable", "num_states", "last", "at", "kind", "span",
)  # fmt: skip
SEARCH = np.dtype(
    [(name, np.int64) for name in _COUNTS]
    + [(name, np.float64) for name in ("width", "size", "best", "moved", "held", "average")]
    + [
        ("bundles", BUNDLE, MOST_BUNDLES),
        ("dims", DIM, 1 << BITS),
        ("states", STATE, MOST_STATES),
        ("exits", np.float64, MOST_EXITS),
    ]
)
"""A problem and how far its search is, in one record: compiled code counts references to arrays,
and none to a record.

Of the problem: numbers of dims, codes, bundles and devices, whether there are few bundles, whether
free slices are made at once, whether it leaves the mesh, whether there are terms to sum at first,
how many exits there are, how many may be fetched to, and the seconds from each on; bytes of an
element and of all.

Of the search: the number of states, seconds and bytes of the best path and its last state (-1 for
the plain way), the fetch to be priced, the price that is missing (kind -1 for none). Of the state
looked at: bytes of its largest part, and on average.
"""


def new_search(
    shape: tuple[int, ...], pieced: Sequence[tuple[int, Pieces]], exits: Floats
) -> Records:
    """Room for a search, an array of one SEARCH; `begin` begins it."""
    search = np.zeros(1, SEARCH)
    s, rank = search[0], len(shape)
    for code, size in enumerate(shape):
        s["dims"][code] = (code, size, 1, size, size, 0)
    for code, (dim, pieces) in enumerate(pieced, start=rank):
        sizes = [stop - start for start, stop in pieces]
        s["dims"][code] = (dim, shape[dim], len(sizes), max(1, *sizes), min(sizes), 1)
    s["rank"], s["num_codes"], s["num_exits"] = rank, rank + len(pieced), len(exits)
    s["exits"][: len(exits)] = exits
    return search


# -- states ----------------------------------------------------------------------------------------


@compiled
def code(key: int, i: int) -> int:
    """The code of bundle `i` in a state."""
    return ((key >> (BITS * i)) & ALL) + LEAST


@compiled
def placed(key: int, i: int, placement: int) -> int:
    """The state with another code for bundle `i`."""
    return (key & ~(ALL << (BITS * i))) | ((placement - LEAST) << (BITS * i))


@compiled
def filled(key: int, bits: int, placement: int) -> int:
    """The state with one code for all bundles of `bits`."""
    return (key & ~bits) | ((placement - LEAST) * ONES & bits)


@compiled
def settled(s: Record, key: int) -> int:
    """The state with all that is whole cut as the target wants it, where the cuts outside of it are
    there already and the dim is not cut into given pieces.
    """
    count, rank = s.num_bundles, s.rank
    broken = 0
    for i in range(count):
        if code(key, i) >= rank:
            broken |= 1 << s.dims[code(key, i)].dim
    for i in range(count):
        own, then = code(key, i), s.bundles[i].target
        if own == REPLICATED and 0 <= then < rank and not (broken >> then) & 1:
            inside = False
            for j in range(i + 1, count):
                inside = inside or code(key, j) == then
            if not inside:
                key = placed(key, i, then)
                own = then
        if own != then:
            if own >= 0:
                broken |= 1 << own
            if then >= 0:
                broken |= 1 << then
    return key


@compiled
def only_slices(s: Record) -> bool:
    """Whether every device has what it needs, so that slices alone are left."""
    count, rank = s.num_bundles, s.rank
    if s.leaves:
        return False
    for i in range(count):
        then = s.bundles[i].target
        if s.bundles[i].now != then:
            if s.bundles[i].now != REPLICATED:
                return False
            # An outer cut is yet to come: those inside do not nest; given pieces come all at once.
            for j in range(0 if then >= rank else i + 1, count):
                if then >= 0 and s.bundles[j].now == then:
                    return False
    return True


@compiled
def opens(s: Record, lead: int, group: int, d: int) -> bool:
    """Whether bundles from `lead` on can be the innermost cut of dim `d`, no part empty."""
    dim = s.dims[d]
    if dim.size < group * dim.ways or dim.pieced:
        return False
    inside = False
    for i in range(lead, s.num_bundles):
        inside = inside or s.bundles[i].now == d
    return not inside


@compiled
def innermost(s: Record, i: int) -> bool:
    """Whether bundle `i` is the innermost cut of its dim."""
    inside = False
    for j in range(i + 1, s.num_bundles):
        inside = inside or s.bundles[j].now == s.bundles[i].now
    return not inside


@compiled
def stays(s: Record, i: int, cut: int) -> bool:
    """Whether the target has the cuts down to bundle `i`, so that none is gathered."""
    alike: bool = cut < s.rank
    for j in range(i + 1):
        alike = alike and (s.bundles[j].now == cut) == (s.bundles[j].target == cut)
    return alike


@compiled
def longest_other(s: Record, i: int) -> int:
    """The longest other dim for bundle `i` if an outer cut is in its way; else -1."""
    own, longest = s.bundles[i].now, -1
    for j in range(i):
        b = s.bundles[j]
        if b.now == own and (b.wanted != own or s.bundles[i].wanted == own):
            for d in range(s.rank):
                longer = longest < 0 or s.dims[d].size > s.dims[longest].size
                if d != own and longer and opens(s, i, s.bundles[i].ways, d):
                    longest = d
            return longest
    return -1


# -- seconds ---------------------------------------------------------------------------------------


@compiled
def price(s: Record, rates: Rates, kind: int, span: int, nbytes: float) -> float:
    """Seconds of a collective over the axes of `span`, all groups at once; bandwidths are
    interpolated between sizes.

    Where the price is not known, it is noted that it is missing.
    """
    if nbytes <= 0:
        return 0.0
    points = rates.points[kind, rates.group_of[span]]
    if np.isnan(points[0]):
        s.kind, s.span = kind, span
        return np.inf
    if points[0] < 0:
        return float(points[1] + points[2] * nbytes)
    low = 0
    while low + 2 < points.size and 2.0 ** (low + 1) <= nbytes:
        low += 1
    share = nbytes / 2.0**low - 1.0
    if share < 0:
        return float(points[0])
    rate = (1 - share) / points[low] + 2.0 * share / points[low + 1]
    return float(nbytes / (2.0**low * rate))


@compiled
def remaining(s: Record, key: int, exit: int) -> float:
    """No more than what is still to come: what the ports of a member of some level have to let in.

    A member needs its part of the target, of which it has what cuts that the target does not share
    leave it. Of a sum over so many members each gets at least all terms of its part. What is
    fetched comes to every device by itself.
    """
    if s.leaves:
        return float(s.exits[exit]) if exit >= 0 else 0.0
    broken = 0
    goal, cut, away, terms = 1.0, 1.0, 1.0, 1.0
    before_away, before_terms, most = 1.0, 1.0, 0.0
    if exit >= 0:
        for i in range(s.num_bundles):
            if s.bundles[i].target >= 0:
                goal *= s.bundles[i].ways
    for i in range(s.num_bundles):
        b = s.bundles[i]
        own, then = code(key, i), b.target
        if own != then:
            if own >= 0:
                away *= b.ways
                broken |= 1 << own
            elif own <= PARTIAL:
                terms *= b.ways
                if then == REPLICATED:
                    away *= b.ways
            if then >= 0:
                broken |= 1 << then
        elif own >= 0 and (broken >> own) & 1:
            away *= b.ways
        if then >= 0 and exit < 0:
            goal *= b.ways
        if own >= 0 or (own == REPLICATED and then >= 0):
            cut *= b.ways
        if i + 1 == s.num_bundles or s.bundles[i + 1].level != b.level:
            took = 0.0
            if away > before_away:
                came = s.size / goal * (1 / before_away - 1 / away)
                if exit >= 0:
                    came *= b.members
                took += came / b.rate + b.wait
            if terms > before_terms:
                came = s.size / cut * (1 / before_terms - 1 / terms)
                took += came / b.rate + b.wait
            most = max(most, took)
            before_away, before_terms = away, terms
    return most
