"""Programs of views, products and element-wise operators drawn at random give the same captured as run, gradients included."""

from __future__ import annotations

from math import prod
from random import Random

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import eager
from graphwright.ir import verify


def another_shape(rng: Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The same number of elements in other dims: neighbours merged, factors split off, 1 put in."""
    dims = list(shape)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(dims)) if dims else 0
        kind = rng.choice(["merge", "merge", "split", "one"])
        if kind == "merge" and at + 1 < len(dims):
            dims[at : at + 2] = [dims[at] * dims[at + 1]]
        elif kind == "split" and dims:
            factor = next((n for n in (2, 3) if dims[at] % n == 0), 1)
            dims[at : at + 1] = [dims[at] // factor, factor]
        elif kind == "one" and len(dims) < 5:
            dims.insert(at, 1)
    return tuple(dims)


class Program(nn.Module):
    """Some operators in a row; earlier results come back as operands."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.weights = nn.ParameterDict()

    def weight(self, rng: Random, *shape: int) -> Tensor:
        name = f"w{len(self.weights)}" if self.making else f"w{self.next}"
        self.next += 1
        if self.making:
            generator = torch.Generator().manual_seed(rng.randrange(2**20))
            self.weights[name] = nn.Parameter(
                torch.randn(shape, generator=generator, dtype=torch.float64)
            )
        else:
            rng.randrange(2**20)
        return self.weights[name]

    def make(self, x: Tensor) -> Program:
        self.making = True
        self(x)
        self.making = False
        return self

    def forward(self, x: Tensor) -> Tensor:
        rng, self.next = Random(self.seed), 0
        first = self.weight(rng, *x.shape)
        x = x * first
        past = [x]
        for _ in range(rng.randint(3, 9)):
            x = self.step(rng, x, past)
            past.append(x)
        return sum((y * self.weight(rng, *y.shape)).sum() for y in past[-2:])

    def step(self, rng: Random, x: Tensor, past: list[Tensor]) -> Tensor:
        shape = tuple(x.shape)
        match rng.choice(
            ["view", "view", "view", "permute", "unary", "binary", "linear", "linear", "bmm",
             "sum", "softmax", "cumulative", "bias"]
        ):  # fmt: skip
            case "view":
                return x.reshape(another_shape(rng, shape))
            case "permute" if x.dim() > 1:
                order = list(range(x.dim()))
                rng.shuffle(order)
                return x.permute(order)
            case "unary":
                return torch.tanh(x)
            case "binary":
                other = rng.choice(past)
                if other.numel() == x.numel():
                    return x + other.reshape(shape) * 0.5
                return x * 0.5
            case "linear" if x.dim():
                return x @ self.weight(rng, shape[-1], rng.choice([2, 3, 4])) * 0.3
            case "bmm" if x.dim() > 2:
                return torch.matmul(x, x.transpose(-1, -2)) * 0.1
            case "sum" if x.dim() > 1 and x.numel() > 12:
                return x.sum(rng.randrange(x.dim()), keepdim=rng.random() < 0.5)
            case "softmax" if x.dim():
                return x.softmax(rng.randrange(x.dim()))
            case "cumulative" if x.dim():
                return x.flip(rng.randrange(x.dim()))
            case "bias" if x.dim():
                return x + self.weight(rng, *(n if rng.random() < 0.5 else 1 for n in shape))
            case _:
                return x - 0.1


@given(
    seed=st.integers(0, 2**20),
    shape=st.lists(st.sampled_from([2, 3, 4, 6]), min_size=1, max_size=4).filter(
        lambda s: prod(s) <= 150
    ),
)
def test_random_programs(seed, shape):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    program = Program(seed).make(x)
    graph = eager.assert_trains_alike(program, None, x, None, steps=1)
    verify(graph)
