"""Nodes know where they come from; gradients know whose they are; unknown operators are told once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphwright import capture
from graphwright.capture import api
from graphwright.ir import CONSTANT_OP, Graph, Phase, Role

pytestmark = pytest.mark.filterwarnings("ignore:no description")


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1, bias=False) for _ in range(2))
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = x + torch.relu(block(x))
        return self.head(x.mean((2, 3)))


@pytest.fixture(scope="module")
def graph() -> Graph:
    batch = (torch.randn(2, 3, 5, 5), torch.randint(3, (2,)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", api.UndescribedOperators)
        return capture.capture(Residual(), F.cross_entropy, batch, optimizer=torch.optim.SGD)


def test_module_paths_and_layers(graph: Graph) -> None:
    convolutions = [n for n in graph.nodes if n.op == "aten.convolution"]
    assert [(n.module, n.layer) for n in convolutions] == [
        ("stem", None),
        ("blocks.0", 0),
        ("blocks.1", 1),
    ]
    assert graph.node("blocks.1.weight.new").module == "blocks.1"


def test_backward_nodes_take_the_place_of_their_partner(graph: Graph) -> None:
    for node in graph.nodes:
        if node.phase is Phase.BACKWARD:
            assert node.partner is not None
            partner = graph.node(node.partner)
            assert partner.phase is Phase.FORWARD
            assert (node.module, node.layer, node.step) == (
                partner.module,
                partner.layer,
                partner.step,
            )


def test_convolution_gradients_are_partners_of_the_convolution(graph: Graph) -> None:
    gradients = [n for n in graph.nodes if n.op.startswith("graphwright.convolution_grad")]
    assert len(gradients) == 5  # the stem's input needs none
    assert all(graph.node(n.partner or "").op == "aten.convolution" for n in gradients)


def test_every_tensor_on_the_path_has_a_gradient(graph: Graph) -> None:
    gradient_of = {
        t.of for t in graph.tensors.values() if t.role is Role.GRADIENT and t.of is not None
    }
    convolutions = {
        n.name for n in graph.nodes if n.module.startswith("blocks") and "convol" in n.op
    }
    assert convolutions & {n.name for n in graph.nodes if n.phase is Phase.FORWARD} <= gradient_of
    parameters = {n for n in graph.inputs if graph.tensors[n].role is Role.PARAMETER}
    assert parameters <= gradient_of


def test_gathered_gradients_belong_to_what_they_are_gathered_for(graph: Graph) -> None:
    sums = [n for n in graph.nodes if n.phase is Phase.BACKWARD and n.op == "aten.add.Tensor"]
    assert len(sums) == 2
    for node in sums:
        of = graph.tensors[node.name].of
        assert of is not None
        assert graph.producer(of) == graph.node(node.partner or "")


def test_loss_comes_first_and_new_values_are_named_for_the_old(graph: Graph) -> None:
    assert graph.outputs[0] == "loss"
    assert graph.updates == {
        name: f"{name}.new" for name in graph.inputs if graph.tensors[name].role is Role.PARAMETER
    }


@pytest.fixture
def unknown_operator() -> Iterator[torch._ops.OpOverload]:
    with torch.library._scoped_library("graphwright_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        yield torch.ops.graphwright_test.twice.default


def test_unknown_operator_is_captured_and_told_at_each_capture(
    unknown_operator: torch._ops.OpOverload, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return unknown_operator(x) * torch.tensor([1.0, 2.0, 3.0])

    monkeypatch.setattr(api, "is_described", lambda op: op.startswith("aten."))
    x = torch.randn(3)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            graph = capture.capture(Model(), inputs=x)
        (warning,) = told
        assert warning.category is api.UndescribedOperators
        assert "no description for graphwright_test.twice: " in str(warning.message)
        assert warning.filename == __file__
    assert CONSTANT_OP in {node.op for node in graph.nodes}
    found = capture.replay(graph, {"inputs.0": x})["output.0"]
    assert torch.equal(found, x * 2 * torch.tensor([1.0, 2.0, 3.0]))
