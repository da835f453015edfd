"""Messages along the edges of a graph, reduced at nodes: what graph neural networks are made of.

Edge e leads from node src[e] to node dst[e]. Its message is op(a, b), where a and b belong to its
source ("u"), to its destination ("v") or to itself ("e"). With results at destinations,

    message_sum[v]        sum of the messages of all e with dst[e] == v + first
    message_extreme[v]    the largest or least of them, and the edge that it came from

A part of the destinations counts from another `first`, so rows split; trailing dims concatenate,
and edges split into partial sums. A result at "e" is the message itself. Ends that no operand needs
are not read, so they are whole in every part.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from graphwright.describe.language import (
    ArgMax,
    ArgMin,
    Expr,
    Int,
    Max,
    Min,
    Sum,
    Tensor,
    describe,
    equal,
    expect,
    where,
)

Index = Sequence[Int]


@describe("graphwright.message_sum", size=lambda out: out.shape)
def message_sum(
    src: Tensor, dst: Tensor, a: Tensor, b: Tensor | None, *, op: str, a_end: str, b_end: str,
    out_end: str, first: Int, out: Tensor,
):  # fmt: skip
    message = Message(src, dst, a, b, op, a_end, b_end, out_end, out)
    ends = src if out_end == "u" else dst

    def element(row: Int, *i: Int) -> Expr:
        if out_end == "e":
            return message.reduced(row, row, i)

        def arriving(e: Int, *r: Int) -> Expr:
            return where(equal(row + first, ends[e]), message.value(row, e, i, r), 0)

        return Sum(arriving, over=[ends.shape[0], *message.reduced_sizes])

    return element


@describe("graphwright.message_extreme", size=lambda out: out.shape)
def message_extreme(
    src: Tensor, dst: Tensor, a: Tensor, b: Tensor | None, *, op: str, a_end: str, b_end: str,
    least: bool, first: Int, outs: Sequence[Tensor],
):  # fmt: skip
    message = Message(src, dst, a, b, op, a_end, b_end, "v", outs[0])
    num_edges, worst = dst.shape[0], inf if least else -inf

    def meets(row: Int, e: Int) -> Expr:
        return equal(row + first, dst[e])

    def any_edge(row: Int) -> Expr:
        return Sum(lambda e: where(meets(row, e), 1, 0), over=num_edges) > 0

    def candidate(row: Int, i: Index, e: Int) -> Expr:
        return where(meets(row, e), message.reduced(row, e, i), worst)

    def best(row: Int, *i: Int) -> Expr:
        reduce = Min if least else Max
        found = reduce(lambda e: candidate(row, i, e), over=num_edges)
        return where(any_edge(row), found, 0)

    def chosen(row: Int, *i: Int) -> Expr:
        reduce = ArgMin if least else ArgMax
        found = reduce(lambda e: candidate(row, i, e), over=num_edges)
        return where(any_edge(row), found, -1)

    return best, chosen


class Message:
    """The message of an edge, with trailing dims broadcast, and those that a result sums over."""

    def __init__(
        self, src: Tensor, dst: Tensor, a: Tensor, b: Tensor | None, op: str, a_end: str,
        b_end: str, out_end: str, out: Tensor,
    ) -> None:  # fmt: skip
        self.ends, self.out_end, self.op = {"u": src, "v": dst}, out_end, op
        self.operands = [(a, a_end)] if b is None else [(a, a_end), (b, b_end)]
        used = {out_end, *(end for _, end in self.operands)} - {"e"}
        along_edges = [self.ends[end] for end in sorted(used)]
        along_edges += [x for x, end in self.operands if end == "e"]
        along_edges += [out] if out_end == "e" else []
        for x in along_edges[1:]:
            expect(x.shape[0], along_edges[0].shape[0])
        for x, end in self.operands:
            if end == out_end:
                expect(x.shape[0], out.shape[0])
        self.rank = max(x.rank for x in (*(x for x, _ in self.operands), out)) - 1
        sizes = [self._size(d) for d in range(self.rank)]
        made = [self._own(out, d) for d in range(self.rank)]
        self.is_reduced = [
            size != 1 and own in (None, 1) for size, own in zip(sizes, made, strict=True)
        ]
        self.out_rank = out.rank - 1
        self.reduced_sizes = [
            size for size, summed in zip(sizes, self.is_reduced, strict=True) if summed
        ]

    def _own(self, x: Tensor, dim: int) -> Int | None:
        at = dim - self.rank + x.rank
        return x.shape[at] if at >= 1 else None

    def _size(self, dim: int) -> Int:
        sizes = [self._own(x, dim) for x, _ in self.operands]
        given: list[Int] = [size for size in sizes if size is not None]
        return next((size for size in given if size != 1), 1)

    def value(self, row: Int, e: Int, i: Index, r: Index) -> Expr:
        """The message of edge e at the trailing indices i of the result and r of what is summed."""
        made, rest = [*[0] * (self.rank - self.out_rank), *i], iter(r)
        full = [
            next(rest) if summed else own for own, summed in zip(made, self.is_reduced, strict=True)
        ]
        read = [x[self._row(end, row, e), *self._trailing(x, full)] for x, end in self.operands]
        if len(read) == 1:
            return read[0]
        match self.op:
            case "add":
                return read[0] + read[1]
            case "sub":
                return read[0] - read[1]
            case "div":
                return read[0] / read[1]
            case _:
                return read[0] * read[1]

    def reduced(self, row: Int, e: Int, i: Index) -> Expr:
        """The same, summed."""
        if not self.reduced_sizes:
            return self.value(row, e, i, ())
        return Sum(lambda *r: self.value(row, e, i, r), over=self.reduced_sizes)

    def _row(self, end: str, row: Int, e: Int) -> Int | Expr:
        if end == self.out_end:
            return row
        return e if end == "e" else self.ends[end][e]

    def _trailing(self, x: Tensor, full: Index) -> list[Int]:
        dims = range(self.rank - x.rank + 1, self.rank)
        return [0 if self._own(x, d) == 1 else full[d] for d in dims]
