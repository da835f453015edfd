"""NASNet-A (Zoph et al., 2018): searched cells, each reading the outputs of the last two.

    image - conv - reduce, reduce - R normal - reduce - R normal - reduce - R normal - classes
            stem   F/4     F/2      F          2F       2F         4F       4F

A normal cell gives 6 x its filters, a reduction cell 4 x and half the image. The name in the paper
is NASNet-A (R @ P) with P = 24 F channels at the end: 4 @ 1056 (mobile), 6 @ 4032 (large), R at
most 7 (7 @ 1920). SwapAdvisor's NasNet-25 (section 5.1) has R = 25, so 75 normal cells; it does not
give P or the image's size, but memory, 193 GB at batch 64 (table 5.1). What the forward pass keeps,
with 3 x weights, is 164 GiB for the large network's P = 4032 and images of 331, against 80 for P =
1920 and 74 for images of 224; so nasnet-<R> is that of 4032 and 331.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Separable(nn.Module):
    """Twice ReLU, depth-wise and 1x1 convolution, batch normalisation; the stride comes first."""

    def __init__(self, inputs: int, filters: int, kernel: int, *, stride: int = 1) -> None:
        super().__init__()
        padding = kernel // 2
        self.depthwise1 = nn.Conv2d(
            inputs, inputs, kernel, stride=stride, padding=padding, groups=inputs, bias=False
        )
        self.pointwise1 = nn.Conv2d(inputs, filters, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(filters, eps=0.001)
        self.depthwise2 = nn.Conv2d(
            filters, filters, kernel, padding=padding, groups=filters, bias=False
        )
        self.pointwise2 = nn.Conv2d(filters, filters, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(filters, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(self.pointwise1(self.depthwise1(F.relu(x))))
        return self.norm2(self.pointwise2(self.depthwise2(F.relu(x))))


class Squeeze(nn.Module):
    """ReLU, 1x1 convolution to `filters`, batch normalisation."""

    def __init__(self, inputs: int, filters: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, filters, 1, bias=False)
        self.norm = nn.BatchNorm2d(filters, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(F.relu(x)))


class HalvingSqueeze(nn.Module):
    """`Squeeze` to half the image: half of the filters see even pixels, the others odd ones."""

    def __init__(self, inputs: int, filters: int) -> None:
        super().__init__()
        self.even = nn.Conv2d(inputs, filters // 2, 1, bias=False)
        self.odd = nn.Conv2d(inputs, filters - filters // 2, 1, bias=False)
        self.norm = nn.BatchNorm2d(filters, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(x)
        shifted = F.pad(x[:, :, 1:, 1:], (0, 1, 0, 1))
        even = self.even(F.avg_pool2d(x, 1, stride=2))
        odd = self.odd(F.avg_pool2d(shifted, 1, stride=2))
        return self.norm(torch.cat((even, odd), dim=1))


def match_previous(previous: int, filters: int, *, halve: bool) -> nn.Module:
    """Brings the output of the cell before last to this cell's filters and image size."""
    return HalvingSqueeze(previous, filters) if halve else Squeeze(previous, filters)


def average(x: Tensor, stride: int = 1) -> Tensor:
    """3x3 average pooling, with padding counted: a depth-wise convolution by 1/9 (TASO, 2.9.3)."""
    return F.avg_pool2d(x, 3, stride=stride, padding=1)


class NormalCell(nn.Module):
    """Five sums of pairs of branches over this (`h`) and the previous (`p`) input, concatenated."""

    def __init__(self, inputs: int, previous: int, filters: int, *, halve: bool) -> None:
        super().__init__()
        self.current = Squeeze(inputs, filters)
        self.previous = match_previous(previous, filters, halve=halve)
        self.h5 = Separable(filters, filters, 5)
        self.h3 = Separable(filters, filters, 3)
        self.p3a = Separable(filters, filters, 3)
        self.p5 = Separable(filters, filters, 5)
        self.p3b = Separable(filters, filters, 3)
        self.outputs = 6 * filters

    def forward(self, x: Tensor, previous: Tensor) -> Tensor:
        h, p = self.current(x), self.previous(previous)
        parts = (
            p,
            self.h5(h) + self.p3a(p),
            self.p5(p) + self.p3b(p),
            average(h) + p,
            average(p) + average(p),
            self.h3(h) + h,
        )
        return torch.cat(parts, dim=1)


class ReductionCell(nn.Module):
    """As a normal cell, with stride 2; the first of all (`previous` None) reads its input twice."""

    def __init__(
        self, inputs: int, previous: int | None, filters: int, *, halve: bool = False
    ) -> None:
        super().__init__()
        self.current = Squeeze(inputs, filters)
        self.previous = (
            nn.Identity() if previous is None else match_previous(previous, filters, halve=halve)
        )
        inner = inputs if previous is None else filters
        self.h5 = Separable(filters, filters, 5, stride=2)
        self.p7a = Separable(inner, filters, 7, stride=2)
        self.p7b = Separable(inner, filters, 7, stride=2)
        self.p5 = Separable(inner, filters, 5, stride=2)
        self.x3 = Separable(filters, filters, 3)
        self.outputs = 4 * filters

    def forward(self, x: Tensor, previous: Tensor) -> Tensor:
        h, p = self.current(x), self.previous(previous)
        first = self.h5(h) + self.p7a(p)
        second = F.max_pool2d(h, 3, stride=2, padding=1) + self.p7b(p)
        third = average(h, stride=2) + self.p5(p)
        fourth = average(first) + second
        fifth = self.x3(first) + F.max_pool2d(h, 3, stride=2, padding=1)
        return torch.cat((second, third, fourth, fifth), dim=1)


class NasNet(nn.Module):
    """NASNet-A (`repeats` @ 24 `filters`): three groups of normal cells, reductions between."""

    def __init__(self, *, repeats: int, filters: int, stem: int = 96, classes: int = 1000) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, stem, 3, stride=2, bias=False)
        self.norm = nn.BatchNorm2d(stem, eps=0.001)
        first = ReductionCell(stem, None, filters // 4)
        second = ReductionCell(first.outputs, stem, filters // 2, halve=True)
        self.cells = nn.ModuleList((first, second))
        previous, channels, halve = first.outputs, second.outputs, True
        for group in range(3):
            size = filters * 2**group
            if group > 0:
                reduction = ReductionCell(channels, previous, size)
                self.cells.append(reduction)
                previous, channels, halve = channels, reduction.outputs, True
            for _ in range(repeats):
                cell = NormalCell(channels, previous, size, halve=halve)
                self.cells.append(cell)
                previous, channels, halve = channels, cell.outputs, False
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.conv(x))
        previous = x
        for cell in self.cells:
            x, previous = cell(x, previous), x
        return self.fc(F.relu(x).mean((2, 3)))
