"""Choose entries of rows of a compressed matrix, compiled: what `sample_neighbors` does on a CPU.

For each row the candidates are its entries with a positive weight that are not excluded:

    all of them                  where `fanout` is negative, or as large as their number
    with replacement             `fanout` draws, each by weight
    without, and no weights      Floyd's algorithm for few draws; one pass over the row for many
    without, by weight           the largest keys log(u) / weight (Efraimidis and Spirakis 2006):
                                 one draw after another, each by weight among those left
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.gnn.sampling.generator import advance, stream, uniform
from graphwright.tasks import compiled, inlined


def choose_entries(
    indptr: Any, edge_ids: Any, rows: Any, fanout: int, replace: bool, weights: Any, excluded: Any,
    seed: np.uint64,
) -> Any:  # fmt: skip
    """Entries chosen in some rows, one row after another, and how many of each row.

    `weights` (by edge) and `excluded` (edges in ascending order) may be empty arrays. None says
    that an entry of a row has a weight which is negative or not finite.
    """
    counts = np.zeros(len(rows), np.int64)
    _count(indptr, edge_ids, rows, fanout, replace, weights, excluded, counts)
    if len(counts) and counts.min() < 0:
        return None
    chosen = np.empty(int(counts.sum()), np.int64)
    _choose(indptr, edge_ids, rows, replace, weights, excluded, seed, counts, chosen)
    return chosen, counts


@inlined
def _is_excluded(excluded: Any, edge: Any) -> Any:
    low, high = 0, len(excluded)
    while low < high:
        middle = (low + high) // 2
        if excluded[middle] < edge:
            low = middle + 1
        else:
            high = middle
    return low < len(excluded) and excluded[low] == edge


@inlined
def _may_take(edge_ids: Any, weights: Any, excluded: Any, entry: Any) -> Any:
    edge = edge_ids[entry] if len(edge_ids) else entry
    if len(weights) and not weights[edge] > 0:
        return False
    return not (len(excluded) and _is_excluded(excluded, edge))


@compiled
def _count(
    indptr: Any, edge_ids: Any, rows: Any, fanout: Any, replace: Any, weights: Any, excluded: Any,
    counts: Any,
) -> None:  # fmt: skip
    plain = len(weights) == 0 and len(excluded) == 0
    for at in range(len(rows)):
        start, stop = indptr[rows[at]], indptr[rows[at] + 1]
        most = stop - start
        if not plain:
            most = 0
            for entry in range(start, stop):
                if len(weights):
                    weight = weights[edge_ids[entry] if len(edge_ids) else entry]
                    if not 0 <= weight < np.inf:
                        counts[at] = -1
                        return
                if _may_take(edge_ids, weights, excluded, entry):
                    most += 1
        if fanout < 0 or (most < fanout and not replace) or most == 0:
            counts[at] = most
        else:
            counts[at] = fanout


@compiled
def _choose(
    indptr: Any, edge_ids: Any, rows: Any, replace: Any, weights: Any, excluded: Any, seed: Any,
    counts: Any, chosen: Any,
) -> None:  # fmt: skip
    plain = len(weights) == 0 and len(excluded) == 0
    longest = 0
    for at in range(len(rows)):
        longest = max(longest, indptr[rows[at] + 1] - indptr[rows[at]])
    taken = np.empty(0 if plain else longest, np.int64)
    keys = np.empty(longest if len(weights) else 0, np.float64)
    end = 0
    for at in range(len(rows)):
        begin, end = end, end + counts[at]
        if begin == end:
            continue
        start = indptr[rows[at]]
        most = indptr[rows[at] + 1] - start
        if not plain:
            first, most = start, 0
            for entry in range(first, indptr[rows[at] + 1]):
                if _may_take(edge_ids, weights, excluded, entry):
                    taken[most] = entry
                    most += 1
        out = chosen[begin:end]
        state = stream(seed, at)
        if most == end - begin and not replace:
            for place in range(most):
                out[place] = place
        elif len(weights) == 0:
            _choose_evenly(out, most, replace, state)
        else:
            for place in range(most):
                edge = edge_ids[taken[place]] if len(edge_ids) else taken[place]
                keys[place] = weights[edge]
            _choose_by_weight(out, keys[:most], replace, state)
        for place in range(len(out)):
            out[place] = start + out[place] if plain else taken[out[place]]


@inlined
def _choose_evenly(out: Any, most: Any, replace: Any, state: Any) -> None:
    count = len(out)
    if replace:
        for place in range(count):
            state = advance(state)
            out[place] = np.int64(uniform(state) * most)
    elif count <= 32:
        for place in range(count):
            state = advance(state)
            top = most - count + place
            pick = np.int64(uniform(state) * (top + 1))
            for earlier in range(place):
                if out[earlier] == pick:
                    pick = top
                    break
            out[place] = pick
    else:
        place = 0
        for candidate in range(most):
            state = advance(state)
            if uniform(state) * (most - candidate) < count - place:
                out[place] = candidate
                place += 1
                if place == count:
                    break


@inlined
def _choose_by_weight(out: Any, keys: Any, replace: Any, state: Any) -> None:
    if replace:
        for place in range(1, len(keys)):
            keys[place] += keys[place - 1]
        for place in range(len(out)):
            state = advance(state)
            found = np.searchsorted(keys, uniform(state) * keys[-1], "right")
            out[place] = min(found, len(keys) - 1)
    else:
        for place in range(len(keys)):
            state = advance(state)
            keys[place] = -np.log(1.0 - uniform(state)) / keys[place]
        order = np.argsort(keys)
        for place in range(len(out)):
            out[place] = order[place]
