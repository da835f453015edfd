"""The operators of substitutions (TASO table 2.1): their shapes, and what each is in ATen.

An operator is a short program of ATen calls. Its meaning is the composition of their descriptions,
so there is no second semantics: PyTorch's kernels, floats, residues and a prover's reals all
evaluate these calls. They are written as capture writes them, so a captured node is an operator
where it is the operator's call. Only the four constants are described here, as no ATen call makes
them exactly (C_pool's entries are 1/k²).

    conv(stride, padding, activation, x, w)    aten.convolution, then aten.relu; the groups follow
                                               from the shapes: channels of x / depth of w
    padding same                               (k - 1) / 2 zeros on either side, k odd
    enlarge(k, w)                              zeros around a kernel, up to k x k
    pool_avg                                   counts the padding, as a convolution would
    smul(x, s)                                 s has no dims
    concat, split0, split1                     axis 0 and 1 of images, -2 and -1 of matrices

**Split trees** (TASO section 2.3.1). A split undoes the latest concatenation along its axis. A dim
is therefore a size, or the pair of dims that were joined: 8, (4, 4), ((2, 2), 4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from graphwright.describe import Description, language, make_description, require
from graphwright.ir import Attr
from graphwright.rewrite.substitutions.graphs.terms import PARAMETERS, Param, Term

Dim = int | tuple["Dim", "Dim"]
Shape = tuple[Dim, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One ATen call; its inputs are numbered: the operator's arguments, then earlier results."""

    op: str
    inputs: tuple[int | None, ...]
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    shapes: tuple[tuple[int, ...], ...]
    output: int = 0

    @property
    def description(self) -> Description:
        """What the call computes."""
        return DESCRIPTIONS.get(self.op) or require(self.op)


@dataclass(frozen=True, slots=True)
class Program:
    """The ATen calls of an operator for given shapes, and the shape of the last one's result."""

    calls: tuple[Call, ...]
    shape: Shape


Lowering = Callable[..., Program | None]


def sizes_of(shape: Shape) -> tuple[int, ...]:
    """The sizes, without the history of concatenations."""
    return tuple(map(_size, shape))


def _size(dim: Dim) -> int:
    return dim if isinstance(dim, int) else _size(dim[0]) + _size(dim[1])


def _join(a: Dim, b: Dim) -> Dim:
    """The dim of an element-wise result of dims of one size."""
    if a == b or isinstance(b, int):
        return a
    return b if isinstance(a, int) else _size(a)


def program_of(op: str, params: Sequence[Param], shapes: Sequence[Shape]) -> Program | None:
    """The calls of an operator, or None where shapes and parameters do not fit."""
    made = _LOWERINGS[op](*params, *shapes)
    return made if made is None or 0 not in sizes_of(made.shape) else None


def shape_of(term: Term, shapes: Sequence[Shape]) -> Shape | None:
    """The shape of a term, given those of its arguments."""
    made = program_of(term.op, term.params, shapes)
    return None if made is None else made.shape


# -- element-wise operators and views ------------------------------------------------------------


def _one(op: str, shape: Shape, arity: int, **attrs: Attr) -> Program:
    return Program(
        (Call(op=op, inputs=tuple(range(arity)), attrs=attrs, shapes=(sizes_of(shape),)),), shape
    )


def _elementwise(op: str, **attrs: Attr) -> Lowering:
    def lower(x: Shape, y: Shape) -> Program | None:
        if sizes_of(x) != sizes_of(y):
            return None
        return _one(op, tuple(map(_join, x, y)), 2, **attrs)

    return lower


def _smul(x: Shape, s: Shape) -> Program | None:
    return None if s else _one("aten.mul.Tensor", x, 2)


def _relu(x: Shape) -> Program | None:
    return _one("aten.relu", x, 1)


def _transpose(x: Shape) -> Program | None:
    if len(x) not in (2, 3):
        return None
    order = (1, 0) if len(x) == 2 else (0, 2, 1)
    return _one("aten.permute", tuple(x[d] for d in order), 1, dims=order)


