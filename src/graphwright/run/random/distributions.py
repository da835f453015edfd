"""Numbers of a distribution for the elements of a box, each from random words of its own place.

    uniform        as many bits as the dtype holds: 8, 11, 24 or 53
    normal         Box-Muller: sqrt(-2 log u) cos(turn), of two uniforms of the same element
    integers       the high half of (64 random bits) * range
    gamma          Marsaglia and Tsang's method
    poisson        inversion for rates below 10, otherwise Hoermann's PTRS

The last two reject some attempts: every attempt draws under a name of its own, so that what one
element needs does not depend on the others. Everything is computed in float64, by functions that
are the same on every device (`elementary`); the words come from `philox`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil, inf, nan

import torch
from torch import Tensor

from graphwright.run.random.elementary import cos_sin, exp, log, log_factorial, sqrt
from graphwright.run.random.philox import WORD, RandomBox, fill

_DIGITS = {torch.bfloat16: 8, torch.float16: 11, torch.float32: 24}
_WIDE = {
    torch.bfloat16: torch.float32, torch.float16: torch.float32, torch.complex32: torch.complex64,
}  # fmt: skip
_ATTEMPTS = 200
"""More than any element will ever need: an attempt fails in less than half of all cases."""


def below(place: RandomBox, name: str, p: float, device: torch.device) -> Tensor:
    """True with probability p: whether a uniform number of 32 bits is less than p."""
    limit = ceil(p * 2**32)
    return fill(place, name, 1, lambda word: word < limit, torch.bool, device)


def uniform(place: RandomBox, name: str, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Uniform in [0, 1); both parts of a complex number are."""
    if dtype.is_complex:
        real, imaginary = (
            uniform(place, f"{name}.{part}", dtype.to_real(), device)
            for part in ("real", "imaginary")
        )
        return torch.complex(*(x.to(wide(x.dtype)) for x in (real, imaginary))).to(dtype)
    if dtype == torch.float64:
        return fill(place, name, 2, _uniform_53, dtype, device)
    digits = _DIGITS[dtype]
    value = lambda word: (word >> (32 - digits)).to(torch.float32).mul_(2.0**-digits)
    return fill(place, name, 1, value, dtype, device)


def _uniform_53(a: Tensor, b: Tensor) -> Tensor:
    return ((a >> 5 << 26) + (b >> 6)).to(torch.float64).mul_(2.0**-53)


def inner_uniform(place: RandomBox, name: str, device: torch.device) -> Tensor:
    """Uniform in (0, 1), float64: neither end is ever drawn, so that its logarithm is below 0."""
    return fill(place, name, 2, _inner, torch.float64, device)


def _inner(a: Tensor, b: Tensor) -> Tensor:
    return ((a >> 6 << 26) + (b >> 6)).to(torch.float64).add_(0.5).mul_(2.0**-52)


