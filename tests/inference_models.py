"""Small models for inference, and random ones, whose outputs depend on every weight; and prices."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphwright.aten import call_kernel


def flops(op, attrs, types) -> float:
    """A price that needs no measuring: a unit for each kernel, and a little for its elements."""
    name = op.split(".")[1]
    if name in ("view", "permute", "transpose", "expand", "slice", "select", "unsqueeze", "t"):
        return 0.0
    size = int(np.prod(types.outputs[0].shape))
    depth = int(np.prod(types.inputs[1].shape[1:])) if name in ("convolution", "conv2d") else 1
    return 1.0 + 1e-6 * size * depth


def values_of(graph, given):
    """All outputs, node by node."""
    values = dict(given)
    for node in graph.nodes:
        inputs = [None if n is None else values[n] for n in node.inputs]
        values.update(zip(node.outputs, call_kernel(node.op, inputs, node.attrs), strict=True))
    return [values[name] for name in graph.outputs]


def settled(model: nn.Module, seed: int = 0) -> nn.Module:
    """In float64 and eval mode, with weights and statistics that leave nothing near zero."""
    generator = torch.Generator().manual_seed(seed)
    model = model.double().eval()
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.dtype.is_floating_point:
            drawn = torch.rand(tensor.shape, generator=generator, dtype=torch.float64)
            low, high = (0.5, 1.5) if "var" in name else (-1.0, 1.0)
            tensor.data.copy_(low + (high - low) * drawn)
    return model


class Inception(nn.Module):
    """Convolutions of 1 and 3 of one tensor, with norms and activations, joined."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv2d(4, n, k, padding=k // 2) for n, k in ((3, 1), (5, 1), (2, 3))
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in (3, 5, 2))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat(
            [norm(conv(x)).relu() for conv, norm in zip(self.convs, self.norms, strict=True)], 1
        )


class Heads(nn.Module):
    """Query, key and value from one tensor, as in attention."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(6, 6) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        weights = F.softmax(self.query(x) @ self.key(x).transpose(-1, -2), -1)
        return weights @ self.value(x)


class Averages(nn.Module):
    """Two average poolings and their sum (TASO section 2.9.3)."""

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, 3, 1, 1) + F.avg_pool2d(x, 3, 1, 1)


class PoolsAndConvolution(nn.Module):
    """An average pooling beside a depth-wise convolution, as in NasNet-A."""

    def __init__(self) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, 3, 1, 1) + self.depthwise(x)


class Branches(nn.Module):
    """ResNeXt's branches as separate convolutions."""

    def __init__(self, branches: int = 4) -> None:
        super().__init__()
        self.narrow = nn.ModuleList(nn.Conv2d(4, 2, 1) for _ in range(branches))
        self.inner = nn.ModuleList(nn.Conv2d(2, 2, 3, padding=1) for _ in range(branches))

    def forward(self, x: Tensor) -> Tensor:
        parts = [b(a(x).relu()).relu() for a, b in zip(self.narrow, self.inner, strict=True)]
        return torch.cat(parts, 1)


class Random(nn.Module):
    """Layers drawn at random, each of one or two tensors that there are."""

    def __init__(self, seed: int, layers: int = 10) -> None:
        super().__init__()
        rng = np.random.default_rng(seed)
        channels = [4]
        self.steps: list[tuple[str, int, int]] = []
        self.layers = nn.ModuleList()
        for _ in range(layers):
            kind = str(
                rng.choice(
                    ["conv", "conv", "conv", "relu", "add", "mul", "cat", "average", "maximum"]
                )
            )
            a = int(rng.integers(len(channels)))
            alike = [n for n, c in enumerate(channels) if c == channels[a]]
            b = int(rng.integers(len(channels))) if kind == "cat" else int(rng.choice(alike))
            layer: nn.Module = nn.Identity()
            made = channels[a]
            if kind == "conv":
                kernel, groups = (
                    int(rng.choice([1, 3])),
                    2 if made % 2 == 0 and rng.random() < 0.3 else 1,
                )
                made = int(rng.choice([2, 4]))
                layer = nn.Conv2d(channels[a], made, kernel, padding=kernel // 2, groups=groups)
                if rng.random() < 0.5:
                    layer = nn.Sequential(layer, nn.BatchNorm2d(made))
            elif kind == "cat":
                made = channels[a] + channels[b]
            self.steps.append((kind, a, b))
            self.layers.append(layer)
            channels.append(made)

    def forward(self, x: Tensor) -> list[Tensor]:
        made = [x]
        for (kind, a, b), layer in zip(self.steps, self.layers, strict=True):
            match kind:
                case "conv":
                    made.append(layer(made[a]))
                case "relu":
                    made.append(made[a].relu())
                case "add":
                    made.append(made[a] + made[b])
                case "mul":
                    made.append(made[a] * made[b])
                case "cat":
                    made.append(torch.cat([made[a], made[b]], 1))
                case "average":
                    made.append(F.avg_pool2d(made[a], 3, 1, 1))
                case _:
                    made.append(F.max_pool2d(made[a], 3, 1, 1))
        return made[-3:]
