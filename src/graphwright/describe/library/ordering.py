"""Sorting and selecting along one dim, which the language cannot say; all other dims split.

`sort`, `topk` and the like return values and their positions; both come from one ordering of the whole line.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphwright.describe.expression import Expr
from graphwright.describe.language import Int, Opaque, Tensor
from graphwright.describe.registry import describe
from graphwright.describe.scalar import Array

Element = Callable[..., Expr]


def order(line: Array, descending: bool) -> Array:
    """The positions of a line's elements in order; equal ones stay in place."""
    if not descending:
        return np.argsort(line, kind="stable")
    return len(line) - 1 - np.argsort(line[::-1], kind="stable")[::-1]


def along(name: str, numpy: Callable[..., Array], x: Tensor, dim: Int, *args: object) -> Element:
    """A function of a whole line along `dim` that gives another line there."""
    d = int(dim) % x.rank
    return lambda *i: Opaque(name, numpy)(x[(*i[:d], slice(None), *i[d + 1 :])], *args)[i[d]]


def picked(name: str, place: Callable[..., int], x: Tensor, dim: Int, keepdim: bool, *args: object) -> tuple[Element, Element]:  # fmt: skip
    """One element of each line along `dim`, and its position."""
    d = int(dim) % x.rank
    value = Opaque(name, lambda line, *args: line[place(line, *args)])
    position = Opaque(f"{name} position", place)

    def element(which: Opaque, i: tuple[Int, ...]) -> Expr:
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
    return lambda i, *rest: Opaque("sort", np.sort)(x[(slice(None), *rest)])[i]


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
