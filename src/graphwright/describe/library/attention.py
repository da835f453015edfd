"""Scaled dot-product attention as one kernel, and its gradients.

    score[l, m] = scale * q[l] . k[m] + mask[l, m]        over queries l and keys m
    out[l]      = softmax over m of score, times v[m]     logsumexp[l] is saved for backward

Forward splits along batch, heads and queries. The backward kernel recomputes the weights as
``exp(score - logsumexp)``, so it splits along queries (summing the gradients of keys and values)
and along keys (summing that of the queries). All tensors need the same width, so it does not split.

With a causal mask the position of a query is a value. PyTorch's kernel takes the first query for
that of the first key, so only batch and heads split; `graphwright.causal_attention`, which capture
writes, is told the position of its ``first`` query, and queries split: each part gets all keys.

If n query heads share one key head, query head h uses key head ``h // n``, and heads split between
these groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphwright.describe.language import (
    Expr,
    Int,
    Max,
    Sum,
    Tensor,
    describe,
    expect,
    fixed,
    function,
    where,
)

exp, log, sqrt = map(function, ("exp", "log", "sqrt"))


class Heads:
    """Maps between the heads of queries and those of keys and values."""

    def __init__(self, q: Tensor, k: Tensor) -> None:
        self.shared = q.shape[1] != k.shape[1]
        self.num = fixed(q.shape[1] // k.shape[1]) if self.shared else 1

    def of_keys(self, h: Int) -> Int:
        """The key head of query head h."""
        return h // self.num if self.shared else h

    def add_up(self, body: Callable[[Int, Int], Expr], h: Int, num_queries: Int) -> Expr:
        """The sum of `body` over the query heads of key head h and over all queries."""
        if not self.shared:
            return Sum(lambda l: body(h, l), over=num_queries)
        return Sum(lambda r, l: body(h * self.num + r, l), over=(self.num, num_queries))


def scaling(q: Tensor, scale: float | None) -> object:
    """The scale of the scores."""
    return 1 / sqrt(q.shape[3]) if scale is None else scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """The score of query l of head h and key m of key head j, before the softmax.

    `first` is the position of the first query if no query sees later keys, else None.
    """

    q: Tensor
    k: Tensor
    scale: float | None
    mask: Tensor | None = None
    first: Int | int | None = None

    def __call__(self, b: Int, h: Int, j: Int, l: Int, m: Int) -> Expr:
        product = Sum(lambda e: self.q[b, h, l, e] * self.k[b, j, m, e])
        product = product * scaling(self.q, self.scale)
        if self.mask is not None:
            product = product + self.mask[b, h, l, m]
        if self.first is None:
            return product
        return where(m - l <= self.first, product, float("-inf"))


@describe("aten._scaled_dot_product_flash_attention_for_cpu")
def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, is_causal: bool, scale: float | None
):
    score = Scores(q=q, k=k, scale=scale, mask=mask, first=0 if is_causal else None)
    return attend(score, v)


@describe("graphwright.causal_attention")
def causal_attention(q: Tensor, k: Tensor, v: Tensor, *, scale: float | None, first: Int):
    return attend(Scores(q=q, k=k, scale=scale, first=first), v)


def attend(score: Scores, v: Tensor) -> tuple[Callable[..., Expr], Callable[..., Expr]]:
    """The values weighted by the scores, and the logarithm of each query's normaliser."""
    q, k = score.q, score.k
    expect(v.shape[3], q.shape[3])
    heads = Heads(q, k)

    def weights(b: Int, h: Int, l: Int) -> tuple[Callable[[Int], Expr], Expr, Expr]:
        j = heads.of_keys(h)
        top = Max(lambda m: score(b, h, j, l, m), over=k.shape[2])
        total = Sum(lambda m: exp(score(b, h, j, l, m) - top), over=k.shape[2])
        return lambda m: exp(score(b, h, j, l, m) - top), total, top

    def out(b: Int, h: Int, l: Int, e: Int) -> Expr:
        weight, total, _ = weights(b, h, l)
        return Sum(lambda m: weight(m) * v[b, heads.of_keys(h), m, e], over=k.shape[2]) / total

    def logsumexp(b: Int, h: Int, l: Int) -> Expr:
        _, total, top = weights(b, h, l)
        return log(total) + top

    return out, logsumexp


@describe("aten._scaled_dot_product_flash_attention_for_cpu_backward")
def attention_backward(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, logsumexp: Tensor, mask: Tensor | None,
    *, is_causal: bool, scale: float | None,
):  # fmt: skip
    score = Scores(q=q, k=k, scale=scale, mask=mask, first=0 if is_causal else None)
    return attention_gradients(score, g, v, out, logsumexp)


@describe("graphwright.causal_attention_backward")
def causal_attention_backward(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, logsumexp: Tensor, *,
    scale: float | None, first: Int,
):  # fmt: skip
    return attention_gradients(Scores(q=q, k=k, scale=scale, first=first), g, v, out, logsumexp)


def attention_gradients(
    score: Scores, g: Tensor, v: Tensor, out: Tensor, logsumexp: Tensor
) -> tuple[Callable[..., Expr], ...]:
    """The gradients of queries, keys and values."""
    q, k, scale = score.q, score.k, score.scale
    heads = Heads(q, k)

    def weight(b: Int, h: Int, j: Int, l: Int, m: Int) -> Expr:
        return exp(score(b, h, j, l, m) - logsumexp[b, h, l])

    def grad_score(b: Int, h: Int, j: Int, l: Int, m: Int) -> Expr:
        towards = Sum(lambda e: g[b, h, l, e] * v[b, j, m, e])
        own = Sum(lambda e: g[b, h, l, e] * out[b, h, l, e])
        return weight(b, h, j, l, m) * (towards - own) * scaling(q, scale)

    def grad_query(b: Int, h: Int, l: Int, e: Int) -> Expr:
        j = heads.of_keys(h)
        return Sum(lambda m: grad_score(b, h, j, l, m) * k[b, j, m, e], over=k.shape[2])

    def grad_key(b: Int, j: Int, m: Int, e: Int) -> Expr:
        share = lambda h, l: grad_score(b, h, j, l, m) * q[b, h, l, e]
        return heads.add_up(share, j, q.shape[2])

    def grad_value(b: Int, j: Int, m: Int, e: Int) -> Expr:
        return heads.add_up(lambda h, l: weight(b, h, j, l, m) * g[b, h, l, e], j, q.shape[2])

    return grad_query, grad_key, grad_value
