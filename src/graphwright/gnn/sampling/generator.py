"""Where random choices come from: one generator of seeds, which `dgl.seed` sets.

Each call of a sampler takes one seed of 64 bits from the generator. Within the call, every row or
walk has a stream of its own, made of that seed and its place (SplitMix64, Steele et al. 2014), so a
result depends on the seed alone. `seeded` lets a data loader say the seed of each mini-batch: which
process draws it, and in which order, then changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch

from graphwright.tasks import inlined

_STEP = np.uint64(0x9E3779B97F4A7C15)
_source = np.random.default_rng()
_given: ContextVar[np.random.Generator | None] = ContextVar("given", default=None)


def seed(val: int) -> None:
    """Make all samplers that follow reproducible; PyTorch's own generator is another."""
    global _source
    _source = np.random.default_rng(abs(int(val)))


def next_seed() -> np.uint64:
    """A seed for one call of a sampler."""
    source = _given.get() or _source
    return np.uint64(source.integers(0, 2**64, dtype=np.uint64))


def torch_generator() -> torch.Generator:
    """A generator of PyTorch's with a seed of its own."""
    made = torch.Generator()
    made.manual_seed(int(next_seed() >> np.uint64(1)))
    return made


@contextmanager
def seeded(*parts: int) -> Iterator[None]:
    """Within this context, and this thread, samplers draw from these numbers alone."""
    before = _given.set(np.random.default_rng(parts))
    try:
        yield
    finally:
        _given.reset(before)


@inlined
def stream(seed: Any, place: Any) -> Any:
    """The state with which the stream of a row begins."""
    return mixed(seed ^ mixed(np.uint64(place) + _STEP))


@inlined
def advance(state: Any) -> Any:
    """The next state of a stream; `mixed` and `uniform` make a number of it."""
    return state + _STEP


@inlined
def mixed(state: Any) -> Any:
    """64 random bits of a state."""
    bits = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@inlined
def uniform(state: Any) -> Any:
    """A random number from 0 up to, but without, 1."""
    return np.float64(mixed(state) >> np.uint64(11)) * 1.1102230246251565e-16
