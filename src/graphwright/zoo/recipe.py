"""Recipes of workloads: what a model is, its loss and optimizer, and two variants of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from graphwright.zoo.workload import Batch, Entry, Loss, RandomTensors

MakeBatch = Callable[[int, RandomTensors], Batch]
Variant = tuple[Callable[[], nn.Module], MakeBatch]
"""One configuration: builds the model, and a batch for it."""
Optimizer = tuple[type[torch.optim.Optimizer], Mapping[str, Any]]
"""The optimizer's class and its options."""

ADAGRAD: Optimizer = (torch.optim.Adagrad, {"lr": 0.01})
ADAM: Optimizer = (torch.optim.Adam, {"lr": 1e-4})
ADAMW: Optimizer = (torch.optim.AdamW, {"lr": 1e-4})
MOMENTUM: Optimizer = (torch.optim.SGD, {"lr": 0.01, "momentum": 0.9})


def sgd(lr: float) -> Optimizer:
    """Plain gradient descent."""
    return torch.optim.SGD, {"lr": lr}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything `load` needs for one name; the family is the name itself unless it is given."""

    name: str
    family: str = ""
    source: str
    batch_size: int
    description: str
    full: Variant
    small: Variant
    loss_fn: Loss
    optimizer: Optimizer

    @property
    def entry(self) -> Entry:
        """What `zoo.entry` tells of the model."""
        return Entry(
            name=self.name,
            family=self.family or self.name,
            source=self.source,
            batch_size=self.batch_size,
            description=self.description,
        )


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
