"""Dims that PyTorch merges for its kernels stay apart in a graph, and can each be split."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import eager
from graphwright import capture
from graphwright.describe import node_splits
from graphwright.ir import Graph, Phase, Role, verify
from graphwright.rewrite.unmerge.merged import refinement


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def total(output: Tensor, _: object) -> Tensor:
    return (output * output.sigmoid()).sum()


def trained(model: nn.Module, *shape: int, loss_fn=total) -> Graph:
    """The graph of a training step, which replays like the eager one."""
    batch = (torch.randn(shape, dtype=torch.float64), ())
    graph = eager.assert_trains_alike(model.double(), loss_fn, batch, None, steps=1)
    verify(graph)
    return graph


def ops(graph: Graph, *phases: Phase) -> list[str]:
    return [node.op for node in graph.nodes if node.phase in (phases or tuple(Phase))]


@pytest.mark.parametrize(
    ("source", "target", "sizes"),
    [
        ((5, 3, 8), (15, 8), ((5, 3), (8,))),
        ((15, 8), (5, 3, 8), ((5,), (3,), (8,))),
        ((5, 3, 8), (5, 6, 4), ((5,), (3, 2), (4,))),
        ((5, 3, 8), (15, 2, 4), ((5, 3), (2,), (4,))),
        ((5, 1, 8), (40,), ((5, 1, 8),)),
        ((5, 8), (1, 40), ((), (5, 8))),
        ((1, 5, 8), (1, 40), ((1,), (5, 8))),
        ((5, 8, 1), (40,), ((5, 8, 1),)),
        ((1,), (), None),
        ((), (1,), ((),)),
        ((4, 6), (6, 4), None),
    ],
)
def test_refinement(source, target, sizes):
    assert refinement(source, target) == sizes


def test_a_linear_layer_on_three_dims():
    graph = trained(nn.Linear(8, 4), 5, 3, 8)
    forward = [n for n in graph.nodes if n.module == "" and n.phase is Phase.FORWARD]
    assert [n.op for n in forward[:3]] == ["aten.permute", "aten.matmul", "aten.add.Tensor"]
    weight, bias = graph.producer("weight.grad"), graph.producer("bias.grad")
    assert (weight.op, weight.attrs["dims_self"]) == ("aten.tensordot", (0, 1))
    assert (bias.op, bias.attrs["dim"], bias.attrs["keepdim"]) == (
        "aten.sum.dim_IntList",
        (0, 1),
        False,
    )
    assert not {"aten.view", "aten.mm"} & set(ops(graph))
    assert weight.partner == forward[1].name


def test_a_linear_layer_on_two_dims_is_a_plain_product():
    graph = trained(nn.Linear(8, 4), 5, 8)
    assert "aten.mm" in ops(graph)
    assert not {"aten.matmul", "aten.tensordot", "aten.view"} & set(ops(graph))


def test_the_gradient_of_an_input_is_a_product_too():
    model = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 4))
    graph = trained(model, 5, 3, 2, 8)
    products = [n for n in graph.nodes if n.op == "aten.matmul" and n.phase is Phase.BACKWARD]
    (node,) = products
    made = graph.tensors[node.name]
    assert (made.type.shape, made.role) == ((5, 3, 2, 6), Role.GRADIENT)
    assert graph.producer(made.of).op == "aten.tanh"


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_transformer_layer_splits_along_batch_sequence_and_heads(batch_first):
    layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=batch_first)
    graph = trained(layer, 5, 3, 8)
    assert not {"aten.mm", "aten.bmm"} & set(ops(graph))
    for node in graph.nodes:
        if node.op == "aten.matmul":
            rank = graph.tensors[node.name].type.rank
            found = {split.index for split in node_splits(graph, node)}
            assert found == {*(f"i{d}" for d in range(rank)), "k"}, node
        if node.op == "aten.tensordot":
            assert {s.index for s in node_splits(graph, node)} == {"i0", "i1", "k0", "k1"}


def test_gradients_keep_whose_they_are():
    graph = trained(nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0), 5, 3, 8)
    for node in graph.nodes:
        if node.op == "aten.matmul" and node.phase is Phase.BACKWARD:
            assert graph.node(node.partner).op == "aten.matmul", node
    owners = [t.of for t in graph.tensors.values() if t.role is Role.GRADIENT]
    assert len(owners) == len(set(owners))  # what is read twice has one gradient, the sum


class Shared(nn.Module):
    """A merged tensor that a linear layer reads, and an operator that needs it merged."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(0, 1)
        return (self.linear(flat) * flat.sort(0).values).view(x.shape)


