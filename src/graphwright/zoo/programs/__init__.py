"""Array programs, written once for any namespace: the applications that Spartan was measured with.

    programs.PROGRAMS["kmeans"].function(numpy, points, centres)
    programs.PROGRAMS["kmeans"].capture()                  # the graph, at the size of the benchmark

Each is as a user would write it for NumPy: no tiles, no chunks, no workers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from graphwright.capture import UndescribedOperators, capture
from graphwright.ir import Graph
from graphwright.zoo.programs import learning, numerics

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayProgram:
    """A function of a namespace and arrays, with the shapes of its benchmark and of a small trial.

    `domain` is what its arrays are drawn from: "normal" numbers, "positive" ones, "counts" (small
    whole numbers, labels), or a symmetric "definite" matrix with columns.
    """

    name: str
    function: Callable[..., Any]
    shapes: tuple[Shape, ...]
    small: tuple[Shape, ...]
    domain: str = "normal"
    options: Mapping[str, int] = field(default_factory=dict)

    def capture(self, shapes: tuple[Shape, ...] | None = None) -> Graph:
        """The graph of the program on arrays of float32; nothing is allocated."""
        inputs = tuple(torch.empty(s, device="meta") for s in shapes or self.shapes)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UndescribedOperators
            )  # of small matrices, computed whole
            return capture(_Program(self), inputs=inputs)


class _Program(nn.Module):
    def __init__(self, program: ArrayProgram) -> None:
        super().__init__()
        self.program = program

    def forward(self, *arrays: torch.Tensor) -> Any:
        return self.program.function(TORCH, *arrays, **self.program.options)


class _Torch:
    """PyTorch under the names that NumPy has."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def pad(self, array: torch.Tensor, width: int) -> torch.Tensor:
        """An array with `width` zeros around it."""
        return nn.functional.pad(array, (width, width) * array.ndim)


TORCH = _Torch()
"""The namespace to run a program with on tensors."""


_MILLION = 1_000_000
_ALL = (
    ArrayProgram(
        name="kmeans",
        function=learning.kmeans,
        shapes=((2 * _MILLION, 32), (16, 32)),
        small=((24, 4), (3, 4)),
    ),
    ArrayProgram(
        name="als",
        function=learning.als,
        shapes=((100_000, 20_000), (20_000, 20)),
        small=((12, 10), (10, 2)),
    ),
    ArrayProgram(
        name="linear regression",
        function=learning.linear_regression,
        shapes=((10 * _MILLION, 64), (10 * _MILLION, 1), (64, 1)),
        small=((24, 4), (24, 1), (4, 1)),
    ),
    ArrayProgram(
        name="ridge regression",
        function=learning.ridge_regression,
        shapes=((_MILLION, 1024), (_MILLION, 1)),
        small=((24, 4), (24, 1)),
    ),
    ArrayProgram(
        name="logistic regression",
        function=learning.logistic_regression,
        shapes=((10 * _MILLION, 64), (10 * _MILLION, 1), (64, 1)),
        small=((24, 4), (24, 1), (4, 1)),
    ),
    ArrayProgram(
        name="svm",
        function=learning.svm,
        shapes=((10 * _MILLION, 64), (10 * _MILLION, 1), (64, 1)),
        small=((24, 4), (24, 1), (4, 1)),
    ),
    ArrayProgram(
        name="naive bayes",
        function=learning.naive_bayes,
        shapes=((_MILLION, 1024), (_MILLION,)),
        small=((24, 6), (24,)),
        domain="counts",
        options={"classes": 4},
    ),
    ArrayProgram(
        name="pca",
        function=numerics.pca,
        shapes=((_MILLION, 256),),
        small=((24, 6),),
        options={"components": 4},
    ),
    ArrayProgram(
        name="ssvd",
        function=numerics.ssvd,
        shapes=((200_000, 20_000), (20_000, 32)),
        small=((18, 8), (8, 3)),
    ),
    ArrayProgram(
        name="conjugate gradient",
        function=numerics.conjugate_gradient,
        shapes=((40_000, 40_000), (40_000, 1)),
        small=((12, 12), (12, 1)),
        domain="definite",
        options={"steps": 4},
    ),
    ArrayProgram(
        name="cholesky",
        function=numerics.cholesky,
        shapes=((40_000, 40_000),),
        small=((12, 12),),
        domain="definite",
    ),
    ArrayProgram(
        name="power iteration",
        function=numerics.power_iteration,
        shapes=((40_000, 40_000), (40_000, 1)),
        small=((12, 12), (12, 1)),
    ),
    ArrayProgram(
        name="black-scholes",
        function=numerics.black_scholes,
        shapes=((20 * _MILLION,),) * 3,
        small=((24,),) * 3,
        domain="positive",
    ),
    ArrayProgram(
        name="jacobi",
        function=numerics.jacobi,
        shapes=((8192, 8192),),
        small=((12, 10),),
    ),
)
PROGRAMS: Mapping[str, ArrayProgram] = {program.name: program for program in _ALL}
"""Every program by its name."""
