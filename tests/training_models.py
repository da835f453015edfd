"""Small training steps for rewriting: inputs that are shared, branches, concatenations, recurrences."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

import graphwright as gw
from graphwright.aten import replay
from inference_models import Branches, Heads, Inception
from inference_models import Random as RandomLayers


class Gates(nn.Module):
    """A recurrence whose gates are products of their own."""

    def __init__(self, size: int = 4, steps: int = 3) -> None:
        super().__init__()
        self.steps = steps
        self.of_input = nn.ModuleList(nn.Linear(size, size) for _ in range(3))
        self.of_state = nn.ModuleList(nn.Linear(size, size, bias=False) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros_like(x[:, 0])
        for step in range(self.steps):
            gates = [
                a(x[:, step]) + b(state) for a, b in zip(self.of_input, self.of_state, strict=True)
            ]
            keep = gates[0].sigmoid()
            state = keep * state + gates[1].sigmoid() * gates[2].tanh()
        return state


class Blocks(nn.Module):
    """Two layers of attention, with dropout between them."""

    def __init__(self, size: int = 6) -> None:
        super().__init__()
        self.first, self.second = Heads(), Heads()
        self.drop = nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.drop(self.first(x)) + x)


class AnyLayers(nn.Module):
    """Random layers, and one result."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.first, self.layers = nn.Conv2d(4, 4, 1), RandomLayers(seed, layers=8)

    def forward(self, x: Tensor) -> Tensor:
        first = self.first(x)
        return torch.cat([first, *self.layers(first)], 1)


MODELS = {
    "heads": (Heads, (2, 5, 6)),
    "blocks": (Blocks, (2, 5, 6)),
    "inception": (Inception, (2, 4, 5, 6)),
    "branches": (Branches, (2, 4, 5, 6)),
    "gates": (Gates, (2, 3, 4)),
}


def captured(model: nn.Module, shape: tuple[int, ...], optimizer=torch.optim.SGD, **options):
    """The graph of a step in float64, and inputs drawn for it."""
    model = model.double()
    x = torch.rand(shape, dtype=torch.float64)
    with torch.no_grad():
        y = model.eval()(x)
    model.train()
    return gw.capture(
        model, lambda out, target: ((out - target) ** 2).sum(), (x, torch.zeros_like(y)),
        optimizer=optimizer, optimizer_options=options,
    )  # fmt: skip


def drawn_inputs(graph, seed: int = 0) -> dict[str, Tensor]:
    """Numbers for every input of a graph."""
    rng = np.random.default_rng(seed)
    made = {}
    for name in graph.inputs:
        type = graph.tensors[name].type
        values = torch.from_numpy(np.asarray(rng.uniform(0.2, 1, type.shape)))
        made[name] = (
            values.to(getattr(torch, type.dtype))
            if "int" not in type.dtype
            else torch.ones(type.shape, dtype=torch.int64)
        )
    return made


def assert_same(graph, changed) -> None:
    """All outputs and updates are equal, and so are names, roles and what belongs to what."""
    given = drawn_inputs(graph)
    torch.manual_seed(1)
    wanted = replay(graph, given)
    torch.manual_seed(1)
    made = replay(changed, given)
    assert changed.inputs == graph.inputs and changed.outputs == graph.outputs
    assert changed.updates == graph.updates
    for name in graph.outputs:
        limit = 1e-8 * max(wanted[name].abs().max().item(), 1e-3)
        torch.testing.assert_close(made[name], wanted[name], rtol=0, atol=limit)
        before, after = graph.tensors[name], changed.tensors[name]
        assert (before.role, before.of, before.type) == (after.role, after.of, after.type)
