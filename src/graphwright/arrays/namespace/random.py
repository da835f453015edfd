"""Random arrays. A seed and a shape say which numbers, however many workers draw them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.arrays.array import Array, cast, make, wrap
from graphwright.arrays.errors import InvalidArgument
from graphwright.arrays.namespace.elementwise import apply
from graphwright.arrays.namespace.searching import argsort

Size = int | Sequence[int] | None


class Generator:
    """A source of random arrays; each call draws from a stream of its own."""

    def __init__(self, seed: int | None = None) -> None:
        self._seeds = np.random.SeedSequence(seed)

    def _draw(self, distribution: str, size: Size, dtype: Any = np.float64) -> Array:
        shape = () if size is None else (size,) if isinstance(size, int) else tuple(size)
        if any(n < 0 for n in shape):
            raise InvalidArgument(f"size {size} is negative")
        (child,) = self._seeds.spawn(1)
        seed = int(child.generate_state(1, np.uint64)[0]) >> 1
        attrs: dict[str, Any] = {
            "distribution": distribution,
            "seed": seed,
            "size": shape,
            "whole": shape,
        }
        return make("array.random", [], attrs | {"dtype": np.dtype(dtype).name}, shape, dtype)

    def random(self, size: Size = None, dtype: Any = np.float64) -> Array:
        """Uniform numbers from 0 to 1."""
        return self._draw("uniform", size, dtype)

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Size = None) -> Array:
        """Uniform numbers from `low` to `high`."""
        return _moved(self._draw("uniform", size), high - low, low)

    def standard_normal(self, size: Size = None, dtype: Any = np.float64) -> Array:
        """Normal numbers of mean 0 and variance 1."""
        return self._draw("normal", size, dtype)

    def normal(self, loc: float = 0.0, scale: float = 1.0, size: Size = None) -> Array:
        """Normal numbers."""
        _check_scale(scale)
        return _moved(self._draw("normal", size), scale, loc)

    def exponential(self, scale: float = 1.0, size: Size = None) -> Array:
        """Exponential numbers."""
        _check_scale(scale)
        return _moved(self._draw("exponential", size), scale, 0.0)

    def integers(
        self,
        low: int,
        high: int | None = None,
        size: Size = None,
        dtype: Any = np.int64,
        endpoint: bool = False,
    ) -> Array:
        """Whole numbers from `low` up to, but not, `high`; from 0 with one argument.

        With `endpoint`, `high` may be drawn, too.
        """
        first, end = (0, low) if high is None else (low, high)
        span, limits = end - first + bool(endpoint), np.iinfo(dtype)
        if span < 1 or first < limits.min or first + span - 1 > limits.max:
            kind = "a closed" if endpoint else "a half-open"
            raise InvalidArgument(
                f"no integers from {first} to {end} as {kind} range of {limits.dtype}; low has to "
                f"be below high, both from {limits.min} to {limits.max}"
            )
        words = self._draw("bits", size, np.uint64)
        if span < 1 << 64:
            name = "graphwright.arrays.operators.random_numbers.scale_words"
            factor = wrap(np.asarray(span, np.uint64))
            words = make("array.map", [words, factor], {"function": name}, words.shape, np.uint64)
        start = wrap(np.asarray(first % (1 << 64), np.uint64))
        return cast(cast(apply("add", words, start), np.int64), dtype)

    def permutation(self, x: int) -> Array:
        """The whole numbers below x in random order."""
        return argsort(self._draw("uniform", x))


def _moved(x: Array, scale: float, start: float) -> Array:
    """Numbers at another scale."""
    wide = x if scale == 1 else apply("multiply", x, scale)
    return wide if start == 0 else apply("add", wide, start)


def _check_scale(scale: float) -> None:
    if scale < 0:
        raise InvalidArgument(f"scale {scale} is negative")


def default_rng(seed: int | None = None) -> Generator:
    """A source of random arrays."""
    return Generator(seed)


_shared = Generator()


def seed(value: int | None = None) -> None:
    """Start the shared source anew."""
    _shared.__init__(value)  # type: ignore[misc]


def rand(*shape: int) -> Array:
    """Uniform numbers from the shared source."""
    return _shared.random(shape)


def randn(*shape: int) -> Array:
    """Normal numbers from the shared source."""
    return _shared.standard_normal(shape)


FUNCTIONS: dict[str, Any] = {
    "default_rng": default_rng, "Generator": Generator, "seed": seed, "rand": rand, "randn": randn,
    "random": lambda size=None: _shared.random(size), "uniform": _shared.uniform,
    "normal": _shared.normal, "standard_normal": _shared.standard_normal,
    "integers": _shared.integers, "exponential": _shared.exponential,
}  # fmt: skip
