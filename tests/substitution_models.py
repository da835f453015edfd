"""Small models that substitutions apply to, captured for inference in float64."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import graphwright as gw
from graphwright.rewrite.substitutions import shipped


class Branches(nn.Module):
    """Two convolutions of one tensor side by side, as in Inception; and a product with its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Conv2d(4, 8, 3, padding=1, bias=False)
        self.right = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.grouped = nn.Conv2d(4, 4, 3, padding=1, bias=False, groups=2)
        self.again = nn.Conv2d(4, 4, 3, padding=1, bias=False, groups=2)
        self.with_bias = nn.Conv2d(12, 6, 1)
        self.linear = nn.Linear(6, 5, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = torch.cat([self.left(x).relu(), self.right(x).relu()], 1)
        z = F.avg_pool2d(self.with_bias(y), 3, 1, 1)
        groups = torch.cat([self.grouped(x), self.again(x)], 1)
        return self.linear(z.mean((2, 3)).sigmoid()), groups, F.max_pool2d(z, 3, 2, 1)


class Products(nn.Module):
    """Three products with one matrix, the third of what the first made: TASO's figure 2.6."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(5, 5))

    def forward(self, x: Tensor) -> Tensor:
        first = self.weight @ x
        late = x * x
        return self.weight @ first.relu() + first.tanh() + (self.weight @ late).tanh()


class Pools(nn.Module):
    """An average pooling beside a depth-wise convolution, as in NasNet-A (TASO section 2.9.3)."""

    def __init__(self) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, 3, 1, 1) + self.depthwise(x)


def captured(model: nn.Module, *shape: int):
    torch.manual_seed(0)
    model = model.double()
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -1, 1)
    x = torch.rand(*shape, dtype=torch.float64) - 0.5
    graph = gw.capture(model, inputs=x)
    values = {name: p.detach() for name, p in model.named_parameters()}
    values |= {name: x for name in graph.inputs if name not in values}
    return graph, values


def rules():
    for rule in shipped().rules:
        yield rule.substitution
        if rule.substitution.is_reversible:
            yield rule.substitution.reversed()


def count(graph, op):
    return sum(node.op == op for node in graph.nodes)
