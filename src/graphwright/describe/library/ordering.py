"""Sorting and selecting along one dim, which the language cannot express; other dims split.

`sort`, `topk` and similar return values and their positions, both from one ordering of the line.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphwright.describe.language import (
    Array,
    Expr,
    Int,
    Opaque,
    Sum,
    Tensor,
    describe,
    equal,
    function,
    number,
    where,
)

Element = Callable[..., Expr]

smaller, rounded_down = function("minimum"), function("index")


def order(line: Array, descending: bool) -> Array:
    """The positions of a line's elements in sorted order; the sort is stable."""
    if not descending:
        return np.argsort(line, kind="stable")
    return len(line) - 1 - np.argsort(line[::-1], kind="stable")[::-1]


def along(name: str, numpy: Callable[..., Array], x: Tensor, dim: Int, *args: object) -> Element:
    """Map each line along `dim` to another line; a scalar is a line of one element."""
    if not x.rank:
        return lambda: Opaque(name, lambda v, *args: numpy(v[None], *args)[0])(x[()], *args)[()]
    d = int(dim) % x.rank
    return lambda *i: Opaque(name, numpy)(x[(*i[:d], slice(None), *i[d + 1 :])], *args)[i[d]]


def picked(
    name: str, place: Callable[..., int], x: Tensor, dim: Int, keepdim: bool, *args: object
) -> tuple[Element, Element]:
    """One element of each line along `dim`, and its position."""
    d = int(dim) % max(x.rank, 1)
    find = place if x.rank else lambda scalar, *args: place(scalar[None], *args)
    value = Opaque(name, lambda line, *args: np.atleast_1d(line)[find(line, *args)])
    position = Opaque(f"{name} position", find)

    def element(which: Opaque, i: tuple[Int, ...]) -> Expr:
        if not x.rank:
            return which(x[()], *args)[()]
        return which(x[(*i[:d], slice(None), *i[d + keepdim :])], *args)[()]

    return lambda *i: element(value, i), lambda *i: element(position, i)


@describe("aten.sort", "aten.sort.stable")
def sort(x: Tensor, *, dim: Int, descending: bool):
    return (
        along("sort", lambda line: line[order(line, descending)], x, dim),
        along("argsort", lambda line: order(line, descending), x, dim),
    )


@describe("aten.argsort")
def argsort(x: Tensor, *, dim: Int, descending: bool):
    return along("argsort", lambda line: order(line, descending), x, dim)


@describe("aten.msort")
def msort(x: Tensor):
    return along("sort", np.sort, x, 0)


@describe("aten.topk")
def topk(x: Tensor, *, k: Int, dim: Int, largest: bool):
    return (
        along("topk", lambda line, k: line[order(line, largest)[:k]], x, dim, k),
        along("topk position", lambda line, k: order(line, largest)[:k], x, dim, k),
    )


@describe("aten.kthvalue")
def kthvalue(x: Tensor, *, k: Int, dim: Int, keepdim: bool):
    return picked("kth value", lambda line, k: order(line, False)[k - 1], x, dim, keepdim, k)


@describe("aten.median.dim")
def median_dim(x: Tensor, *, dim: Int, keepdim: bool):
    return picked("median", lambda line: order(line, False)[(len(line) - 1) // 2], x, dim, keepdim)


@describe("aten.median")
def median(x: Tensor):
    middle = Opaque("median", lambda all: np.sort(all, axis=None)[(all.size - 1) // 2])
    return lambda: middle(x[tuple(slice(None) for _ in x.shape)])[()]


@describe("aten.mode")
def mode(x: Tensor, *, dim: Int, keepdim: bool):
    def last_of_most_frequent(line: Array) -> int:
        values, counts = np.unique(line, return_counts=True)
        return int(np.flatnonzero(line == values[np.argmax(counts)])[-1])

    return picked("mode", last_of_most_frequent, x, dim, keepdim)


@describe("aten.bucketize.Tensor")
def bucketize(x: Tensor, boundaries: Tensor, *, right: bool):
    search = Opaque(
        "search", lambda line, v: np.searchsorted(line, v, side="right" if right else "left")
    )
    return lambda *i: search(boundaries[:], x[i])[()]


@describe("aten.searchsorted.Tensor")
def searchsorted(line: Tensor, x: Tensor, sorter: Tensor | None, *, right: bool, side: str | None):
    upper = right or side == "right"

    def position(line: Array, value: Array, sorter: Array | None = None) -> Array:
        return np.searchsorted(line, value, side="right" if upper else "left", sorter=sorter)

    def element(*i: Int) -> Expr:
        whole = (*i[: line.rank - 1], slice(None))
        more = () if sorter is None else (sorter[whole],)
        return Opaque("search", position)(line[whole], x[i], *more)[()]

    return element


@describe("aten.histc")
def histc(x: Tensor, *, bins: Int, min: object, max: object):
    low, high = number(min), number(max)  # type: ignore[arg-type]
    if low == high:  # use the range of the elements
        counts = Opaque("histogram", lambda all, bins: histogram(all, int(bins)))
        return lambda i: counts(x[tuple(slice(None) for _ in x.shape)], bins)[i]

    def counted(i: Int, value: Expr) -> Expr:
        at = smaller(rounded_down((value - low) / (high - low) * bins), bins - 1)
        return where((value >= low) & (value <= high) & equal(at, i), 1.0, 0.0)

    return lambda i: Sum(lambda *k: counted(i, x[k]), over=x.shape)


def histogram(x: Array, bins: int) -> Array:
    """The number of elements in each of `bins` equal parts of their range."""
    low, high = x.min(), x.max()
    if low == high:
        low, high = low - 1, high + 1
    at = np.minimum(((x - low) / (high - low) * bins).astype(int), bins - 1)
    return np.bincount(at.ravel(), minlength=bins).astype(float)
