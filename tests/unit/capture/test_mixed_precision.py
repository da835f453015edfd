"""Mixed precision as FSDP means it: exact against eager code that casts copies of the parameters."""

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

import graphwright as gw
from graphwright import capture
from graphwright.capture.options import read_options
from graphwright.errors import InvalidAutocast
from graphwright.ir import Role


class Tied(nn.Module):
    """An embedding that is the output's weight too, read by the parent itself.

    No biases and no norms: capture takes these apart, which rounds otherwise in bfloat16.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.map = nn.Linear(8, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.map(self.tokens(x))
        return F.linear(F.gelu(y), self.tokens.weight)


def loss_fn(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def eager_step(model, batch, optimizer, micro_batches):
    optimizer.zero_grad()
    inputs, targets = batch
    total = 0.0
    for x, y in zip(inputs.chunk(micro_batches), targets.chunk(micro_batches), strict=True):
        cast = {name: p.to(torch.bfloat16) for name, p in model.named_parameters()}
        loss = loss_fn(functional_call(model, cast, (x,)), y) / micro_batches
        loss.backward()
        total += loss.detach()
    optimizer.step()
    return total


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_a_step_is_exactly_that_of_cast_copies(micro_batches: int) -> None:
    torch.manual_seed(0)
    model = Tied()
    batch = (torch.randint(11, (4, 5)), torch.randint(11, (4, 5)))
    graph = gw.capture(
        model, loss_fn, batch, optimizer=torch.optim.AdamW, accumulate=micro_batches,
        mixed_precision=torch.bfloat16,
    )  # fmt: skip
    assert all(
        t.type.dtype == "float32" for t in graph.tensors.values()
        if t.role in (Role.PARAMETER,) or (t.role is Role.OPTIMIZER_STATE and t.type.shape)
    )  # fmt: skip
    values = capture.bind(graph, model, batch, loss_fn=loss_fn, optimizer=torch.optim.AdamW)
    eager = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(eager.parameters())
    for _ in range(3):
        outputs = capture.replay(graph, values)
        values = capture.advance(graph, values, outputs)
        loss = eager_step(eager, batch, optimizer, micro_batches)
        torch.testing.assert_close(outputs["loss"], loss, rtol=1e-6, atol=0)
        for name, parameter in eager.named_parameters():
            torch.testing.assert_close(values[name], parameter.detach(), rtol=0, atol=1e-7)


def test_inputs_are_cast_and_products_are_in_bfloat16() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2))
    batch = (torch.randn(3, 6), torch.randn(3, 2))
    graph = gw.capture(
        model, lambda y, t: F.mse_loss(y.float(), t), batch, mixed_precision=torch.bfloat16
    )
    products = [n for n in graph.nodes if n.op in ("aten.mm", "aten.matmul", "aten.tensordot")]
    assert products
    for node in products:
        assert all(graph.tensors[t].type.dtype == "bfloat16" for t in (*node.inputs, *node.outputs))
    assert read_options(graph) == {"mixed_precision": torch.bfloat16}
    assert all(p.dtype == torch.float32 for p in model.parameters())


def test_a_dtype_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidAutocast, match="mixed_precision has to be"):
        gw.capture(nn.Linear(2, 2), F.mse_loss, (torch.ones(1, 2),) * 2, mixed_precision=torch.int8)
