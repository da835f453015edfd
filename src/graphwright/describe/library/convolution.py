"""Convolutions in any number of spatial dims, and their gradients.

With groups, output channel co reads the ``cig`` input channels of its group ``co // cog``. cog is
the same in every part, so a grouped convolution splits between groups. ``groups`` restates shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphwright.describe.language import Expr, Int, Sum, Tensor, describe, expect, fixed, where
from graphwright.describe.library.windows import covering, window

Ints = Sequence[Int]


@describe(
    "aten.convolution",
    groups=lambda x, w, out, transposed: (out if transposed else x).shape[1] // w.shape[1],
)
def convolution(
    x: Tensor, w: Tensor, bias: Tensor | None, *, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: Int, out: Tensor,
):  # fmt: skip
    stride, padding, dilation, output_padding = per_dim(
        x, stride, padding, dilation, output_padding
    )
    if transposed:
        expect_sizes(x, w, out, stride, padding, dilation, output_padding)
    body = (spread if transposed else gather)(x, w, stride, padding, dilation, groups)
    return body if bias is None else lambda b, c, *y: body(b, c, *y) + bias[c]


@describe(
    "graphwright.convolution_grad_input",
    input_size=lambda out: out.shape,
    groups=lambda g, w, out, transposed: (g if transposed else out).shape[1] // w.shape[1],
)
def convolution_grad_input(
    g: Tensor, w: Tensor, *, stride: Ints, padding: Ints, dilation: Ints, transposed: bool,
    groups: Int,
):  # fmt: skip
    return (gather if transposed else spread)(g, w, stride, padding, dilation, groups)


@describe(
    "graphwright.convolution_grad_weight",
    weight_size=lambda out: out.shape,
    groups=lambda g, x, out, transposed: (g if transposed else x).shape[1] // out.shape[1],
)
def convolution_grad_weight(
    g: Tensor, x: Tensor, *, weight_size: Ints, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, groups: Int,
):  # fmt: skip
    a, b = (x, g) if transposed else (g, x)
    channel = group_channel(weight_size[0], weight_size[1], groups)
    return lambda co, ci, *d: Sum(
        lambda n, *y: (
            a[n, co, *y] * b.pad(0)[n, channel(co, ci), *window(y, d, stride, padding, dilation)]
        ),
        over=[a.shape[0], *a.shape[2:]],
    )


def per_dim(x: Tensor, *given: Ints) -> list[Ints]:
    """Lists with an entry for each spatial dim; a list of one counts for all of them."""
    return [tuple(values) * (x.rank - 2) if len(values) == 1 else values for values in given]


def gather(
    x: Tensor, w: Tensor, stride: Ints, padding: Ints, dilation: Ints, groups: Int
) -> Callable[..., Expr]:
    """Each output element reads a window of x."""
    channel = group_channel(w.shape[0], w.shape[1], groups)
    return lambda b, co, *y: Sum(
        lambda ci, *d: (
            x.pad(0)[b, channel(co, ci), *window(y, d, stride, padding, dilation)] * w[co, ci, *d]
        ),
        over=w.shape[1:],
    )


def spread(
    g: Tensor, w: Tensor, stride: Ints, padding: Ints, dilation: Ints, groups: Int
) -> Callable[..., Expr]:
    """Each element of g contributes to a window of the output: a gather with division."""
    cog = w.shape[0] if groups == 1 else fixed(w.shape[0] // groups)
    cig = w.shape[1]

    def element(b: Int, ci: Int, *y: Int) -> Expr:
        first, own = (0, ci) if groups == 1 else (ci // cig * cog, ci % cig)

        def term(co: Int, *d: Int) -> Expr:
            at, met = covering(y, d, stride, padding, dilation)
            value = g.pad(0)[b, first + co, *at] * w[first + co, own, *d]
            return value if met is True else where(met, value, 0)

        return Sum(term, over=[cog, *w.shape[2:]])

    return element


def expect_sizes(
    x: Tensor, w: Tensor, out: Tensor, stride: Ints, padding: Ints, dilation: Ints, extra: Ints
) -> None:
    """A transposed kernel computes its output sizes with equal padding on both sides."""
    sizes = zip(out.shape[2:], x.shape[2:], w.shape[2:], strict=True)
    steps = zip(stride, padding, dilation, extra, strict=True)
    for (n, m, k), (s, p, d, e) in zip(sizes, steps, strict=True):
        expect(n, (m - 1) * s - 2 * p + d * (k - 1) + e + 1)


def group_channel(num_out: Int, num_in: Int, groups: Int) -> Callable[[Int, Int], Int]:
    """Map (co, ci) to the ci-th input channel of the group of output channel co."""
    if groups == 1:
        return lambda co, ci: ci
    per_group = fixed(num_out // groups)
    return lambda co, ci: co // per_group * num_in + ci