def _matmul(x: Shape, y: Shape) -> Program | None:
    if len(x) != len(y) or len(x) not in (2, 3) or _size(x[-1]) != _size(y[-2]):
        return None
    if sizes_of(x[:-2]) != sizes_of(y[:-2]):
        return None
    batch = tuple(map(_join, x[:-2], y[:-2]))
    return _one("aten.bmm" if batch else "aten.mm", (*batch, x[-2], y[-1]), 2)


def _axis(axis: int, x: Shape) -> int | None:
    """The axis from the front: matrices count from the back, images from the front."""
    if axis < 0:
        return len(x) + axis if len(x) in (2, 3) else None
    return axis if axis < len(x) and len(x) == 4 else None


def _concat(axis: int, x: Shape, y: Shape) -> Program | None:
    d = _axis(axis, x)
    if d is None or len(x) != len(y):
        return None
    if any(_size(m) != _size(n) for i, (m, n) in enumerate(zip(x, y, strict=True)) if i != d):
        return None
    made = tuple(
        (m, n) if i == d else _join(m, n) for i, (m, n) in enumerate(zip(x, y, strict=True))
    )
    return _one("aten.cat", made, 2, dim=d)


def _split(which: int) -> Lowering:
    def lower(axis: int, x: Shape) -> Program | None:
        d = _axis(axis, x)
        if d is None or isinstance(x[d], int):
            return None
        parts = x[d]
        assert not isinstance(parts, int)
        start, length = which * _size(parts[0]), _size(parts[which])
        made = (*x[:d], parts[which], *x[d + 1 :])
        return _one("aten.slice.Tensor", made, 1, dim=d, start=start, end=start + length, step=1)

    return lower


# -- convolution and pooling ---------------------------------------------------------------------


