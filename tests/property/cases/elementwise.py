"""Element-wise operators: broadcasting, ties and kinks, integers and booleans where models use them."""

from collections.abc import Callable

import torch
from hypothesis import strategies as st

from cases import Call, Draw, boolean, broadcastable, case, integer, real, shape

Make = Callable[..., torch.Tensor | None]

DIVISOR = st.sampled_from([-2, 1, 4, 0.5])
NUMBER = st.sampled_from([-2, 0, 1, 3, -1.5, 0.5, 2.0])
POSITIVE = st.sampled_from([1, 2, 0.25, 1.5])
WHOLE = st.sampled_from([1, 2, 3, 5])


def floats(draw: Draw, *dims: int) -> torch.Tensor:
    """Reals, about half of them on multiples of 1/2: where functions have their kinks."""
    x = real(draw, *dims, low=-4.0, high=4.0)
    return torch.where(boolean(draw, *dims), x, (2 * x).round() / 2)


def halves(draw: Draw, *dims: int) -> torch.Tensor:
    """Multiples of 1/2, which every floating-point dtype holds exactly."""
    return integer(draw, *dims, low=-8, high=9).double() / 2


def positives(draw: Draw, *dims: int) -> torch.Tensor:
    return real(draw, *dims, low=0.1, high=3.0)


def units(draw: Draw, *dims: int) -> torch.Tensor:
    return real(draw, *dims, low=0.01, high=0.99)


def extremes(draw: Draw, *dims: int) -> torch.Tensor:
    """Reals among which are infinities and nan."""
    special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1.5], dtype=torch.float64)
    return special[integer(draw, *dims, high=6)]


def integers(draw: Draw, *dims: int) -> torch.Tensor:
    return integer(draw, *dims, low=-5, high=6)


def counts(draw: Draw, *dims: int) -> torch.Tensor:
    return integer(draw, *dims, low=1, high=5)


def powers(draw: Draw, *dims: int) -> torch.Tensor:
    """Powers of 2: what they divide is exact in single precision, which quotients of integers have."""
    return 2 ** integer(draw, *dims, low=0, high=4)


def one_of(*makes: Make) -> Make:
    return lambda draw, *dims: draw(st.sampled_from(makes))(draw, *dims)


numbers = one_of(floats, integers)
anything = one_of(floats, integers, boolean)
bits = one_of(integers, boolean)


def maybe(make: Make) -> Make:
    return lambda draw, *dims: make(draw, *dims) if draw(st.booleans()) else None


def calls(ops: str, *makes: Make, same: bool = False, **attrs: st.SearchStrategy[object]) -> None:
    """Draw calls of `ops` with one tensor from each of `makes`; their shapes broadcast, or are the `same`."""

    @case(*ops.split())
    def draw_call(draw: Draw) -> Call:
        dims = shape(draw, high=5)
        inputs = [make(draw, *(dims if same else broadcastable(draw, dims))) for make in makes]
        return {name: draw(strategy) for name, strategy in attrs.items()}, inputs


calls("aten.abs aten.sign aten.sgn aten.square aten.positive aten.relu aten.relu6", numbers)
calls("aten.neg aten.floor aten.ceil aten.trunc aten.round", numbers)
calls("aten.exp aten.expm1 aten.exp2 aten.erf aten.erfc aten.sigmoid aten.frac", floats)
calls("aten.sin aten.cos aten.tan aten.atan aten.sinh aten.cosh aten.tanh aten.asinh", floats)
calls("aten.asin aten.acos aten.atanh aten.erfinv aten.log1p", one_of(floats, units))
calls("aten.log aten.log2 aten.log10 aten.sqrt aten.rsqrt aten.acosh", one_of(floats, positives))
calls("aten.lgamma aten.digamma", positives)
calls("aten.sinc", floats)
calls("aten.i0 aten.special_i0e aten.special_i1 aten.special_i1e", floats)
calls("aten.polygamma", positives, n=st.integers(0, 3))
calls("aten.reciprocal", numbers)
calls("aten.round.decimals", floats, decimals=st.integers(-1, 2))
calls("aten.isnan aten.isinf aten.isfinite aten.isposinf aten.isneginf aten.signbit", extremes)
INSTEAD = st.sampled_from([None, 1.5])
calls("aten.nan_to_num", one_of(extremes, integers), nan=INSTEAD, posinf=INSTEAD, neginf=INSTEAD)
calls("aten.deg2rad aten.rad2deg", floats)
calls("aten.bitwise_not", bits)
calls("aten.logical_not", anything)

