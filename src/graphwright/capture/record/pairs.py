"""Complex numbers as pairs of real ones, so that a graph stays real.

    complex tensor of shape s    ->    real tensor of shape (*s, 2): real part, imaginary part

A call with complex numbers is replaced by calls on pairs, below autograd, whose formulas for
complex numbers (products with conjugates) are replaced like any other. Views leave the last dim
alone.

    polar(r, a)    [r cos a, r sin a]               conj(c)    [re, -im]
    c * d          [re re - im im, re im + im re]   fft        an operator of ours on pairs
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._ops import OpOverload

from graphwright.aten import aten, bind_arguments, ours
from graphwright.errors import ComplexInput

_PAIR = "_graphwright_pair"
F = TypeVar("F", bound=Callable[..., Any])
_RULES: dict[object, Callable[..., Any]] = {}


def set_pair(complex_fake: Tensor, pair: Tensor) -> None:
    """Say which pair a complex fake tensor stands for."""
    setattr(complex_fake, _PAIR, pair)


def pair_of(x: Any) -> Any:
    """The pair of a complex tensor, also of each in a list; anything else as it is."""
    if isinstance(x, (list, tuple)):
        return [pair_of(item) for item in x]
    return getattr(x, _PAIR, x) if isinstance(x, Tensor) else x


def on_pairs(func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Compute with pairs what an operator computes with complex numbers."""
    if func in _SHAPED:
        return _shaped(func, args, kwargs)
    if func in _ALIKE:
        return func(pair_of(args[0]), *args[1:])
    if func not in _RULES:
        raise ComplexInput(
            f"{func} works on complex numbers, which a graph holds as pairs of real ones, and has "
            "no form for pairs here; use real tensors in this place (torch.view_as_real)"
        )
    return _RULES[func](*args, **kwargs)


def _rule(*overloads: object) -> Callable[[F], F]:
    def register(function: F) -> F:
        _RULES.update(dict.fromkeys(overloads, function))
        return function

    return register


_ALIKE = frozenset({
    aten.clone.default, aten.detach.default, aten.alias.default, aten.neg.default,
    aten.zeros_like.default, aten.div.Scalar,
})  # fmt: skip
"""The same on pairs."""

_SHAPED = frozenset({
    aten.view.default, aten._unsafe_view.default, aten.expand.default, aten.permute.default,
    aten.transpose.int, aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims,
    aten.slice.Tensor, aten.select.int, aten.split.Tensor, aten.split_with_sizes.default,
    aten.unbind.int, aten.cat.default, aten.index.Tensor, aten.index_select.default,
    aten.slice_backward.default, aten.select_backward.default, aten.sum.dim_IntList,
    aten.repeat.default, aten.flip.default, aten.roll.default, aten.index_put.default,
    aten.slice_scatter.default, aten.select_scatter.default, aten.new_zeros.default,
    aten.cumsum.default,
})  # fmt: skip
"""The same on pairs, whose last dim is left alone."""


