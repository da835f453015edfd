"""Random operators in the few spellings that have a description, and so the same numbers on any
number of devices.

    randn(size, generator=None)         randn(size), and so the others with a generator
    normal(mean, std, size)             randn(size) * std + mean
    bernoulli(x, p), x.random_(a, b)    bernoulli(p), randint_like(x, a, b)

A generator of one's own is kept, for the recorder to refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphwright.aten import aten
from graphwright.capture.decompose.composites import DECOMPOSITIONS, KEPT, decompose

for _with_generator, _without in (
    (aten.rand.generator, aten.rand.default),
    (aten.randn.generator, aten.randn.default),
    (aten.randint.generator, aten.randint.default),
    (aten.randint.low_generator, aten.randint.low),
    (aten.randperm.generator, aten.randperm.default),
):

    def _draw(*args: Any, _plain: Any = _without, generator: Any = None, **options: Any) -> Any:
        return KEPT if generator is not None else _plain(*args, **options)

    DECOMPOSITIONS[_with_generator] = _draw


@decompose(aten.normal.float_float)
def _normal(
    mean: float, std: float, size: Sequence[int], generator: Any = None, **options: Any
) -> Tensor:
    if generator is not None or std < 0:
        return KEPT
    return torch.randn(size, **options) * std + mean


@decompose(aten.bernoulli.Tensor)
def _bernoulli(x: Tensor, p: Tensor, generator: Any = None) -> Tensor:
    if generator is not None:
        return KEPT
    return torch.bernoulli(p.expand(x.shape)).to(x.dtype)


@decompose(getattr(aten.random, "from"))
def _random_between(x: Tensor, low: int, high: int | None, generator: Any = None) -> Tensor:
    if generator is not None:
        return KEPT
    return torch.randint_like(x, low, _highest(x.dtype) + 1 if high is None else high)


@decompose(aten.random.to)
def _random_below(x: Tensor, high: int, generator: Any = None) -> Tensor:
    return _random_between(x, 0, high, generator)


@decompose(aten.random.default)
def _random(x: Tensor, generator: Any = None) -> Tensor:
    return _random_between(x, 0, None, generator)


def _highest(dtype: torch.dtype) -> int:
    """The largest whole number up to which a dtype has all of them."""
    if dtype.is_floating_point:
        return int(2 / torch.finfo(dtype).eps)
    return 1 if dtype == torch.bool else min(torch.iinfo(dtype).max, 2**63 - 2)