calls("aten.add.Tensor aten.mul.Tensor", anything, anything)
calls("aten.sub.Tensor aten.rsub.Tensor", numbers, numbers, alpha=WHOLE)
calls("aten.div.Tensor", anything, one_of(positives, powers))
calls("aten.add.Scalar aten.sub.Scalar aten.rsub.Scalar", numbers, other=NUMBER, alpha=WHOLE)
calls("aten.mul.Scalar", anything, other=NUMBER)
calls("aten.div.Scalar", anything, other=DIVISOR)
calls("aten.remainder.Tensor aten.fmod.Tensor", one_of(floats, integers), one_of(positives, counts))
calls("aten.remainder.Scalar aten.fmod.Scalar", numbers, other=POSITIVE)
calls("aten.remainder.Scalar_Tensor", one_of(positives, counts), self=NUMBER)
calls("aten.floor_divide", numbers, one_of(positives, counts))
calls("aten.floor_divide.Scalar", numbers, other=POSITIVE)
ROUNDING = st.sampled_from([None, "floor", "trunc"])
calls("aten.div.Tensor_mode", numbers, one_of(positives, powers), rounding_mode=ROUNDING)
calls("aten.div.Scalar_mode", numbers, other=DIVISOR, rounding_mode=ROUNDING)
calls("aten.copysign.Tensor aten.atan2 aten.hypot aten.logaddexp", floats, floats)
calls("aten.copysign.Scalar", floats, other=NUMBER)
calls("aten.pow.Tensor_Tensor", one_of(floats, integers), one_of(floats, counts))
calls("aten.pow.Tensor_Scalar", floats, exponent=NUMBER)
calls("aten.pow.Scalar", floats, self=NUMBER)
calls("aten.xlogy.Tensor", floats, one_of(positives, extremes))
calls("aten.xlogy.Scalar_Other", floats, other=POSITIVE)
calls("aten.xlogy.Scalar_Self", positives, self=NUMBER)
calls("aten.heaviside", floats, floats)
calls("aten.maximum aten.minimum", one_of(floats, extremes, integers), numbers)
calls("aten.fmax aten.fmin", one_of(floats, extremes), floats)

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
calls(" ".join(f"aten.{name}.Tensor" for name in COMPARISONS), anything, numbers)
calls(" ".join(f"aten.{name}.Scalar" for name in COMPARISONS), anything, other=NUMBER)
calls("aten.logical_and aten.logical_or aten.logical_xor", anything, anything)
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor")
calls(" ".join(f"aten.{name}.Tensor" for name in BITWISE), bits, bits)
calls(" ".join(f"aten.{name}.Scalar" for name in BITWISE), bits, other=WHOLE)
SHIFTS = ("left_shift", "right_shift")
calls(" ".join(f"aten.bitwise_{name}.Tensor" for name in SHIFTS), integers, counts)
calls(" ".join(f"aten.bitwise_{name}.Tensor_Scalar" for name in SHIFTS), integers, other=WHOLE)

calls("aten.clamp_min", numbers, min=NUMBER)
calls("aten.clamp_max", numbers, max=NUMBER)
calls("aten.clamp_min.Tensor aten.clamp_max.Tensor", floats, floats)
calls("aten.lerp.Tensor", floats, floats, floats)
calls("aten.lerp.Scalar", floats, floats, weight=NUMBER)
calls("aten.addcmul", floats, floats, floats, value=NUMBER)
calls("aten.addcdiv", floats, floats, positives, value=NUMBER)
calls("aten.where.self", boolean, anything, numbers)
calls("aten.where.ScalarSelf", boolean, floats, self=NUMBER)
calls("aten.where.ScalarOther", boolean, floats, other=NUMBER)
calls("aten.where.Scalar", boolean, self=st.just(2.5), other=st.just(-1.0))
calls("aten.masked_fill.Scalar", one_of(floats, integers), boolean, value=WHOLE)

calls("aten.alias aten.detach aten.lift_fresh aten.clone aten.lift_fresh_copy", anything)
calls("aten.fill.Scalar", floats, value=NUMBER)
DTYPE = st.sampled_from([None, "float64", "float32", "bfloat16", "int64", "int32", "bool"])
calls("aten._to_copy", one_of(halves, integers, boolean), dtype=DTYPE)


LIMITS = st.sampled_from([(None, 1), (-1, None), (-0.5, 2), (-1, 2.5), (2, -2)])


@case("aten.clamp")
def clamp(draw: Draw) -> Call:
    low, high = draw(LIMITS)
    return {"min": low, "max": high}, [numbers(draw, *shape(draw))]


@case("aten.clamp.Tensor")
def clamp_tensor(draw: Draw) -> Call:
    dims = shape(draw)
    x, low, high = (floats(draw, *broadcastable(draw, dims)) for _ in range(3))
    absent = draw(st.integers(0, 2))
    return {}, [x, None if absent == 1 else low, None if absent == 2 else high]


@case("aten.masked_fill.Tensor")
def masked_fill(draw: Draw) -> Call:
    dims = shape(draw)
    x, mask = floats(draw, *broadcastable(draw, dims)), boolean(draw, *broadcastable(draw, dims))
    return {}, [x, mask, floats(draw)]


@case("aten.fill.Tensor")
def fill(draw: Draw) -> Call:
    return {}, [floats(draw, *shape(draw)), floats(draw)]


@case("aten.copy")
def copy(draw: Draw) -> Call:
    dims = shape(draw)
    return {}, [floats(draw, *dims), numbers(draw, *broadcastable(draw, dims))]
