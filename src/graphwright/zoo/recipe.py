"""Recipes of workloads: an entry, a loss, an optimizer and two variants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from graphwright.zoo.workload import Batch, Entry, Loss, RandomTensors

MakeBatch = Callable[[int, RandomTensors], Batch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One configuration: builds the model and a batch for it. `batch_size` None: the entry's."""

    build: Callable[[], nn.Module]
    batch: MakeBatch
    batch_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything `load` needs for one name."""

    entry: Entry
    full: Variant
    small: Variant
    loss_fn: Loss
    optimizer: type[torch.optim.Optimizer]
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)


def small(build: Callable[[], nn.Module], batch: MakeBatch, *, batch_size: int = 4) -> Variant:
    """The variant for tests."""
    return Variant(build=build, batch=batch, batch_size=batch_size)


def images(size: int, *, classes: int, channels: int = 3) -> MakeBatch:
    """Square images and their labels."""

    def make(batch_size: int, draw: RandomTensors) -> Batch:
        pictures = draw.floats(batch_size, channels, size, size)
        return pictures, draw.integers(classes, batch_size)

    return make


def vectors(size: int, *, classes: int) -> MakeBatch:
    """Feature vectors and their labels."""

    def make(batch_size: int, draw: RandomTensors) -> Batch:
        return draw.floats(batch_size, size), draw.integers(classes, batch_size)

    return make


def next_tokens(length: int, *, vocabulary: int) -> MakeBatch:
    """Sequences of tokens and, for every position, the token to predict."""

    def make(batch_size: int, draw: RandomTensors) -> Batch:
        tokens = draw.integers(vocabulary, batch_size, length)
        return tokens, draw.integers(vocabulary, batch_size, length)

    return make


def labelled_tokens(length: int, *, vocabulary: int, classes: int) -> MakeBatch:
    """Sequences of tokens and one label each."""

    def make(batch_size: int, draw: RandomTensors) -> Batch:
        tokens = draw.integers(vocabulary, batch_size, length)
        return tokens, draw.integers(classes, batch_size)

    return make


def sentence_pairs(length: int, *, vocabulary: int) -> MakeBatch:
    """A source sentence, the target sentence so far, and the target's next tokens."""

    def make(batch_size: int, draw: RandomTensors) -> Batch:
        source = draw.integers(vocabulary, batch_size, length)
        target = draw.integers(vocabulary, batch_size, length)
        return (source, target), draw.integers(vocabulary, batch_size, length)

    return make


def masked_tokens(length: int, *, vocabulary: int) -> MakeBatch:
    """BERT's keyword inputs: tokens, the segment of each, and a mask of the positions in use."""

    def make(batch_size: int, draw: RandomTensors) -> Batch:
        used = length - draw.integers(length // 2, batch_size, 1)
        inputs = {
            "tokens": draw.integers(vocabulary, batch_size, length),
            "segments": draw.integers(2, batch_size, length),
            "mask": torch.arange(length, device=draw.device) < used,
        }
        return inputs, draw.integers(vocabulary, batch_size, length)

    return make
