"""The loops behind message passing on a CPU, compiled: no message is ever stored.

Each walks rows `start` to `stop` of a compressed form: row v has the entries from indptr[v] to
indptr[v + 1], entry p is edge edges[p] (p itself where `edges` is empty) and leads to node
indices[p]. An operand belongs to that other node (0), to the row (1) or to the edge (2): its `end`.
Features are flat, with `wide` numbers for each. The iteration space of one edge is groups x run
(`kernels.broadcast`):

    out[o_at[g] + k * o_step] += a[a_at[g] + k] * b[b_at[g] + k * b_step]    in the rows of each

Steps are 0 or 1. With `o_step` 0 a run is summed up: that is u_dot_v, and the gradient of an
operand that was broadcast. Rows are disjoint between threads, so results do not depend on their
number. Runs are short (16 numbers for each head of attention), so the common operators go eight
numbers at a time (`cpu.lanes`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.gnn.kernels.cpu.lanes import (
    copy8,
    difference8,
    dot8,
    least8,
    less8,
    more8,
    most8,
    prefetch,
    product8,
    quotient8,
    scale8,
    sum8,
    times8,
)
from graphwright.tasks import reassociated, reassociated_inline, unowned

COPY, ADD, SUB, MUL, DIV, RSUB, RDIV = range(7)
"""RSUB and RDIV are b - a and b / a: the step of `a` is always 1."""
OTHER, ROW, EDGE = range(3)
U = np.uint64
AHEAD = np.uint64(6)
"""How many entries ahead rows are fetched."""


@reassociated_inline
def _pick(end: Any, other: Any, row: Any, edge: Any) -> Any:
    if end == 0:
        return other
    return row if end == 1 else edge


@reassociated_inline
def _value(op: Any, x: Any, y: Any) -> Any:
    if op == 1:
        return x + y
    if op == 2:
        return x - y
    if op == 3:
        return x * y
    if op == 4:
        return x / y
    if op == 5:
        return y - x
    return y / x if op == 6 else x


@reassociated_inline
def _fetch(a: Any, row: Any, wide: Any) -> None:
    for k in range(U(0), min(wide, U(128)), U(16)):
        prefetch(a, row * wide + k)


@reassociated_inline
def _copy(out: Any, o: Any, a: Any, i: Any, run: Any) -> None:
    end = run - run % U(8)
    for k in range(U(0), end, U(8)):
        copy8(out, o + k, a, i + k)
    for k in range(end, run):
        out[o + k] += a[i + k]


@reassociated_inline
def _scale(out: Any, o: Any, a: Any, i: Any, y: Any, run: Any) -> None:
    end = run - run % U(8)
    for k in range(U(0), end, U(8)):
        scale8(out, o + k, a, i + k, y)
    for k in range(end, run):
        out[o + k] += a[i + k] * y


@reassociated_inline
def _times(out: Any, o: Any, a: Any, i: Any, b: Any, j: Any, run: Any) -> None:
    end = run - run % U(8)
    for k in range(U(0), end, U(8)):
        times8(out, o + k, a, i + k, b, j + k)
    for k in range(end, run):
        out[o + k] += a[i + k] * b[j + k]


@reassociated_inline
def _dot(a: Any, i: Any, b: Any, j: Any, run: Any) -> Any:
    total = a[i] - a[i]
    if run >= U(64):
        for k in range(run):
            total += a[i + k] * b[j + k]
        return total
    end = run - run % U(8)
    for k in range(U(0), end, U(8)):
        total += dot8(a, i + k, b, j + k)
    for k in range(end, run):
        total += a[i + k] * b[j + k]
    return total


@reassociated_inline
def _fill(op: Any, into: Any, a: Any, i: Any, b: Any, j: Any, b_step: Any, run: Any) -> None:
    """The messages of one run; operators are told apart outside of the loops."""
    if op == 0:
        for k in range(run):
            into[k] = a[i + k]
    elif b_step == 0:
        y = b[j]
        if op == 1:
            for k in range(run):
                into[k] = a[i + k] + y
        elif op == 2:
            for k in range(run):
                into[k] = a[i + k] - y
        elif op == 3:
            for k in range(run):
                into[k] = a[i + k] * y
        elif op == 4:
            for k in range(run):
                into[k] = a[i + k] / y
        elif op == 5:
            for k in range(run):
                into[k] = y - a[i + k]
        else:
            for k in range(run):
                into[k] = y / a[i + k]
    elif op == 1:
        for k in range(run):
            into[k] = a[i + k] + b[j + k]
    elif op == 2:
        for k in range(run):
            into[k] = a[i + k] - b[j + k]
    elif op == 3:
        for k in range(run):
            into[k] = a[i + k] * b[j + k]
    else:
        for k in range(run):
            into[k] = _value(op, a[i + k], b[j + k])


@reassociated_inline
def _reduced(op: Any, a: Any, i: Any, b: Any, j: Any, b_step: Any, run: Any) -> Any:
    """The sum of one run."""
    if op == 3 and b_step == 1:
        return _dot(a, i, b, j, run)
    total = a[i] - a[i]
    if op == 0:
        for k in range(run):
            total += a[i + k]
    else:
        for k in range(run):
            total += _value(op, a[i + k], b[j + k * b_step])
    return total


@reassociated
def sum_rows(
    start: Any, stop: Any, indptr: Any, indices: Any, edges: Any, op: Any, run: Any,
    a: Any, a_wide: Any, a_end: Any, a_at: Any, b: Any, b_wide: Any, b_end: Any, b_at: Any,
    b_step: Any, out: Any, o_wide: Any, out_end: Any, o_at: Any, o_step: Any,
) -> None:  # fmt: skip
    """Sum over edges into rows or, with `out_end` EDGE, one result for each edge."""
    indptr, indices, edges = unowned(indptr), unowned(indices), unowned(edges)
    a, b, out = unowned(a), unowned(b), unowned(out)
    a_at, b_at, o_at = unowned(a_at), unowned(b_at), unowned(o_at)
    numbered, groups, num_entries = len(edges) > 0, U(len(o_at)), U(len(indices))
    buffer = np.empty(run, out.dtype)
    for row in range(start, stop):
        for p in range(U(indptr[row]), U(indptr[row + U(1)])):
            edge = U(edges[p]) if numbered else p
            other = U(indices[p])
            ahead = p + AHEAD
            if ahead < num_entries:
                next_edge, next_other = U(edges[ahead]) if numbered else ahead, U(indices[ahead])
                if a_end != 1:
                    _fetch(a, _pick(a_end, next_other, row, next_edge), a_wide)
                if op != 0 and b_end != 1:
                    _fetch(b, _pick(b_end, next_other, row, next_edge), b_wide)
                if out_end == 2:
                    _fetch(out, next_edge, o_wide)
            ra = _pick(a_end, other, row, edge) * a_wide
            rb = _pick(b_end, other, row, edge) * b_wide
            ro = _pick(out_end, other, row, edge) * o_wide
            if o_step == 0:
                for g in range(groups):
                    i, j = ra + a_at[g], rb + b_at[g]
                    out[ro + o_at[g]] += _reduced(op, a, i, b, j, b_step, run)
            elif op == 0:
                for g in range(groups):
                    _copy(out, ro + o_at[g], a, ra + a_at[g], run)
            elif op == 3 and b_step == 0:
                for g in range(groups):
                    _scale(out, ro + o_at[g], a, ra + a_at[g], b[rb + b_at[g]], run)
            elif op == 3:
                for g in range(groups):
                    _times(out, ro + o_at[g], a, ra + a_at[g], b, rb + b_at[g], run)
            else:
                for g in range(groups):
                    o, i, j = ro + o_at[g], ra + a_at[g], rb + b_at[g]
                    _fill(op, buffer, a, i, b, j, b_step, run)
                    _copy(out, o, buffer, U(0), run)


@reassociated_inline
def _compare(
    out: Any, o: Any, chosen: Any, x: Any, i: Any, run: Any, number: Any, is_first: Any, least: Any
) -> None:
    """The messages of an entry take the place of those that they beat."""
    if is_first:
        for k in range(run):
            out[o + k] = x[i + k]
            chosen[o + k] = number
        return
    end = run - run % U(8)
    if least:
        for k in range(U(0), end, U(8)):
            less8(out, o + k, chosen, x, i + k, number)
    else:
        for k in range(U(0), end, U(8)):
            more8(out, o + k, chosen, x, i + k, number)
    for k in range(end, run):
        value, old = x[i + k], out[o + k]
        if value != value or (value < old if least else value > old):
            out[o + k], chosen[o + k] = value, number


@reassociated_inline
def _keep(out: Any, o: Any, x: Any, i: Any, run: Any, is_first: Any, least: Any) -> None:
    """The same where nobody asks for the entries."""
    if is_first:
        for k in range(run):
            out[o + k] = x[i + k]
        return
    end = run - run % U(8)
    if least:
        for k in range(U(0), end, U(8)):
            least8(out, o + k, x, i + k)
    else:
        for k in range(U(0), end, U(8)):
            most8(out, o + k, x, i + k)
    for k in range(end, run):
        value, old = x[i + k], out[o + k]
        if value != value or (value < old if least else value > old):
            out[o + k] = value


@reassociated
def extreme_rows(
    start: Any, stop: Any, indptr: Any, indices: Any, edges: Any, op: Any, run: Any,
    a: Any, a_wide: Any, a_end: Any, a_at: Any, b: Any, b_wide: Any, b_end: Any, b_at: Any,
    b_step: Any, out: Any, o_wide: Any, least: Any, o_at: Any, o_step: Any, chosen: Any,
) -> None:  # fmt: skip
    """The largest (or `least`) message of each row, and the edge that it came from.

    `out` and `chosen` begin with zeros and -1, which is what rows without edges keep; an empty
    `chosen` is not filled. Of equal messages the first counts; one that is not a number wins.
    """
    indptr, indices, edges = unowned(indptr), unowned(indices), unowned(edges)
    a, b, out, chosen = unowned(a), unowned(b), unowned(out), unowned(chosen)
    a_at, b_at, o_at = unowned(a_at), unowned(b_at), unowned(o_at)
    numbered, groups, num_entries = len(edges) > 0, U(len(o_at)), U(len(indices))
    buffer, is_asked = np.empty(run, out.dtype), len(chosen) > 0
    for row in range(start, stop):
        first = U(indptr[row])
        for p in range(first, U(indptr[row + U(1)])):
            edge = U(edges[p]) if numbered else p
            other = U(indices[p])
            ahead = p + AHEAD
            if ahead < num_entries:
                next_edge, next_other = U(edges[ahead]) if numbered else ahead, U(indices[ahead])
                if a_end != 1:
                    _fetch(a, _pick(a_end, next_other, row, next_edge), a_wide)
                if op != 0 and b_end != 1:
                    _fetch(b, _pick(b_end, next_other, row, next_edge), b_wide)
            ra = _pick(a_end, other, row, edge) * a_wide
            rb = _pick(b_end, other, row, edge) * b_wide
            ro, number = row * o_wide, chosen.dtype.type(edge)
            for g in range(groups):
                o, i, j = ro + o_at[g], ra + a_at[g], rb + b_at[g]
                if o_step == 0:
                    x = _reduced(op, a, i, b, j, b_step, run)
                    old = out[o]
                    if p == first or x != x or (x < old if least else x > old):
                        out[o] = x
                        if is_asked:
                            chosen[o] = number
                    continue
                if op != 0:
                    _fill(op, buffer, a, i, b, j, b_step, run)
                if is_asked and op == 0:
                    _compare(out, o, chosen, a, i, run, number, p == first, least)
                elif is_asked:
                    _compare(out, o, chosen, buffer, U(0), run, number, p == first, least)
                elif op == 0:
                    _keep(out, o, a, i, run, p == first, least)
                else:
                    _keep(out, o, buffer, U(0), run, p == first, least)


@reassociated
def route_rows(
    start: Any, stop: Any, by_rows: Any, rows: Any, src: Any, chosen: Any, grad: Any, o_wide: Any,
    o_at: Any, o_step: Any, run: Any, to: Any, to_wide: Any, to_end: Any, to_at: Any, to_step: Any,
    scaled: Any, factor: Any, f_wide: Any, f_end: Any, f_at: Any, f_step: Any,
) -> None:  # fmt: skip
    """Add the gradient of each element to the element that was chosen, times a factor if scaled.

    Of all rows, those from start to stop; or of every run of numbers, these places.
    """
    src, chosen, grad = unowned(src), unowned(chosen), unowned(grad)
    to, factor = unowned(to), unowned(factor)
    o_at, to_at, f_at = unowned(o_at), unowned(to_at), unowned(f_at)
    first_row, last_row = (start, stop) if by_rows else (U(0), rows)
    first, last = (U(0), run) if by_rows else (start, stop)
    places = np.empty(run, np.uint64)  # found before they are used: all are random reads
    for row in range(first_row, last_row):
        for g in range(U(len(o_at))):
            begin = row * o_wide + o_at[g]
            for k in range(first, last):
                number = chosen[begin + k * o_step]
                edge = U(max(number, 0))
                other = U(src[edge])
                places[k] = _pick(to_end, other, row, edge) * to_wide + to_at[g] + k * to_step
                prefetch(to, places[k])
            for k in range(first, last):
                o = begin + k * o_step
                if chosen[o] < 0:
                    continue
                value = grad[o]
                if scaled:
                    edge = U(chosen[o])
                    place = _pick(f_end, U(src[edge]), row, edge) * f_wide
                    value *= factor[place + f_at[g] + k * f_step]
                to[places[k]] += value


@reassociated
def edge_rows(
    start: Any, stop: Any, src: Any, dst: Any, op: Any, wide: Any,
    a: Any, a_end: Any, b: Any, b_end: Any, out: Any,
) -> None:  # fmt: skip
    """The messages of edges start to stop, of short rows of one width, in the order of edges."""
    src, dst, a, b, out = unowned(src), unowned(dst), unowned(a), unowned(b), unowned(out)
    end = wide - wide % U(8)
    for edge in range(start, stop):
        i = _pick(a_end, U(src[edge]), U(dst[edge]), edge) * wide
        j = _pick(b_end, U(src[edge]), U(dst[edge]), edge) * wide
        o = edge * wide
        if op == 1:
            for k in range(U(0), end, U(8)):
                sum8(out, o + k, a, i + k, b, j + k)
        elif op == 2:
            for k in range(U(0), end, U(8)):
                difference8(out, o + k, a, i + k, b, j + k)
        elif op == 3:
            for k in range(U(0), end, U(8)):
                product8(out, o + k, a, i + k, b, j + k)
        else:
            for k in range(U(0), end, U(8)):
                quotient8(out, o + k, a, i + k, b, j + k)
        for k in range(end, wide):
            out[o + k] = _value(op, a[i + k], b[j + k])
