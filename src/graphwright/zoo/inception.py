"""Inception-v3 and Inception-v4: cells whose branches are concatenated.

A cell is written as a table. Each branch is a chain of convolutions `(channels, kernel)`; a `Fork`
ends a branch in several convolutions of the same input; pooling is "avg" or "max":

    Cell(288, [[(64, 1)], [(48, 1), (64, 5)], [(64, 1), (96, 3), (96, 3)], ["avg", (64, 1)]])

Convolutions keep the image's size, except those with stride 2 (`Halve`) and `Valid` ones, which
have no padding. v3 (Szegedy et al., 2015) is without its auxiliary classifier: 23.8 of 27.2 million
weights. v4 (Szegedy et al., 2016) takes a `scale` that multiplies every channel count;
SwapAdvisor's Inception-4 (section 5.1) is scale 4.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Kernel = int | tuple[int, int]
WIDE, TALL = (1, 7), (7, 1)


@dataclass(frozen=True, slots=True)
class Valid:
    """A convolution without padding."""

    channels: int
    kernel: Kernel = 3


@dataclass(frozen=True, slots=True)
class Halve:
    """A 3x3 convolution without padding, with stride 2."""

    channels: int


@dataclass(frozen=True, slots=True)
class Fork:
    """Several convolutions of one input, concatenated."""

    ends: tuple[tuple[int, Kernel], ...]


Step = tuple[int, Kernel] | Valid | Halve | Fork | str


class Conv(nn.Module):
    """Convolution, batch normalisation, ReLU."""

    def __init__(
        self, inputs: int, outputs: int, kernel: Kernel, *, stride: int = 1, same: bool = True
    ) -> None:
        super().__init__()
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        padding = (height // 2, width // 2) if same else (0, 0)
        self.conv = nn.Conv2d(
            inputs, outputs, (height, width), stride=stride, padding=padding, bias=False
        )
        self.norm = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.conv(x)))


class Cell(nn.Module):
    """Branches of one input, concatenated by channel; `outputs` is the number of channels."""

    def __init__(self, inputs: int, branches: Sequence[Sequence[Step]], scale: int = 1) -> None:
        super().__init__()
        self.branches = nn.ModuleList()
        self.outputs = 0
        for steps in branches:
            chain, channels = make_chain(inputs, steps, scale)
            self.branches.append(chain)
            self.outputs += channels

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


def make_chain(inputs: int, steps: Sequence[Step], scale: int) -> tuple[nn.Sequential, int]:
    """The modules of one branch and its number of output channels."""
    chain = nn.Sequential()
    for step in steps:
        match step:
            case "avg":
                chain.append(nn.AvgPool2d(3, stride=1, padding=1))
            case "max":
                chain.append(nn.MaxPool2d(3, stride=2))
            case Valid(channels, kernel):
                chain.append(Conv(inputs, channels * scale, kernel, same=False))
                inputs = channels * scale
            case Halve(channels):
                chain.append(Conv(inputs, channels * scale, 3, stride=2, same=False))
                inputs = channels * scale
            case Fork(ends):
                fork = Cell(inputs, [[end] for end in ends], scale)
                chain.append(fork)
                inputs = fork.outputs
            case (int(channels), kernel):
                chain.append(Conv(inputs, channels * scale, kernel))
                inputs = channels * scale
            case _:
                raise AssertionError(f"unknown step {step!r}")
    return chain, inputs


class Inception(nn.Module):
    """A chain of convolutions and cells, averaged over the image and classified."""

    def __init__(
        self, stages: Sequence[Step | list[list[Step]]], *, scale: int = 1, classes: int = 1000
    ) -> None:
        super().__init__()
        self.layers = nn.Sequential()
        channels = 3
        for stage in stages:
            if isinstance(stage, list):
                cell = Cell(channels, stage, scale)
                self.layers.append(cell)
                channels = cell.outputs
            else:
                chain, channels = make_chain(channels, [stage], scale)
                self.layers.append(chain[0])
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.layers(x).mean((2, 3)))


def inception_v3(*, cells: int | None = None, divide: int = 1, classes: int = 1000) -> Inception:
    """Inception-v3; for tests, `divide` shrinks channels and `cells` keeps that many repeats."""
    n = _divider(divide)

    def a(pool: int) -> list[list[Step]]:
        return [
            [(n(64), 1)],
            [(n(48), 1), (n(64), 5)],
            [(n(64), 1), (n(96), 3), (n(96), 3)],
            ["avg", (n(pool), 1)],
        ]

    def c(size: int) -> list[list[Step]]:
        m = n(size)
        return [
            [(n(192), 1)],
            [(m, 1), (m, WIDE), (n(192), TALL)],
            [(m, 1), (m, TALL), (m, WIDE), (m, TALL), (n(192), WIDE)],
            ["avg", (n(192), 1)],
        ]

    cross = Fork(((n(384), (1, 3)), (n(384), (3, 1))))
    e: list[list[Step]] = [
        [(n(320), 1)],
        [(n(384), 1), cross],
        [(n(448), 1), (n(384), 3), cross],
        ["avg", (n(192), 1)],
    ]
    return Inception(
        [
            Halve(n(32)),
            Valid(n(32)),
            (n(64), 3),
            "max",
            Valid(n(80), 1),
            Valid(n(192)),
            "max",
            *[a(32), a(64), a(64)][:cells],
            [[Halve(n(384))], [(n(64), 1), (n(96), 3), Halve(n(96))], ["max"]],
            *[c(128), c(160), c(160), c(192)][:cells],
            [
                [(n(192), 1), Halve(n(320))],
                [(n(192), 1), (n(192), WIDE), (n(192), TALL), Halve(n(192))],
                ["max"],
            ],
            *[e, e][:cells],
        ],
        classes=classes,
    )


def inception_v4(
    *, scale: int = 1, cells: int | None = None, divide: int = 1, classes: int = 1000
) -> Inception:
    """Inception-v4, with every channel count times `scale`; `divide` and `cells` are for tests."""
    n = _divider(divide)
    a: list[list[Step]] = [
        [(n(96), 1)],
        [(n(64), 1), (n(96), 3)],
        [(n(64), 1), (n(96), 3), (n(96), 3)],
        ["avg", (n(96), 1)],
    ]
    b: list[list[Step]] = [
        [(n(384), 1)],
        [(n(192), 1), (n(224), WIDE), (n(256), TALL)],
        [(n(192), 1), (n(192), TALL), (n(224), WIDE), (n(224), TALL), (n(256), WIDE)],
        ["avg", (n(128), 1)],
    ]
    cross = Fork(((n(256), (1, 3)), (n(256), (3, 1))))
    c: list[list[Step]] = [
        [(n(256), 1)],
        [(n(384), 1), cross],
        [(n(384), 1), (n(448), (3, 1)), (n(512), (1, 3)), cross],
        ["avg", (n(256), 1)],
    ]
    return Inception(
        [
            Halve(n(32)),
            Valid(n(32)),
            (n(64), 3),
            [["max"], [Halve(n(96))]],
            [
                [(n(64), 1), Valid(n(96))],
                [(n(64), 1), (n(64), WIDE), (n(64), TALL), Valid(n(96))],
            ],
            [[Halve(n(192))], ["max"]],
            *([a] * 4)[:cells],
            [[Halve(n(384))], [(n(192), 1), (n(224), 3), Halve(n(256))], ["max"]],
            *([b] * 7)[:cells],
            [
                [(n(192), 1), Halve(n(192))],
                [(n(256), 1), (n(256), WIDE), (n(320), TALL), Halve(n(320))],
                ["max"],
            ],
            *([c] * 3)[:cells],
        ],
        scale=scale,
        classes=classes,
    )


def _divider(divide: int) -> Callable[[int], int]:
    return lambda channels: max(2, channels // divide)
