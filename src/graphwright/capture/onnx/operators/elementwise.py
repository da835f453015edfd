"""Element-wise operators, comparisons and conversions."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor

from graphwright.capture.onnx.operators.table import OPERATORS, Call, Operator, first, operator
from graphwright.capture.onnx.tensors import dtype_of

Number = int | float

_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "Abs": torch.abs, "Neg": torch.neg, "Exp": torch.exp, "Log": torch.log, "Sqrt": torch.sqrt,
    "Reciprocal": torch.reciprocal, "Floor": torch.floor, "Ceil": torch.ceil,
    "Round": torch.round, "Sign": torch.sign, "Sin": torch.sin, "Cos": torch.cos,
    "Tan": torch.tan, "Asin": torch.asin, "Acos": torch.acos, "Atan": torch.atan,
    "Sinh": torch.sinh, "Cosh": torch.cosh, "Asinh": torch.asinh, "Acosh": torch.acosh,
    "Atanh": torch.atanh, "Erf": torch.erf, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh,
    "Relu": torch.relu, "Softsign": F.softsign, "Softplus": F.softplus, "Mish": F.mish,
    "HardSwish": F.hardswish, "Not": torch.logical_not, "IsNaN": torch.isnan,
    "BitwiseNot": torch.bitwise_not,
}  # fmt: skip
_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "And": torch.logical_and,
    "Or": torch.logical_or, "Xor": torch.logical_xor, "Equal": torch.eq, "Greater": torch.gt,
    "GreaterOrEqual": torch.ge, "Less": torch.lt, "LessOrEqual": torch.le,
    "BitwiseAnd": torch.bitwise_and, "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor,
}  # fmt: skip
_MANY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Sum": torch.add, "Min": torch.minimum, "Max": torch.maximum,
}  # fmt: skip


def _file() -> None:
    def plain(name: str, kernel: Callable[..., Tensor]) -> None:
        none = frozenset[int]()
        OPERATORS[name] = Operator(kernel=kernel, static=none, optional=none)

    for name, one in _UNARY.items():
        plain(name, lambda call, x, one=one: one(x))
    for name, two in _BINARY.items():
        plain(name, lambda call, a, b, two=two: two(a, b))
    for name, two in _MANY.items():
        plain(name, lambda call, *each, two=two: reduce(two, each))


_file()


@operator("Identity")
def identity(call: Call, x: Tensor) -> Tensor:
    return x


@operator("Mean")
def mean(call: Call, *each: Tensor) -> Tensor:
    return reduce(torch.add, each) / len(each)


@operator("Div")
def div(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """Whole numbers are cut towards zero."""
    if a.dtype.is_floating_point:
        return a / b
    return torch.div(a, b, rounding_mode="trunc")


@operator("Mod")
def mod(call: Call, a: Tensor, b: Tensor) -> Tensor:
    return torch.fmod(a, b) if call.whole("fmod") else torch.remainder(a, b)


@operator("Pow", optional=(1,))
def power(call: Call, x: Tensor, exponent: Tensor | Number) -> Tensor:
    if isinstance(exponent, list):
        raise NotImplementedError("a known exponent for each element")
    return torch.pow(x, exponent).to(x.dtype)


@operator("Clip", optional=(1, 2))
def clip(
    call: Call,
    x: Tensor,
    low: Tensor | Number | None = None,
    high: Tensor | Number | None = None,
) -> Tensor:
    """The limits are attributes before version 11."""
    limits = [
        first(given, call.number(name, 0.0) if name in call.attrs else None)
        for given, name in ((low, "min"), (high, "max"))
    ]
    if limits == [None, None]:
        return x
    if any(isinstance(limit, Tensor) for limit in limits):
        for limit, choose in zip(limits, (torch.maximum, torch.minimum), strict=True):
            if limit is not None:
                x = choose(x, torch.as_tensor(limit, dtype=x.dtype))
        return x
    if limits[0] == 0 and limits[1] is None:
        return torch.relu(x)
    return torch.clamp(x, *limits)


@operator("Where")
def where(call: Call, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.where(condition, a, b)


@operator("Cast")
def cast(call: Call, x: Tensor) -> Tensor:
    return x.to(dtype_of(call.whole("to"), "the result"))


@operator("CastLike")
def cast_like(call: Call, x: Tensor, like: Tensor) -> Tensor:
    return x.to(like.dtype)


@operator("Dropout")
def dropout(call: Call, x: Tensor, *options: Tensor | None) -> Tensor:
    """At rest."""
    if call.num_outputs > 1 or (len(options) > 1 and options[1] is not None):
        raise NotImplementedError("dropout that trains, or gives its mask")
    return x


@operator("Gelu")
def gelu(call: Call, x: Tensor) -> Tensor:
    return F.gelu(x, approximate=call.text("approximate", "none"))


@operator("HardSigmoid")
def hard_sigmoid(call: Call, x: Tensor) -> Tensor:
    slope, shift = call.number("alpha", 0.2), call.number("beta", 0.5)
    if abs(slope - 1 / 6) < 1e-7 and shift == 0.5:
        return F.hardsigmoid(x)
    return torch.clamp(slope * x + shift, 0, 1)


@operator("Elu")
def elu(call: Call, x: Tensor) -> Tensor:
    return F.elu(x, call.number("alpha", 1.0))


@operator("Celu")
def celu(call: Call, x: Tensor) -> Tensor:
    return F.celu(x, call.number("alpha", 1.0))


@operator("Selu")
def selu(call: Call, x: Tensor) -> Tensor:
    if "alpha" in call.attrs or "gamma" in call.attrs:
        raise NotImplementedError("factors of its own")
    return F.selu(x)


@operator("LeakyRelu")
def leaky_relu(call: Call, x: Tensor) -> Tensor:
    return F.leaky_relu(x, call.number("alpha", 0.01))


@operator("ThresholdedRelu")
def thresholded_relu(call: Call, x: Tensor) -> Tensor:
    return F.threshold(x, call.number("alpha", 1.0), 0.0)


@operator("PRelu")
def prelu(call: Call, x: Tensor, slope: Tensor) -> Tensor:
    return torch.where(x < 0, x * slope, x)


@operator("Swish")
def swish(call: Call, x: Tensor) -> Tensor:
    return x * torch.sigmoid(call.number("alpha", 1.0) * x)
