"""Composite kernels, written out: equal to PyTorch's, and exact when the batch is split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import eager
from graphwright import capture
from graphwright.ir import Graph

pytestmark = pytest.mark.filterwarnings("ignore:no description")

HIDING_A_REDUCTION = (
    "aten.mean",
    "aten.var",
    "aten.std",
    "aten.native_batch_norm",
    "aten._native_batch_norm",
    "aten.native_group_norm",
    "aten.nll_loss",
    "aten.cross_entropy",
    "aten.mse_loss",
    "aten.binary_cross_entropy",
    "aten.smooth_l1_loss",
    "aten.huber_loss",
    "aten.addmm",
    "aten.convolution_backward",
    "aten.native_layer_norm_backward",
)


class Apply(nn.Module):
    """A scale followed by a function, so that there is something to train."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.function = function

    def forward(self, *args: Tensor) -> Tensor:
        return self.function(args[0] * self.scale, *args[1:])


def check(function: Callable[..., Tensor], *args: Tensor) -> Graph:
    """Train `sum(weights * function(...))`, weighted so that no symmetry hides a mistake."""
    torch.manual_seed(0)
    model = Apply(function).double()
    with torch.no_grad():
        shape = model(*args).shape
    weights = torch.rand(shape, dtype=torch.float64) + 0.5
    graph = eager.assert_trains_alike(
        model, lambda y, w: (y * w).sum(), (args, weights), torch.optim.SGD, {"lr": 0.01}
    )
    assert_written_out(graph)
    return graph


def assert_written_out(graph: Graph) -> None:
    hidden = {node.op for node in graph.nodes if node.op.startswith(HIDING_A_REDUCTION)}
    assert not hidden


X = torch.randn(4, 3, 5, dtype=torch.float64)
Y = torch.randn(4, 3, 5, dtype=torch.float64)
UNIT = torch.rand(4, 3, 5, dtype=torch.float64) * 0.3 + 0.3


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.mean(),
        lambda x: x.mean(-1),
        lambda x: x.mean((0, -1), keepdim=True),
        lambda x: x.var(),
        lambda x: x.var((0, 2), correction=0),
        lambda x: x.std(1, keepdim=True),
        lambda x: torch.var_mean(x, (1, 2))[0] + torch.var_mean(x, (1, 2))[1],
        lambda x: torch.std_mean(x, 0, correction=2)[0],
        lambda x: x.norm(),
        lambda x: torch.linalg.vector_norm(x, 1, (0, 2)),
        lambda x: torch.linalg.vector_norm(x, float("inf"), -1),
        lambda x: F.normalize(x, dim=1),
        lambda x: F.layer_norm(x, (3, 5)),
        lambda x: F.group_norm(x, 3),
        lambda x: F.instance_norm(x),
        lambda x: F.rms_norm(x, (5,)),
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: x.softmax(-1),
        lambda x: x.log_softmax(0),
        lambda x: x.logsumexp(1),
        lambda x: torch.baddbmm(x, x, x.transpose(1, 2) @ x, beta=0.5, alpha=2.0),
        lambda x: torch.addmm(x[0, :, :1], x[0], x[1].t(), beta=2, alpha=0.5),
        lambda x: torch.addbmm(x[0, :, :3], x, x.transpose(1, 2)),
        lambda x: torch.addmv(x[0, 0], x[0].t(), x[1, :, 0]),
        lambda x: torch.addr(x[0], x[0, :, 0], x[1, 0]),
    ],
)
def test_reductions_are_sums(function: Callable[[Tensor], Tensor]) -> None:
    check(function, X)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    "loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.soft_margin_loss]
)
def test_regression_losses(loss: Callable[..., Tensor], reduction: str) -> None:
    check(lambda x, y: loss(x, y, reduction=reduction), X, Y.sign() * UNIT)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_binary_cross_entropies(reduction: str) -> None:
    check(lambda x, y: F.binary_cross_entropy(x * 0.9, y, reduction=reduction), UNIT, UNIT)
    check(
        lambda x, y: F.binary_cross_entropy_with_logits(
            x, y, weight=UNIT, pos_weight=UNIT[0], reduction=reduction
        ),
        X,
        UNIT,
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(6,), (5, 6), (2, 6, 3), (2, 6, 3, 4)])
def test_cross_entropy(shape: tuple[int, ...], weighted: bool, reduction: str) -> None:
    torch.manual_seed(1)
    scores = torch.randn(shape, dtype=torch.float64)
    target = torch.randint(6, shape[:1] + shape[2:] if len(shape) > 1 else ())
    if target.numel() > 2:
        target.view(-1)[0] = 3  # ignored below, though a class
    weight = torch.rand(6, dtype=torch.float64) if weighted else None
    check(
        lambda x, t: F.cross_entropy(x, t, weight, ignore_index=3, reduction=reduction),
        scores,
        target,
    )


def test_only_sums_and_products_reduce_over_the_batch() -> None:
    """So adding up the parts' results is exact, for batch norm and the loss as for everything else."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 4)).double()
    batch: Any = (torch.randn(6, 5, dtype=torch.float64), torch.tensor([0, 1, 2, -100, 3, 0]))
    graph = capture.capture(model, F.cross_entropy, batch)
    reductions = [
        node
        for node in graph.nodes
        if any(name is not None and 6 in graph.tensors[name].type.shape[:1] for name in node.inputs)
        and all(6 not in graph.tensors[name].type.shape for name in node.outputs)
    ]
    assert {node.op for node in reductions} <= {"aten.sum.dim_IntList", "aten.mm"}
    assert len(reductions) >= 6


def test_small_floats_are_summed_in_float32() -> None:
    model = Apply(lambda x: x.mean(0)).half()
    x = torch.full((4096, 2), 60.0, dtype=torch.float16)  # the sum exceeds float16's range
    graph = capture.capture(model, inputs=x)
    values = capture.bind(graph, model, inputs=x)
    assert torch.equal(capture.replay(graph, values)["output.0"], torch.full((2,), 90.0).half())


class Unpooled(nn.Module):
    """Reads the indices of a maximum, besides its gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(3, 1, 1, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        pooled, indices = F.max_pool2d(x * self.scale, 2, return_indices=True)
        return F.max_unpool2d(pooled, indices, 2) + indices.sum() * 1e-3


def test_indices_of_a_maximum_are_those_of_the_plane() -> None:
    batch = (torch.randn(2, 3, 6, 8, dtype=torch.float64), torch.randn(2, 3, 6, 8))
    graph = eager.assert_trains_alike(Unpooled(), F.mse_loss, batch, None, steps=1)
    assert {"graphwright.max_pool", "graphwright.max_pool_grad_input"} <= {
        node.op for node in graph.nodes
    }