def test_a_view_stays_for_other_readers():
    graph = trained(Shared(), 5, 3, 8)
    (sort,) = [n for n in graph.nodes if n.op.startswith("aten.sort")]
    assert graph.tensors[sort.inputs[0]].type.shape == (15, 8)
    assert "aten.matmul" in ops(graph, Phase.FORWARD)


class Returned(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        flat = torch.relu(x).flatten(0, 1)
        return {"flat": flat * 2, "whole": (flat + 1).view(x.shape)}


def test_what_is_returned_has_its_own_shape():
    x = torch.randn(5, 3, 8)
    graph = capture.capture(Returned(), inputs=x)
    verify(graph)
    found = capture.replay(graph, capture.bind(graph, Returned(), inputs=x))
    wanted = Returned()(x)
    for name, tensor in zip(graph.outputs, wanted.values(), strict=True):
        torch.testing.assert_close(found[name], tensor)


class Scores(nn.Module):
    """Attention with keys that all samples share, by `torch.matmul`."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.randn(2, 4, 5))

    def forward(self, x: Tensor) -> Tensor:
        return torch.matmul(x, self.keys).softmax(-1)


def test_a_batched_product_with_an_expanded_operand():
    graph = trained(Scores(), 3, 2, 6, 4)
    assert "aten.matmul" in ops(graph, Phase.FORWARD)
    assert "aten.bmm" not in ops(graph)


class Tokens(nn.Module):
    """A language model whose loss flattens batch and time."""

    def __init__(self, vector: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 8)
        self.output = nn.Linear(8, 7)
        self.scale = nn.Parameter(torch.randn(8)) if vector else None

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens.flatten()).view(*tokens.shape, 8)
        if self.scale is not None:
            x = x * torch.matmul(x, self.scale).unsqueeze(-1)
        return self.output(x)


def flattened_loss(output: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(output.flatten(0, 1), targets.flatten(), ignore_index=0)


@pytest.mark.parametrize("vector", [False, True])
def test_a_loss_on_flattened_targets(vector):
    batch = (torch.randint(7, (4, 5)), torch.randint(7, (4, 5)))
    graph = eager.assert_trains_alike(
        Tokens(vector).double(), flattened_loss, batch, torch.optim.SGD, {"lr": 0.1}
    )
    merged = [t for t in graph.tensors.values() if 20 in t.type.shape]
    assert not merged


class Loss(nn.Module):
    """A mean over a merged tensor: its gradient is one number everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        out = self.linear(x).flatten(0, 1)
        return (out * out).mean() + out.flatten().sum(0, keepdim=True).squeeze()


def test_a_gradient_that_is_one_number_takes_any_shape():
    x = torch.randn(5, 3, 8, dtype=torch.float64)
    graph = eager.assert_trains_alike(Loss().double(), None, x, None, steps=1)
    verify(graph)
    assert not [t for t in graph.tensors.values() if 15 in t.type.shape]


def test_half_precision_and_inference():
    model = nn.Linear(8, 4).bfloat16()
    x = torch.randn(5, 3, 8, dtype=torch.bfloat16)
    graph = capture.capture(model, inputs=x)
    found = capture.replay(graph, capture.bind(graph, model, inputs=x))
    torch.testing.assert_close(found[graph.outputs[0]], model(x), rtol=2e-2, atol=2e-2)


class Viewed(nn.Module):
    """A parameter that stands beside a merged tensor, in dims that it does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(4, 1, 8))

    def forward(self, x: Tensor) -> Tensor:
        return (x.flatten(1, 2) * self.scale).view(x.shape)


def test_a_parameter_that_is_viewed_in_finer_dims_stays_itself():
    graph = trained(Viewed(), 4, 5, 3, 8)
    made = [t for t in graph.tensors.values() if t.name not in graph.inputs]
    assert all(t.role is not Role.PARAMETER for t in made)
    assert graph.tensors["scale.grad"].of == "scale"
