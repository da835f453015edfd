"""Root, logarithm, exponential, sine and cosine that give the same bits on every device.

The libraries of CPUs and GPUs differ in the last bit, and a CPU's own may differ between the body
and the tail of an array. Random numbers must not, so these are made of additions, multiplications,
divisions and integer operators alone, which are exactly rounded everywhere. No operator of PyTorch
that could fuse a multiplication with an addition is used.

    sqrt x      Heron's method, from half the exponent
    log x       x = 2^n m,  m in [0.7, 1.4):    n log 2 + log m,  a polynomial in (m - 1) / (m + 1)
    exp x       x = n log 2 + r, |r| < 0.35:    2^n exp r, a polynomial in r
    cos, sin    of whole turns: the nearest quarter is taken off exactly, the rest is a polynomial

All are for float64; the polynomials of log, sin and cos are those of fdlibm.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial, inf, pi

import torch
from torch import Tensor

_LOG = (
    0.6666666666666735130, 0.3999999999940941908, 0.2857142874366239149, 0.2222219843214978396,
    0.1818357216161805012, 0.1531383769920937332, 0.1479819860511658591,
)  # fmt: skip
_SIN = (
    1.0, -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
    2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10,
)  # fmt: skip
_COS = (
    1.0, -0.5, 4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
    -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11,
)  # fmt: skip
_EXP = tuple(1 / factorial(n) for n in range(14))

_LOG2_HIGH, _LOG2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_INVERSE_LOG2 = 1.44269504088896338700
_FRACTION = (1 << 52) - 1
_ROOT_HALF = 0x3FE6A09E << 32  # the bits of sqrt(1/2), as far as they matter
_ONE = 0x3FF00000 << 32
_HALF_EXPONENT = 0x1FF7A3BEA91D9B1B
_LARGEST, _SMALLEST = 709.782712893384, -708.3964185322641


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """The sum of ``coefficients[n] * x ** n``."""
    total = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        total.add_(coefficient).mul_(x)
    return total.add_(coefficients[0])


def sqrt(x: Tensor) -> Tensor:
    """The square root of positive, finite and normal numbers, to within the last bit."""
    root = (x.view(torch.int64) >> 1).add_(_HALF_EXPONENT).view(torch.float64)  # 4 % off
    for _ in range(4):
        root = (x / root).add_(root).mul_(0.5)
    return root


def log(x: Tensor) -> Tensor:
    """The natural logarithm of positive, finite and normal numbers."""
    bits = x.view(torch.int64) + (_ONE - _ROOT_HALF)
    exponent = ((bits >> 52) - 1023).to(torch.float64)
    m = bits.bitwise_and_(_FRACTION).add_(_ROOT_HALF).view(torch.float64)
    s = (m - 1) / (m + 1)
    z = s * s
    tail = polynomial(z, _LOG).mul_(z).mul_(s)
    return exponent * _LOG2_LOW + tail + s * 2 + exponent * _LOG2_HIGH


def exp(x: Tensor) -> Tensor:
    """The exponential; 0 where the result would be less than the least normal number."""
    inside = x.clamp(_SMALLEST, _LARGEST)
    n = (inside * _INVERSE_LOG2 + 0.5).floor_()
    r = inside - n * _LOG2_HIGH - n * _LOG2_LOW
    half = (n * 0.5).floor_()
    value = polynomial(r, _EXP) * _power_of_2(half) * _power_of_2(n - half)
    value = torch.where(x > _LARGEST, inf, value)
    return torch.where(x < _SMALLEST, 0.0, value)


def _power_of_2(n: Tensor) -> Tensor:
    return ((n.to(torch.int64) + 1023) << 52).view(torch.float64)


def cos_sin(turns: Tensor) -> tuple[Tensor, Tensor]:
    """The cosine and the sine of an angle given in whole turns, at most a few."""
    quarter = (turns * 4 + 0.5).floor_()
    angle = (turns - quarter * 0.25) * (2 * pi)
    z = angle * angle
    cosine, sine = polynomial(z, _COS), polynomial(z, _SIN).mul_(angle)
    number = quarter.to(torch.int64) & 3
    odd = (number & 1).bool()
    sign_of_cos = (((number + 1) & 2) - 1).neg_()
    sign_of_sin = ((number & 2) - 1).neg_()
    return (
        torch.where(odd, sine, cosine) * sign_of_cos,
        torch.where(odd, cosine, sine) * sign_of_sin,
    )


def log_factorial(k: Tensor) -> Tensor:
    """The logarithm of k!, for whole k from 0 on: Stirling's series at k + 8, and the way back."""
    x = k + 8
    back = k + 1
    for n in range(2, 8):
        back = back * (k + n)
    y = 1 / x
    series = polynomial(y * y, (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)).mul_(y)
    return (x - 0.5) * log(x) - x + 0.9189385332046727 + series - log(back)


def sum_last(x: Tensor) -> Tensor:
    """The sum over the last dim, added up in an order that only its size decides."""
    while x.shape[-1] > 1:
        half = (x.shape[-1] + 1) // 2
        low, high = x[..., :half], x[..., half:]
        x = torch.cat([low[..., : high.shape[-1]] + high, low[..., high.shape[-1] :]], -1)
    return x
