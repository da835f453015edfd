"""Products of rows with the matrix of their group, where data says which rows are whose.

Row m belongs to group e if ``bounds[e] <= m < bounds[e + 1]``, so an output row is a sum over all
groups, of which one is not 0. A part of the groups needs its own bounds, a part of the rows begins
at another ``row``: rows, columns, groups (expert parallelism) and the summed index all split.
"""

from __future__ import annotations

from graphwright.describe.language import Expr, Int, Sum, Tensor, describe, expect, where


@describe("graphwright.grouped_mm")
def grouped_mm(a: Tensor, b: Tensor, bounds: Tensor, *, row: Int):
    expect(bounds.shape[0], b.shape[0] + 1)

    def element(m: Int, n: Int) -> Expr:
        def of_group(e: Int) -> Expr:
            product = Sum(lambda k: a[m, k] * b[e, k, n])
            return where(belongs(m + row, bounds, e), product, 0)

        return Sum(of_group, over=b.shape[0])

    return element


@describe("graphwright.grouped_mm_grad_weight")
def grouped_mm_grad_weight(a: Tensor, g: Tensor, bounds: Tensor, *, row: Int, out: Tensor):
    expect(bounds.shape[0], out.shape[0] + 1)
    return lambda e, k, n: Sum(
        lambda m: where(belongs(m + row, bounds, e), a[m, k] * g[m, n], 0), over=a.shape[0]
    )


def belongs(place: Int, bounds: Tensor, group: Int) -> Expr:
    """Whether a place lies between the bounds of a group."""
    return (bounds[group] <= place) & (bounds[group + 1] > place)
