"""Element-wise operators: arithmetic, comparisons, selections and copies.

Such an operator is described by a function of scalars:

    elementwise("aten.lerp.Scalar", lambda a, b, *, weight: a + weight * (b - a))

Positional parameters are the operator's tensors, which broadcast; keyword-only parameters are
attributes. For overloads that take a number in place of a tensor (``aten.pow``), the last arguments
of `elementwise` name the parameters that are attributes. If a value does not depend on a tensor, as
in `fill`, the tensor still gives the shape: ``where(True, value, x)``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from math import pi

from graphwright.describe.language import (
    Expr,
    Int,
    Operand,
    Tensor,
    describe,
    equal,
    function,
    where,
)

Body = Callable[..., object]


def elementwise(op: str, scalar: Body, *attributes: str) -> None:
    """Describe `op` by a function of scalars whose parameters `attributes` are attributes."""
    given = signature(scalar).parameters.values()
    attrs = [p.name for p in given if p.kind is Parameter.KEYWORD_ONLY or p.name in attributes]
    tensors = [p.name for p in given if p.name not in attrs]

    @wraps(scalar)
    def description(*args: Tensor | None, **known: object) -> Body:
        return lambda *i: scalar(**dict(zip(tensors, elements(args, i), strict=True)), **known)

    set_parameters(description, tensors, attrs)
    describe(op)(description)


def set_parameters(description: Body, tensors: list[str], attrs: list[str]) -> None:
    """Set the signature of `description` to these tensors and attributes."""
    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in tensors]
    parameters += [Parameter(name, Parameter.KEYWORD_ONLY) for name in attrs]
    declared = signature(description).replace(parameters=parameters)
    description.__signature__ = declared  # type: ignore[attr-defined]


def elements(tensors: tuple[Tensor | None, ...], index: tuple[Int, ...]) -> list[Expr | None]:
    """The elements of `tensors` at `index`."""
    return [None if t is None else t[index] for t in tensors]


def binary(name: str, scalar: Body) -> None:
    """Describe the overloads of `name` whose `other` operand is a tensor or a number."""
    elementwise(f"{name}.Tensor", scalar)
    elementwise(f"{name}.Scalar", scalar, "other")


absolute, sign, exp, expm1, log, log1p, log2, log10, sqrt, erf = map(
    function, ("abs", "sign", "exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "erf")
)
sin, cos, tan, asin, acos, atan = map(function, ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, tanh, asinh, acosh, atanh = map(
    function, ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh")
)
floor, ceil, trunc, nearest, isnan, isinf, cast = map(
    function, ("floor", "ceil", "trunc", "round", "isnan", "isinf", "cast")
)
maximum, minimum, differ, either, power = map(function, ("maximum", "minimum", "ne", "xor", "pow"))
INFINITY = float("inf")


def sigmoid(x: Expr) -> Expr:
    """The logistic function."""
    return 1 / (1 + exp(-x))


# -- one operand ---------------------------------------------------------------------------------

elementwise("aten.abs", lambda x: absolute(x))
elementwise("aten.neg", lambda x: -x)
elementwise("aten.positive", lambda x: x)
elementwise("aten.sign", lambda x: sign(x))
elementwise("aten.sgn", lambda x: sign(x))
elementwise("aten.signbit", lambda x: function("signbit")(x))
elementwise("aten.reciprocal", lambda x: 1 / x)
elementwise("aten.square", lambda x: x * x)
elementwise("aten.sqrt", lambda x: sqrt(x))
elementwise("aten.rsqrt", lambda x: 1 / sqrt(x))
elementwise("aten.exp", lambda x: exp(x))
elementwise("aten.exp2", lambda x: power(2.0, x))
elementwise("aten.expm1", lambda x: expm1(x))
elementwise("aten.log", lambda x: log(x))
elementwise("aten.log1p", lambda x: log1p(x))
elementwise("aten.log2", lambda x: log2(x))
elementwise("aten.log10", lambda x: log10(x))
elementwise("aten.sigmoid", lambda x: sigmoid(x))
elementwise("aten.sin", lambda x: sin(x))
elementwise("aten.cos", lambda x: cos(x))
elementwise("aten.tan", lambda x: tan(x))
elementwise("aten.asin", lambda x: asin(x))
elementwise("aten.acos", lambda x: acos(x))
elementwise("aten.atan", lambda x: atan(x))
elementwise("aten.sinh", lambda x: sinh(x))
elementwise("aten.cosh", lambda x: cosh(x))
elementwise("aten.tanh", lambda x: tanh(x))
elementwise("aten.asinh", lambda x: asinh(x))
elementwise("aten.acosh", lambda x: acosh(x))
elementwise("aten.atanh", lambda x: atanh(x))
elementwise("aten.erf", lambda x: erf(x))
elementwise("aten.erfc", lambda x: 1 - erf(x))
elementwise("aten.erfinv", lambda x: function("erfinv")(x))
elementwise("aten.lgamma", lambda x: function("lgamma")(x))
elementwise("aten.digamma", lambda x: function("digamma")(x))
elementwise("aten.sinc", lambda x: where(equal(x, 0), 1, sin(pi * x) / (pi * x)))
elementwise("aten.floor", lambda x: floor(x))
elementwise("aten.ceil", lambda x: ceil(x))
elementwise("aten.trunc", lambda x: trunc(x))
elementwise("aten.frac", lambda x: x - trunc(x))
elementwise("aten.round", lambda x: nearest(x))
elementwise(
    "aten.round.decimals", lambda x, *, decimals: nearest(x * 10.0**decimals) / 10.0**decimals
)
elementwise("aten.deg2rad", lambda x: x * (pi / 180))
elementwise("aten.rad2deg", lambda x: x * (180 / pi))
elementwise("aten.isnan", lambda x: isnan(x))
elementwise("aten.isinf", lambda x: isinf(x))
elementwise("aten.isfinite", lambda x: ~(isnan(x) | isinf(x)))
elementwise("aten.isposinf", lambda x: equal(x, INFINITY))
elementwise("aten.isneginf", lambda x: equal(x, -INFINITY))
elementwise("aten.bitwise_not", lambda x: function("bitnot")(x))
elementwise("aten.logical_not", lambda x: ~x)

# -- two operands --------------------------------------------------------------------------------

binary("aten.add", lambda a, other, *, alpha: a + alpha * other)
binary("aten.sub", lambda a, other, *, alpha: a - alpha * other)
binary("aten.rsub", lambda a, other, *, alpha: other - alpha * a)
binary("aten.mul", lambda a, other: a * other)
binary("aten.div", lambda a, other: a / other)
binary("aten.remainder", lambda a, other: function("remainder")(a, other))
binary("aten.fmod", lambda a, other: function("fmod")(a, other))
binary("aten.copysign", lambda a, other: function("copysign")(a, other))
binary("aten.eq", lambda a, other: equal(a, other))
binary("aten.ne", lambda a, other: differ(a, other))
binary("aten.lt", lambda a, other: a < other)
binary("aten.le", lambda a, other: a <= other)
binary("aten.gt", lambda a, other: a > other)
binary("aten.ge", lambda a, other: a >= other)
binary("aten.bitwise_and", lambda a, other: function("bitand")(a, other))
binary("aten.bitwise_or", lambda a, other: function("bitor")(a, other))
binary("aten.bitwise_xor", lambda a, other: function("bitxor")(a, other))
elementwise("aten.bitwise_left_shift.Tensor", lambda a, b: function("shiftleft")(a, b))
elementwise(
    "aten.bitwise_left_shift.Tensor_Scalar", lambda a, *, other: function("shiftleft")(a, other)
)
elementwise("aten.bitwise_right_shift.Tensor", lambda a, b: function("shiftright")(a, b))
elementwise(
    "aten.bitwise_right_shift.Tensor_Scalar", lambda a, *, other: function("shiftright")(a, other)
)
elementwise("aten.logical_and", lambda a, b: a & b)
elementwise("aten.logical_or", lambda a, b: a | b)
elementwise("aten.logical_xor", lambda a, b: either(a, b))
elementwise("aten.floor_divide", lambda a, b: function("floordiv")(a, b))
elementwise("aten.floor_divide.Scalar", lambda a, *, other: function("floordiv")(a, other))
elementwise(
    "aten.remainder.Scalar_Tensor", lambda other, *, self: function("remainder")(self, other)
)
elementwise("aten.pow.Tensor_Tensor", lambda x, exponent: power(x, exponent))
elementwise("aten.pow.Tensor_Scalar", lambda x, exponent: power(x, exponent), "exponent")
elementwise("aten.pow.Scalar", lambda self, exponent: power(self, exponent), "self")
elementwise("aten.atan2", lambda y, x: function("atan2")(y, x))
elementwise("aten.hypot", lambda a, b: function("hypot")(a, b))
elementwise("aten.logaddexp", lambda a, b: function("logaddexp")(a, b))
elementwise("aten.heaviside", lambda x, step: where(equal(x, 0), step, x > 0))
elementwise("aten.maximum", lambda a, b: maximum(a, b))
elementwise("aten.minimum", lambda a, b: minimum(a, b))
elementwise("aten.fmax", lambda a, b: function("fmax")(a, b))
elementwise("aten.fmin", lambda a, b: function("fmin")(a, b))


def rounded_quotient(a: Expr, other: Expr, *, rounding_mode: str | None) -> Expr:
    match rounding_mode:
        case None:
            return a / other
        case "floor":
            return function("floordiv")(a, other)
        case _:
            return function("truncdiv")(a, other)


elementwise("aten.div.Tensor_mode", rounded_quotient)
elementwise("aten.div.Scalar_mode", rounded_quotient, "other")


def xlogy(x: Expr, other: Expr) -> Expr:
    return where(isnan(other), other, where(equal(x, 0), 0, x * log(other)))


elementwise("aten.xlogy.Tensor", lambda self, other: xlogy(self, other))
elementwise("aten.xlogy.Scalar_Other", lambda self, other: xlogy(self, other), "other")
elementwise("aten.xlogy.Scalar_Self", lambda self, other: xlogy(self, other), "self")

# -- three operands, and choices -----------------------------------------------------------------


def bounded(x: Expr, min: Operand | None, max: Operand | None) -> Expr:
    x = x if min is None else maximum(x, min)
    return x if max is None else minimum(x, max)


elementwise("aten.clamp", lambda x, *, min, max: bounded(x, min, max))
elementwise("aten.clamp.Tensor", lambda x, min, max: bounded(x, min, max))
elementwise("aten.clamp_min", lambda x, *, min: maximum(x, min))
elementwise("aten.clamp_min.Tensor", lambda x, min: maximum(x, min))
elementwise("aten.clamp_max", lambda x, *, max: minimum(x, max))
elementwise("aten.clamp_max.Tensor", lambda x, max: minimum(x, max))
elementwise("aten.lerp.Tensor", lambda a, b, weight: a + weight * (b - a))
elementwise("aten.lerp.Scalar", lambda a, b, *, weight: a + weight * (b - a))
elementwise("aten.addcmul", lambda x, a, b, *, value: x + value * a * b)
elementwise("aten.addcdiv", lambda x, a, b, *, value: x + value * a / b)
elementwise("aten.where.self", lambda condition, self, other: where(condition, self, other))
elementwise(
    "aten.where.ScalarSelf", lambda condition, other, *, self: where(condition, self, other)
)
elementwise(
    "aten.where.ScalarOther", lambda condition, self, *, other: where(condition, self, other)
)
elementwise("aten.where.Scalar", lambda condition, *, self, other: where(condition, self, other))
elementwise("aten.masked_fill.Scalar", lambda x, mask, *, value: where(mask, value, x))
elementwise("aten.masked_fill.Tensor", lambda x, mask, value: where(mask, value, x))

LARGEST = {
    "float64": 1.7976931348623157e308, "float32": 3.4028234663852886e38,
    "bfloat16": 3.3895313892515355e38, "float16": 65504.0,
}  # fmt: skip


def finite(
    x: Expr, *, nan: Expr | None, posinf: Expr | None, neginf: Expr | None, out: Tensor
) -> Expr:
    if out.dtype not in LARGEST:
        return x
    high = LARGEST[out.dtype] if posinf is None else posinf
    low = -LARGEST[out.dtype] if neginf is None else neginf
    known = where(equal(x, INFINITY), high, where(equal(x, -INFINITY), low, x))
    return where(isnan(x), 0 if nan is None else nan, known)


elementwise("aten.nan_to_num", finite)

# -- copies --------------------------------------------------------------------------------------

elementwise("aten.alias", lambda x: x)
elementwise("aten.detach", lambda x: x)
elementwise("aten.lift_fresh", lambda x: x)
elementwise("aten.clone", lambda x: cast(x))
elementwise("aten.lift_fresh_copy", lambda x: cast(x))
elementwise("aten.copy", lambda x, source: where(True, source, x))
elementwise("aten.fill.Scalar", lambda x, *, value: where(True, value, x))
elementwise("aten.fill.Tensor", lambda x, value: where(True, value, x))


def converted(x: Expr, *, out: Tensor) -> Expr:
    if out.dtype == "bool":
        return differ(x, 0)
    return cast(x) if "float" in out.dtype else function("int")(x)


elementwise("aten._to_copy", converted)
