"""Kernels that are put together again compute what their parts do, and a plan that splits them trains the same."""

from __future__ import annotations

import warnings

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import graphwright as gw
from graphwright.aten import bind, replay
from graphwright.ir import verify
from graphwright.machine import cluster
from graphwright.partition import replicate
from graphwright.rewrite import rejoin


class Shaped(nn.Module):
    """A module on images, sequences or vectors, and what comes behind it."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(1))
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.module(x * self.scale) ** 2).flatten(1)[:, :3]


@st.composite
def modules(draw: st.DrawFn) -> tuple[nn.Module, torch.Tensor]:
    """A module that capture takes apart, in training or not, and its input."""
    rank, affine = draw(st.integers(0, 2)), draw(st.booleans())
    channels, batch = draw(st.sampled_from([2, 4, 6])), draw(st.integers(2, 5))
    dims = tuple(draw(st.integers(2, 4)) for _ in range(rank))
    match draw(st.sampled_from(["batch", "group", "layer", "linear"])):
        case "batch":
            norm = (nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d)[rank]
            momentum = draw(st.sampled_from([0.1, 0.7]))
            module = norm(channels, eps=draw(st.sampled_from([1e-5, 0.1])), momentum=momentum,
                          affine=affine, track_running_stats=draw(st.booleans()))  # fmt: skip
            module.train(draw(st.booleans()))
            shape = (batch, channels, *dims)
        case "group":
            module, shape = nn.GroupNorm(2, channels, affine=affine), (batch, channels, *dims)
        case "layer":
            module = nn.LayerNorm(channels, elementwise_affine=affine)
            shape = (batch, *dims, channels)
        case _:
            module, shape = nn.Linear(channels, 3, bias=affine), (batch, *dims, channels)
    torch.manual_seed(draw(st.integers(0, 1000)))
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return Shaped(module).double(), torch.randn(shape, dtype=torch.float64)


OPTIMIZERS = (
    (torch.optim.SGD, {"lr": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.5, "maximize": True}),
    (torch.optim.Adam, {"lr": 0.1, "weight_decay": 0.1}),
    (torch.optim.Adam, {"lr": 0.1, "amsgrad": True}),
    (torch.optim.AdamW, {"lr": 0.1, "betas": (0.5, 0.9), "maximize": True}),
)


@settings(max_examples=20)
@given(drawn=modules(), update=st.sampled_from(OPTIMIZERS))
def test_kernels_put_together_again_compute_what_their_parts_do(drawn, update):
    model, x = drawn
    kind, options = update
    batch = x, torch.randn(len(x), 3, dtype=torch.float64)[:, : model(x).shape[1]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = gw.capture(model, nn.MSELoss(), batch, optimizer=kind, optimizer_options=options)
    joined, plan = rejoin(graph, replicate(graph, cluster("local:1")))
    verify(joined)
    assert plan.graph_hash == joined.hash
    assert joined.inputs == graph.inputs and joined.outputs == graph.outputs
    assert len(joined) < len(graph)
    values = bind(graph, model, batch, optimizer=kind, optimizer_options=options)
    wanted = replay(graph, {name: t.clone() for name, t in values.items()})
    found = replay(joined, {name: t.clone() for name, t in values.items()})
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-8, atol=1e-9, msg=name)