def _window(
    sizes: Sequence[int], kernel: Sequence[int], stride: int, padding: str
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The padding and the sizes that a window makes of `sizes`."""
    if padding == "same" and any(k % 2 == 0 for k in kernel):
        return None
    pads = tuple((k - 1) // 2 if padding == "same" else 0 for k in kernel)
    made = tuple((n + 2 * p - k) // stride + 1 for n, k, p in zip(sizes, kernel, pads, strict=True))
    return (pads, made) if min(made) > 0 else None


def _conv(stride: int, padding: str, activation: str, x: Shape, w: Shape) -> Program | None:
    if len(x) != 4 or len(w) != 4:
        return None
    channels, depth, outputs = _size(x[1]), _size(w[1]), _size(w[0])
    kernel = sizes_of(w[2:])
    window = _window(sizes_of(x[2:]), kernel, stride, padding)
    if window is None or channels % depth or outputs % (channels // depth):
        return None
    shape: Shape = (x[0], w[0], *window[1])
    conv = Call(
        op="aten.convolution",
        inputs=(0, 1, None),
        attrs={
            "stride": (stride, stride), "padding": window[0], "dilation": (1, 1),
            "transposed": False, "output_padding": (0, 0), "groups": channels // depth,
        },
        shapes=(sizes_of(shape),),
    )  # fmt: skip
    relu = Call(op="aten.relu", inputs=(2,), shapes=conv.shapes)
    return Program((conv, relu) if activation == "relu" else (conv,), shape)


def _enlarge(kernel: int, w: Shape) -> Program | None:
    if len(w) != 4:
        return None
    added = [kernel - n for n in sizes_of(w[2:])]
    if min(added) < 0 or any(n % 2 for n in added) or max(added) == 0:
        return None
    pad = (added[1] // 2, added[1] // 2, added[0] // 2, added[0] // 2)
    return _one("aten.constant_pad_nd", (*w[:2], kernel, kernel), 1, pad=pad, value=0.0)


def _pool_avg(kernel: int, stride: int, padding: str, x: Shape) -> Program | None:
    shape = _pooled(kernel, stride, padding, x)
    if shape is None:
        return None
    return _one(
        "aten.avg_pool2d", shape[0], 1, kernel_size=(kernel, kernel), stride=(stride, stride),
        padding=shape[1], ceil_mode=False, count_include_pad=True, divisor_override=None,
    )  # fmt: skip


def _pool_max(kernel: int, stride: int, padding: str, x: Shape) -> Program | None:
    shape = _pooled(kernel, stride, padding, x)
    if shape is None:
        return None
    sizes = sizes_of(shape[0])
    attrs: dict[str, Attr] = {
        "kernel_size": (kernel, kernel), "stride": (stride, stride), "padding": shape[1],
        "dilation": (1, 1), "ceil_mode": False,
    }  # fmt: skip
    pool = Call(op="graphwright.max_pool", inputs=(0,), attrs=attrs, shapes=(sizes, sizes))
    return Program((pool,), shape[0])


def _pooled(
    kernel: int, stride: int, padding: str, x: Shape
) -> tuple[Shape, tuple[int, ...]] | None:
    window = _window(sizes_of(x[2:]), (kernel, kernel), stride, padding) if len(x) == 4 else None
    return window and ((x[0], x[1], *window[1]), window[0])


# -- constants -----------------------------------------------------------------------------------


def _c_pool(kernel: int, shape: Shape) -> Program | None:
    """Depth-wise: one channel for each group."""
    if len(shape) != 4 or sizes_of(shape[1:]) != (1, kernel, kernel):
        return None
    return _one("constant.C_pool", shape, 0)


def _i_conv(kernel: int, shape: Shape) -> Program | None:
    if len(shape) != 4 or _size(shape[0]) != _size(shape[1]) or kernel % 2 == 0:
        return None
    return _one("constant.I_conv", shape, 0) if sizes_of(shape[2:]) == (kernel, kernel) else None


def _i_matmul(shape: Shape) -> Program | None:
    square = len(shape) in (2, 3) and _size(shape[-1]) == _size(shape[-2])
    return _one("constant.I_matmul", shape, 0) if square else None


def _i_ewmul(shape: Shape) -> Program | None:
    return _one("constant.I_ewmul", shape, 0)


def _describe_c_pool(*, out: language.Tensor) -> Callable[..., language.Expr]:
    return lambda o, i, y, x: language.constant(1) / (out.shape[2] * out.shape[3])


def _describe_i_conv(*, out: language.Tensor) -> Callable[..., language.Expr]:
    middle = out.shape[2] // 2

    def element(*i: language.Int) -> language.Expr:
        same = language.equal(i[0], i[1])
        centre = language.equal(i[2], middle) & language.equal(i[3], middle)
        return language.where(same & centre, 1, 0)

    return element


def _describe_i_matmul() -> Callable[..., language.Expr]:
    return lambda *i: language.where(language.equal(i[-2], i[-1]), 1, 0)


def _describe_i_ewmul() -> Callable[..., language.Expr]:
    return lambda *i: language.constant(1)


_CONSTANTS: dict[str, Callable[..., object]] = {
    "constant.C_pool": _describe_c_pool,
    "constant.I_conv": _describe_i_conv,
    "constant.I_matmul": _describe_i_matmul,
    "constant.I_ewmul": _describe_i_ewmul,
}
DESCRIPTIONS = {op: make_description(op, function) for op, function in _CONSTANTS.items()}
"""The constants; every other operator is described by its ATen calls."""

_LOWERINGS: dict[str, Lowering] = {
    "ewadd": _elementwise("aten.add.Tensor", alpha=1),
    "ewmul": _elementwise("aten.mul.Tensor"),
    "smul": _smul,
    "transpose": _transpose,
    "matmul": _matmul,
    "conv": _conv,
    "enlarge": _enlarge,
    "relu": _relu,
    "pool_avg": _pool_avg,
    "pool_max": _pool_max,
    "concat": _concat,
    "split0": _split(0),
    "split1": _split(1),
    "C_pool": _c_pool,
    "I_conv": _i_conv,
    "I_matmul": _i_matmul,
    "I_ewmul": _i_ewmul,
}
assert _LOWERINGS.keys() == PARAMETERS.keys()
