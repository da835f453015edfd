"""Scaled dot-product attention as one kernel, and its gradients.

    score[l, m] = scale * q[l] . k[m] + mask[l, m]        over queries l and keys m
    out[l]      = softmax over m of score, times v[m]     logsumexp[l] is kept for the backward pass

Forward splits along batch, heads and queries. The backward kernel rebuilds the weights as
``exp(score - logsumexp)``, so it splits along queries (the gradients of keys and values are summed) and along keys
(that of the queries is). The kernels want one width for all, so it is whole in every part. Under a causal mask the position of a query is a value, and only batch and heads split.
"""

from __future__ import annotations

from collections.abc import Callable

from graphwright.describe.expression import Expr
from graphwright.describe.language import Int, Max, Sum, Tensor, expect, function, where
from graphwright.describe.registry import describe

exp, log, sqrt = map(function, ("exp", "log", "sqrt"))

Score = Callable[[Int, Int, Int, Int], Expr]


def scores(
    q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool, scale: float | None
) -> Score:
    """How much query l attends to key m, before the softmax."""

    def score(b: Int, h: Int, l: Int, m: Int) -> Expr:
        product = Sum(lambda e: q[b, h, l, e] * k[b, h, m, e]) * scaling(q, scale)
        if mask is not None:
            product = product + mask[b, h, l, m]
        return where(m <= l, product, float("-inf")) if is_causal else product

    return score


def scaling(q: Tensor, scale: float | None) -> object:
    """The factor of the products."""
    return 1 / sqrt(q.shape[3]) if scale is None else scale


@describe("aten._scaled_dot_product_flash_attention_for_cpu")
def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, is_causal: bool, scale: float | None
):
    expect(v.shape[3], q.shape[3])
    score = scores(q, k, mask, is_causal, scale)

    def weights(b: Int, h: Int, l: Int) -> tuple[Callable[[Int], Expr], Expr, Expr]:
        top = Max(lambda m: score(b, h, l, m), over=k.shape[2])
        total = Sum(lambda m: exp(score(b, h, l, m) - top), over=k.shape[2])
        return lambda m: exp(score(b, h, l, m) - top), total, top

    def out(b: Int, h: Int, l: Int, e: Int) -> Expr:
        weight, total, _ = weights(b, h, l)
        return Sum(lambda m: weight(m) * v[b, h, m, e], over=k.shape[2]) / total

    def logsumexp(b: Int, h: Int, l: Int) -> Expr:
        _, total, top = weights(b, h, l)
        return log(total) + top

    return out, logsumexp


@describe("aten._scaled_dot_product_flash_attention_for_cpu_backward")
def attention_backward(g: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, logsumexp: Tensor, mask: Tensor | None, *, is_causal: bool, scale: float | None):  # fmt: skip
    score = scores(q, k, mask, is_causal, scale)

    def weight(b: Int, h: Int, l: Int, m: Int) -> Expr:
        return exp(score(b, h, l, m) - logsumexp[b, h, l])

    def grad_score(b: Int, h: Int, l: Int, m: Int) -> Expr:
        towards = Sum(lambda e: g[b, h, l, e] * v[b, h, m, e])
        own = Sum(lambda e: g[b, h, l, e] * out[b, h, l, e])
        return weight(b, h, l, m) * (towards - own) * scaling(q, scale)

    def grad_query(b: Int, h: Int, l: Int, e: Int) -> Expr:
        return Sum(lambda m: grad_score(b, h, l, m) * k[b, h, m, e], over=k.shape[2])

    def grad_key(b: Int, h: Int, m: Int, e: Int) -> Expr:
        return Sum(lambda l: grad_score(b, h, l, m) * q[b, h, l, e], over=q.shape[2])

    def grad_value(b: Int, h: Int, m: Int, e: Int) -> Expr:
        return Sum(lambda l: weight(b, h, l, m) * g[b, h, l, e], over=q.shape[2])

    return grad_query, grad_key, grad_value
