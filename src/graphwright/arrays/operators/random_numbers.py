"""Random numbers by an element's place: however an array is tiled, it holds the same.

Element k, in row-major order, is made of word k of a counter-based generator (Philox-4x64; Salmon
et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), which can be started anywhere. A normal
number is the quantile of a uniform one, so that an element needs one word whatever it draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

WORDS_PER_STEP = 4


def draw_box(
    distribution: str,
    seed: int,
    shape: Sequence[int],
    box: Sequence[Sequence[int]] | None,
    dtype: str,
) -> NDArray[Any]:
    """The elements of a box of an array of `shape`; of all of it without a box."""
    words = _words(seed, tuple(shape), box)
    if distribution == "bits":
        return words.astype(dtype)
    uniform = (words >> np.uint64(11)) * 2.0**-53
    if distribution == "uniform":
        return uniform.astype(dtype, copy=False)
    if distribution == "normal":
        from scipy.special import ndtri

        return np.asarray(ndtri(uniform + 2.0**-54), dtype=dtype)
    if distribution == "exponential":
        return np.asarray(-np.log1p(-uniform), dtype=dtype)
    raise ValueError(f"unknown distribution {distribution!r}")


def scale_words(words: NDArray[np.uint64], span: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Whole numbers below `span`: the upper 64 of the 128 bits of a word times the span.

    Lemire 2019, "Fast random integer generation in an interval", without his rejection step: no
    number is likelier than another by more than a word in 2**64.
    """
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a, b, c, d = words >> half, words & low, span >> half, span & low
    middle = a * d + (b * d >> half)
    made: NDArray[np.uint64] = a * c + (middle >> half) + ((middle & low) + b * c >> half)
    return made


def _words(
    seed: int, shape: tuple[int, ...], box: Sequence[Sequence[int]] | None
) -> NDArray[np.uint64]:
    ranges = [(0, n) for n in shape] if box is None else [(int(a), int(b)) for a, b in box]
    sizes = tuple(stop - start for start, stop in ranges)
    if 0 in sizes:
        return np.zeros(sizes, np.uint64)
    whole = len(shape)  # dims from here on are complete, so their elements are consecutive
    while whole and ranges[whole - 1] == (0, shape[whole - 1]):
        whole -= 1
    lead = max(whole - 1, 0)
    run = prod(sizes[lead:])
    made = np.empty((prod(sizes[:lead]), run), np.uint64)
    strides = [prod(shape[d + 1 :]) for d in range(len(shape))]
    offset = sum(start * stride for (start, _), stride in zip(ranges, strides, strict=True))
    for row, place in enumerate(np.ndindex(sizes[:lead])):
        first = offset + sum(p * s for p, s in zip(place, strides[:lead], strict=True))
        made[row] = _consecutive(seed, first, run)
    return made.reshape(sizes)


def _consecutive(seed: int, first: int, count: int) -> NDArray[np.uint64]:
    generator = np.random.Philox(key=seed)
    step, skipped = divmod(first, WORDS_PER_STEP)
    generator.advance(step)
    words: NDArray[np.uint64] = generator.random_raw(skipped + count)
    return words[skipped:]