def _shaped(func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    bound = bind_arguments(func, args, kwargs)
    first = next(iter(bound.values()))
    rank = first[0].dim() if isinstance(first, (list, tuple)) else first.dim()
    if func is aten.unsqueeze.default:
        rank += 1
    for name, value in bound.items():
        if name in ("size", "input_sizes"):
            bound[name] = [*value, 2]
            rank = len(value) if name == "input_sizes" else rank
        elif name == "dtype" and value is not None:
            bound[name] = value.to_real()
        elif name == "repeats":
            bound[name] = [*value, 1]
        elif name in ("dim", "dims", "dim0", "dim1"):
            dims = [d % max(rank, 1) for d in ([value] if isinstance(value, int) else value or ())]
            bound[name] = dims[0] if isinstance(value, int) else dims
    if func is aten.permute.default:
        bound["dims"] = [*bound["dims"], rank]
    if func is aten.sum.dim_IntList and not bound["dim"]:
        bound["dim"] = list(range(rank))
    given = {name: pair_of(value) for name, value in bound.items()}
    positional = [a.name for a in func._schema.arguments if not a.kwarg_only]
    values = [given.pop(name) for name in positional]
    return func(*values, **{name: value for name, value in given.items() if value is not None})


@_rule(aten.t.default)
def _t(x: Tensor) -> Tensor:
    return aten.transpose.int(pair_of(x), 0, 1) if x.dim() == 2 else pair_of(x)


def _parts(x: Any) -> tuple[Any, Any]:
    """Real and imaginary part; the latter is None for what is real."""
    if isinstance(x, Tensor) and x.is_complex():
        pair = pair_of(x)
        return aten.select.int(pair, -1, 0), aten.select.int(pair, -1, 1)
    return (x.real, x.imag) if isinstance(x, complex) else (x, None)


def _join(real: Tensor, imaginary: Tensor) -> Tensor:
    shape = torch.broadcast_shapes(real.shape, imaginary.shape)  # type: ignore[no-untyped-call]
    return aten.stack.default([aten.expand.default(x, shape) for x in (real, imaginary)], -1)


def _both(x: Tensor) -> tuple[Tensor, Tensor]:
    """Real and imaginary part, which is 0 for what is real."""
    real, imaginary = _parts(x)
    return real, aten.zeros_like.default(real) if imaginary is None else imaginary


def _numbers(x: complex) -> tuple[float, float]:
    return complex(x).real, complex(x).imag


def _paired(x: Tensor) -> Tensor:
    return _join(*_both(x))


# Between real and complex tensors.


@_rule(aten.view_as_complex.default, aten.view_as_real.default, aten.resolve_conj.default)
def _as_it_is(x: Tensor) -> Tensor:
    pair: Tensor = pair_of(x)
    return pair


_RULES[aten.complex.default] = _join


@_rule(aten.zeros.default)
def _zeros(size: Sequence[int], *, dtype: torch.dtype, **_: Any) -> Tensor:
    return aten.full.default([*size, 2], 0, dtype=dtype.to_real())


@_rule(aten.full.default)
def _full(
    size: Sequence[int], value: complex, *, dtype: torch.dtype | None = None, **_: Any
) -> Tensor:
    dtype = torch.get_default_dtype() if dtype is None else dtype.to_real()
    parts = _numbers(value)
    return _join(*(aten.full.default([*size], part, dtype=dtype) for part in parts))


@_rule(aten.new_empty_strided.default)
def _empty(x: Tensor, size: Sequence[int], _: Sequence[int], **__: Any) -> Tensor:
    return aten.new_zeros.default(pair_of(x), [*size, 2])


@_rule(aten.scalar_tensor.default)
def _scalar(value: complex, *, dtype: torch.dtype, **_: Any) -> Tensor:
    return _full((), value, dtype=dtype)


@_rule(aten.polar.default)
def _polar(size: Tensor, angle: Tensor) -> Tensor:
    cosine, sine = aten.cos.default(angle), aten.sin.default(angle)
    return _join(aten.mul.Tensor(size, cosine), aten.mul.Tensor(size, sine))


@_rule(aten._to_copy.default)
def _to_copy(x: Tensor, *, dtype: torch.dtype, **_: Any) -> Tensor:
    if not dtype.is_complex:
        return aten._to_copy.default(_parts(x)[0], dtype=dtype)
    pair: Tensor = pair_of(x) if x.is_complex() else _paired(x)
    return aten._to_copy.default(pair, dtype=dtype.to_real())


@_rule(aten._conj.default, aten.conj_physical.default, aten._conj_physical.default)
def _conjugate(x: Tensor | complex) -> Tensor:
    if isinstance(x, complex):
        return _join(*map(aten.scalar_tensor.default, (x.real, -x.imag)))
    real, imaginary = _parts(x)
    return _join(real, aten.neg.default(imaginary))


@_rule(aten.abs.default)
def _size(x: Tensor) -> Tensor:
    pair = pair_of(x)
    return aten.sqrt.default(aten.sum.dim_IntList(aten.mul.Tensor(pair, pair), [-1]))


@_rule(aten.sgn.default)
def _direction(x: Tensor) -> Tensor:
    size = _size(x)
    ones = aten.full.default([], 1.0, dtype=size.dtype)
    size = aten.where.self(aten.eq.Scalar(size, 0.0), ones, size)
    return _join(*(aten.div.Tensor(part, size) for part in _parts(x)))


@_rule(aten.angle.default)
def _angle(x: Tensor) -> Tensor:
    real, imaginary = _parts(x)
    return aten.atan2.default(imaginary, real)


# Arithmetic.


@_rule(aten.add.Tensor)
def _add(a: Any, b: Any, *, alpha: float = 1) -> Tensor:
    (re_a, im_a), (re_b, im_b) = _parts(a), _parts(b)
    return _join(_sum(re_a, re_b, alpha), _sum(im_a, im_b, alpha))


def _sum(a: Any, b: Any, alpha: float) -> Tensor:
    if b is None:
        return a  # type: ignore[no-any-return]
    if isinstance(a, Tensor):
        return aten.add.Tensor(a, b, alpha=alpha)
    scaled = _product(b, alpha)
    return scaled if a is None else aten.add.Tensor(scaled, a)


@_rule(aten.sub.Tensor)
def _sub(a: Any, b: Any, *, alpha: float = 1) -> Tensor:
    return _add(a, b, alpha=-alpha)


@_rule(aten.mul.Tensor, aten.mul.Scalar)
def _mul(a: Any, b: Any) -> Tensor:
    (re_a, im_a), (re_b, im_b) = _parts(a), _parts(b)
    if im_a is not None and im_b is not None:
        real = aten.sub.Tensor(_product(re_a, re_b), _product(im_a, im_b))
        return _join(real, aten.add.Tensor(_product(re_a, im_b), _product(im_a, re_b)))
    if im_a is None:
        return _join(_product(re_a, re_b), _product(re_a, im_b))
    return _join(_product(re_a, re_b), _product(im_a, re_b))


def _product(a: Tensor | float, b: Tensor | float) -> Tensor:
    a, b = (a, b) if isinstance(a, Tensor) else (b, a)
    return aten.mul.Tensor(a, b)


@_rule(aten.div.Tensor)
def _div(a: Any, b: Any) -> Tensor:
    if not (isinstance(b, complex) or (isinstance(b, Tensor) and b.is_complex())):
        real, imaginary = _parts(a)
        return _join(aten.div.Tensor(real, b), aten.div.Tensor(imaginary, b))
    re_b, im_b = _parts(b)
    square = aten.add.Tensor(_product(re_b, re_b), _product(im_b, im_b))
    re_a, im_a = _parts(a)
    real, other = _product(re_a, re_b), aten.neg.default(_product(re_a, im_b))
    if im_a is not None:
        real = aten.add.Tensor(real, _product(im_a, im_b))
        other = aten.add.Tensor(other, _product(im_a, re_b))
    return _join(aten.div.Tensor(real, square), aten.div.Tensor(other, square))


@_rule(aten.mm.default, aten.bmm.default)
def _matrix_product(a: Tensor, b: Tensor) -> Tensor:
    (re_a, im_a), (re_b, im_b) = _parts(a), _parts(b)
    product = aten.mm.default if a.dim() == 2 else aten.bmm.default
    real = aten.sub.Tensor(product(re_a, re_b), product(im_a, im_b))
    return _join(real, aten.add.Tensor(product(re_a, im_b), product(im_a, re_b)))


@_rule(aten.reciprocal.default)
def _reciprocal(x: Tensor) -> Tensor:
    return _div(1, x)


@_rule(aten.pow.Tensor_Scalar)
def _power(x: Tensor, exponent: float) -> Tensor:
    if exponent == 0:
        real, imaginary = _parts(x)
        return _join(aten.ones_like.default(real), aten.zeros_like.default(imaginary))
    if exponent == 1:
        return pair_of(x)  # type: ignore[no-any-return]
    if exponent == 2:
        return _mul(x, x)
    size = aten.pow.Tensor_Scalar(_size(x), exponent)
    return _polar(size, _product(_angle(x), exponent))


@_rule(aten.sqrt.default)
def _root(x: Tensor) -> Tensor:
    return _power(x, 0.5)


@_rule(aten.exp.default)
def _exp(x: Tensor) -> Tensor:
    real, imaginary = _parts(x)
    return _polar(aten.exp.default(real), imaginary)


@_rule(aten.log.default)
def _log(x: Tensor) -> Tensor:
    return _join(aten.log.default(_size(x)), _angle(x))


@_rule(aten.cos.default)
def _cos(x: Tensor) -> Tensor:
    real, imaginary = _parts(x)
    return _join(
        _product(aten.cos.default(real), aten.cosh.default(imaginary)),
        aten.neg.default(_product(aten.sin.default(real), aten.sinh.default(imaginary))),
    )


@_rule(aten.sin.default)
def _sin(x: Tensor) -> Tensor:
    real, imaginary = _parts(x)
    return _join(
        _product(aten.sin.default(real), aten.cosh.default(imaginary)),
        _product(aten.cos.default(real), aten.sinh.default(imaginary)),
    )


# Choices.


@_rule(aten.where.self)
def _where(mask: Tensor, a: Tensor, b: Tensor) -> Tensor:
    chosen = (aten.where.self(mask, x, y) for x, y in zip(*map(_both, (a, b)), strict=True))
    return _join(*chosen)


@_rule(aten.masked_fill.Scalar)
def _masked_fill(x: Tensor, mask: Tensor, value: complex) -> Tensor:
    filled = zip(_parts(x), _numbers(value), strict=True)
    return _join(*(aten.masked_fill.Scalar(part, mask, number) for part, number in filled))


@_rule(aten.constant_pad_nd.default)
def _pad(x: Tensor, pad: Sequence[int], value: complex = 0) -> Tensor:
    padded = zip(_parts(x), _numbers(value), strict=True)
    return _join(*(aten.constant_pad_nd.default(part, pad, number) for part, number in padded))


@_rule(aten.eq.Scalar, aten.eq.Tensor)
def _equal(a: Tensor, b: Any) -> Tensor:
    (re_a, im_a), (re_b, im_b) = (
        _both(x) if isinstance(x, Tensor) else _numbers(x) for x in (a, b)
    )
    same = aten.eq.Tensor if isinstance(b, Tensor) else aten.eq.Scalar
    return aten.logical_and.default(same(re_a, re_b), same(im_a, im_b))


@_rule(aten.ne.Scalar, aten.ne.Tensor)
def _unequal(a: Tensor, b: Any) -> Tensor:
    return aten.logical_not.default(_equal(a, b))


@_rule(aten.isnan.default)
def _is_nan(x: Tensor) -> Tensor:
    return aten.logical_or.default(*map(aten.isnan.default, _parts(x)))


# Fourier transforms.


@_rule(aten._fft_c2c.default)
def _fft(x: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Tensor:
    dims = [d % x.dim() for d in dim]
    return ours.fft.default(pair_of(x), dims, normalization, forward)


@_rule(aten._fft_r2c.default)
def _fft_of_real(x: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Tensor:
    dims = [d % x.dim() for d in dim]
    whole = ours.fft.default(_paired(x), dims, normalization, True)
    half = x.shape[dims[-1]] // 2 + 1
    return aten.slice.Tensor(whole, dims[-1], 0, half) if onesided else whole


@_rule(aten._fft_c2r.default)
def _fft_to_real(x: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
    dims = [d % x.dim() for d in dim]
    return ours.fft_to_real.default(pair_of(x), dims, normalization, last_dim_size)