def normal(place: RandomBox, name: str, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Normal with mean 0 and variance 1; the parts of a complex number share that variance."""
    if dtype.is_complex:
        return fill(place, name, 4, _normal_pair, wide(dtype), device).to(dtype)
    if dtype == torch.float64:
        return fill(place, name, 4, _normal_long, dtype, device)
    return fill(place, name, 2, _normal_short, wide(dtype), device).to(dtype)


def _normal_short(a: Tensor, b: Tensor) -> Tensor:
    u = a.to(torch.float64).add_(0.5).mul_(2.0**-32)
    turns = b.to(torch.float64).mul_(2.0**-32)
    return sqrt(log(u).mul_(-2)).mul_(cos_sin(turns)[0])


def _normal_long(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    return sqrt(log(_inner(a, b)).mul_(-2)).mul_(cos_sin(_uniform_53(c, d))[0])


def _normal_pair(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    radius = sqrt(log(_inner(a, b)).neg_())
    cosine, sine = cos_sin(_uniform_53(c, d))
    return torch.complex(radius * cosine, radius * sine)


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype to compute in: single precision for half, which devices treat differently."""
    return _WIDE.get(dtype, dtype)


def rounded(x: Tensor, dtype: torch.dtype) -> Tensor:
    """float64 as `dtype`, in the steps that every device takes."""
    return x.to(torch.float32).to(dtype) if dtype in _DIGITS else x.to(dtype)


def integers(place: RandomBox, name: str, low: int, high: int, device: torch.device) -> Tensor:
    """Whole numbers in [low, high), int64."""
    value = partial(_scaled, low=low, size=high - low)
    return fill(place, name, 2, value, torch.int64, device)


def _scaled(upper: Tensor, lower: Tensor, *, low: int, size: int) -> Tensor:
    """The high 64 bits of a product of 64 by 64 bits, from products of 32 by 32."""
    size_upper, size_lower = size >> 32, size & WORD
    middle = _high(lower * size_lower)
    cross = upper * size_lower
    total = _high(cross).add_(low)
    middle += cross & WORD
    if size_upper:
        cross = lower * size_upper
        middle += cross & WORD
        total += _high(cross)
        total += upper * size_upper
    return total.add_(middle >> 32)


def _high(x: Tensor) -> Tensor:
    return (x >> 32).bitwise_and_(WORD)


def bits(place: RandomBox, name: str, device: torch.device) -> Tensor:
    """63 random bits, int64."""
    return fill(place, name, 2, lambda a, b: (a >> 1 << 32) + b, torch.int64, device)


def exponential(place: RandomBox, name: str, device: torch.device) -> Tensor:
    """Exponential with rate 1, float64, never 0."""
    value = lambda a, b: log(_inner(a, b)).neg_()
    return fill(place, name, 2, value, torch.float64, device)


def _first_accepted(attempt: Callable[[int], tuple[Tensor, Tensor]], done: Tensor) -> Tensor:
    """The value of each element's first accepted attempt; `done` are those that need none."""
    value, accepted = attempt(0)
    done = done | accepted
    for number in range(1, _ATTEMPTS):
        if bool(done.all()):
            break
        again, accepted = attempt(number)
        value = torch.where(done, value, again)
        done = done | accepted
    return value


def gamma(place: RandomBox, name: str, shape: Tensor) -> Tensor:
    """Gamma with these shape parameters and scale 1, float64; nan where a shape is negative."""
    usable = (shape > 0) & (shape < inf)
    a = torch.where(usable, shape, 1.0)
    raised = torch.where(a < 1, a + 1, a)
    d = raised - 1 / 3
    c = 1 / sqrt(d * 9)

    def attempt(number: int) -> tuple[Tensor, Tensor]:
        x = normal(place, f"{name}.{number}.normal", torch.float64, shape.device)
        u = inner_uniform(place, f"{name}.{number}.uniform", shape.device)
        t = x * c + 1
        v = torch.where(t > 0, t * t * t, 1.0)
        accepted = log(u) < x * x * 0.5 + d - d * v + d * log(v)
        return d * v, accepted & (t > 0)

    value = _first_accepted(attempt, ~usable)
    u = inner_uniform(place, f"{name}.raise", shape.device)
    value = torch.where(a < 1, value * exp(log(u) / a), value)
    return torch.where(usable, value, torch.where(shape < 0, nan, shape))


def poisson(place: RandomBox, name: str, rate: Tensor) -> Tensor:
    """Poisson with these rates, float64."""
    usable = (rate > 0) & (rate < inf)
    small = usable & (rate < 10)
    large = usable & ~small
    value = rate
    if bool(small.any()):
        u = inner_uniform(place, f"{name}.inverse", rate.device)
        value = torch.where(small, _inverse_poisson(torch.where(small, rate, 1.0), u), value)
    if bool(large.any()):
        drawn = _large_poisson(place, name, torch.where(large, rate, 10.0), ~large)
        value = torch.where(large, drawn, value)
    return value


def _inverse_poisson(rate: Tensor, u: Tensor) -> Tensor:
    """The first k at which the probabilities of 0 to k add up to u; below 64 for rates below 10."""
    term = exp(-rate)
    total, k = term.clone(), torch.zeros_like(rate)
    for number in range(1, 64):
        k += u > total
        term = term * rate * (1 / number)
        total += term
    return k


def _large_poisson(place: RandomBox, name: str, rate: Tensor, done: Tensor) -> Tensor:
    """Hoermann 1993, "The transformed rejection method for generating Poisson random variables"."""
    log_rate = log(rate)
    b = sqrt(rate) * 2.53 + 0.931
    a = b * 0.02483 - 0.059
    log_inverse_alpha = log(1.1328 / (b - 3.4) + 1.1239)
    squeeze = 0.9277 - 3.6224 / (b - 2)

    def attempt(number: int) -> tuple[Tensor, Tensor]:
        u = inner_uniform(place, f"{name}.{number}.place", rate.device) - 0.5
        v = inner_uniform(place, f"{name}.{number}.height", rate.device)
        edge = 0.5 - u.abs()
        k = ((a * 2 / edge + b) * u + rate + 0.43).floor()
        quick = (edge >= 0.07) & (v <= squeeze)
        never = (k < 0) | ((edge < 0.013) & (v > edge))
        k = k.clamp_min(0)
        height = log(v) + log_inverse_alpha - log(a / (edge * edge) + b)
        return k, quick | (~never & (height <= k * log_rate - rate - log_factorial(k)))

    return _first_accepted(attempt, done)
