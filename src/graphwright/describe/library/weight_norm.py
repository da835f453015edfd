"""Weight normalisation, ``w = v * g / |v|``, and its gradient.

The norm is over all dims but one. g holds a length for each slice along that dim; only it splits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphwright.describe.language import Expr, Int, Sum, Tensor, describe, function

sqrt = function("sqrt")


def slices(v: Tensor, dim: Int) -> tuple[Callable[..., Expr], Callable[..., tuple[Int | int, ...]]]:
    """A sum over the slice of an element, and the index of that slice's length in g."""
    d = int(dim) % v.rank
    others = [*v.shape[:d], *v.shape[d + 1 :]]

    def add_up(body: Callable[..., Expr], i: Sequence[Int]) -> Expr:
        return Sum(lambda *k: body((*k[:d], i[d], *k[d:])), over=others)

    return add_up, lambda i: tuple(n if e == d else 0 for e, n in enumerate(i))


@describe("aten._weight_norm_interface")
def weight_norm(v: Tensor, g: Tensor, *, dim: Int):
    add_up, of = slices(v, dim)

    def norm(*i: Int) -> Expr:
        return sqrt(add_up(lambda k: v[k] * v[k], i))

    return lambda *i: v[i] * (g[of(i)] / norm(*i)), norm


@describe("aten._weight_norm_interface_backward")
def weight_norm_backward(grad: Tensor, v: Tensor, g: Tensor, norms: Tensor, *, dim: Int):
    add_up, of = slices(v, dim)

    def along(i: Sequence[Int]) -> Expr:
        return add_up(lambda k: grad[k] * v[k], i)

    def grad_v(*i: Int) -> Expr:
        length = norms[of(i)]
        return g[of(i)] / length * (grad[i] - v[i] * along(i) / (length * length))

    return grad_v, lambda *i: along(i) / norms[of(i)]
