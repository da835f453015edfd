"""What is written for a call means the same as the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

import eager
from graphwright import capture, zoo
from graphwright.aten.invoke import call_kernel
from graphwright.aten.types import tensor_type, to_dtype
from graphwright.ir import CONSTANT_OP, Graph

pytestmark = pytest.mark.filterwarnings("ignore:no description")


class Apply(nn.Module):
    """A linear layer, then a function of its result."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.fc(x))


EMPTY = torch.zeros(0, dtype=torch.float64)
INDEX = torch.tensor([3, 0])

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "diag_embed": torch.diag_embed,
    "diag_embed elsewhere": lambda x: torch.diag_embed(x, 1, -3, -1),
    "rot90": lambda x: x.rot90(1, (-1, -2)) * 2,
    "rot90 the other way": lambda x: x.rot90(1, (-2, -1)),
    "cat with an empty vector": lambda x: torch.cat([EMPTY, x, x * 2], -1),
    "cat with a wider empty vector": lambda x: torch.cat([EMPTY, x.float(), x.float()], -2),
    "cat of vectors": lambda x: torch.cat([EMPTY, x[0], x[:, 1]], -1),
    "sums over dims in any order": lambda x: x[None].sum((-1, -3)) + x[None].amax((2, 0)),
    "sum over no dims": lambda x: x.sum(()) + x[None].logsumexp((-1, 0)),
    "roll": lambda x: x.roll((1, 2), (-1, -2)) + x.flip((-1, 0)),
    "index": lambda x: x.index_select(-1, INDEX) + x.index_add(-2, INDEX, x[:2])[:, :2],
    "index fill": lambda x: x.index_fill(-1, INDEX, 2.0).index_copy(-2, INDEX, x[:2] * 3),
    "unfold": lambda x: x.unfold(-1, 2, 2) * 2,
    "diagonal": lambda x: (
        x[None].diagonal(0, -1, -2) + x.diagonal_scatter(x[:, 0], 0, -2, -1)[0, 0]
    ),
    "median and kth": lambda x: x.median(-1).values + x.kthvalue(2, -1).values + x.mode(-1).values,
    "arg": lambda x: x * x.argmax(-1, keepdim=True) + x.argmin(-2),
    "softmax of a number": lambda x: x * x.sum().softmax(-1),
    "scan": lambda x: x.cummax(-1).values + x.logcumsumexp(-2) + x.cumprod(-1),
    "gather": lambda x: x.gather(-1, x.argsort(-1)) + x.take_along_dim(x.argsort(-2), -2),
    "unflatten": lambda x: x.unflatten(-1, (2, 3)).movedim(-1, 0).unsqueeze(-2).squeeze(-2),
    "norms": lambda x: x.norm(3, -1) + x.norm(dim=(-2, -1)) + x.renorm(2, -1, 0.5)[:, 0],
    "cross": lambda x: torch.linalg.cross(x[:, :3], x[:, 3:], dim=-1),
    "tensordot": lambda x: torch.tensordot(x, x, ([-1], [-1])) + torch.linalg.vecdot(x, x),
    "count": lambda x: x * (x > 0).count_nonzero((-1, -2)) + (x > 0).any((-1, 0)),
}


def model_of(name: str) -> tuple[nn.Module, Any, Any]:
    torch.manual_seed(0)
    model = Apply(FUNCTIONS[name]).double()
    x = torch.randn(4, 6, dtype=torch.float64)
    with torch.enable_grad():
        y = model(x)
    weights = torch.rand(y.shape, dtype=y.dtype)
    return model, lambda y, w: (y * w).sum().double(), (x, weights)


def assert_types_hold(graph: Graph) -> None:
    """Each node, run again by its attributes on tensors without values, gives the types it says."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        for node in graph.nodes:
            if node.op == CONSTANT_OP:
                continue
            types = [None if name is None else graph.tensors[name].type for name in node.inputs]
            inputs = [
                None if t is None else torch.empty(t.shape, dtype=to_dtype(t.dtype)) for t in types
            ]
            found = [tensor_type(made) for made in call_kernel(node.op, inputs, node.attrs)]
            assert found == [graph.tensors[name].type for name in node.outputs], node


@pytest.mark.parametrize("name", FUNCTIONS)
def test_attributes_mean_what_was_called(name: str) -> None:
    model, loss_fn, batch = model_of(name)
    graph = eager.assert_trains_alike(model, loss_fn, batch, torch.optim.SGD, {"lr": 0.01})
    assert_types_hold(graph)


@pytest.mark.parametrize("name", ["resnet50", "bert-base", "gpt2", "rnnlm", "dlrm"])
def test_types_of_whole_models(name: str) -> None:
    work = zoo.load(name, small=True, device="meta")
    graph = capture.capture(
        work.model,
        work.loss_fn,
        work.batch,
        optimizer=work.optimizer,
        optimizer_options=work.optimizer_options,
    )
    assert_types_hold(graph)


def test_order_of_dims_is_kept_where_it_matters_and_sorted_where_not() -> None:
    def attrs_of(function: Callable[[Tensor], Tensor], op: str) -> Any:
        graph = capture.capture(Apply(function), inputs=torch.randn(4, 6))
        return next(node.attrs for node in graph.nodes if node.op == op)

    assert attrs_of(lambda x: x.rot90(1, (-1, -2)), "aten.rot90")["dims"] == (1, 0)
    assert attrs_of(lambda x: x[None].sum((-1, 0)), "aten.sum.dim_IntList")["dim"] == (0, 2)
    assert attrs_of(torch.diag_embed, "aten.diag_embed")["dim2"] == 2
    cat = capture.capture(
        Apply(lambda x: torch.cat([torch.zeros(0), x, x], -1)), inputs=torch.randn(4, 6)
    )
    (node,) = [node for node in cat.nodes if node.op == "aten.cat"]
    assert (len(node.inputs), node.attrs["dim"]) == (2, 1)


def test_losses_see_the_whole_batch() -> None:
    batch = (torch.randn(4, 6), torch.randint(6, (4,)))
    assert_types_hold(capture.capture(Apply(F.relu), F.cross_entropy, batch))
