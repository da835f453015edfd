"""Recurrent layers are unrolled; every node of a cell knows its layer and time step."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import eager
from graphwright import capture
from graphwright.ir import Phase

pytestmark = pytest.mark.filterwarnings("ignore:no description")

ADAM = {"lr": 0.01}


class Tagger(nn.Module):
    def __init__(self, layer: nn.RNNBase, width: int, *, given_state: bool = False) -> None:
        super().__init__()
        self.layer, self.out, self.given_state = layer, nn.Linear(width, 3), given_state

    def forward(self, x: Tensor, *state: Tensor) -> Tensor:
        if self.given_state:
            hidden = state if isinstance(self.layer, nn.LSTM) else state[0]
            y, last = self.layer(x, hidden)
        else:
            y, last = self.layer(x)
        last = last if isinstance(last, Tensor) else last[1]
        return self.out(y).flatten(0, 1).mean(0, keepdim=True) + last.mean()


LAYERS = {
    "lstm": lambda: (nn.LSTM(4, 5), 5),
    "lstm deep": lambda: (nn.LSTM(4, 5, 3, dropout=0.3, batch_first=True), 5),
    "lstm both ways": lambda: (nn.LSTM(4, 5, 2, bidirectional=True, bias=False), 10),
    "lstm projected": lambda: (nn.LSTM(4, 5, 2, proj_size=3, bidirectional=True), 6),
    "gru": lambda: (nn.GRU(4, 5), 5),
    "gru both ways deep": lambda: (
        nn.GRU(4, 5, 3, bidirectional=True, batch_first=True, dropout=0.2),
        10,
    ),
    "rnn tanh": lambda: (nn.RNN(4, 5, 2), 5),
    "rnn relu": lambda: (nn.RNN(4, 5, 2, nonlinearity="relu", bidirectional=True), 10),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_recurrent_layer_trains_alike(kind: str) -> None:
    torch.manual_seed(0)
    layer, width = LAYERS[kind]()
    batch = (torch.randn(3, 2, 4, dtype=torch.float64), torch.randint(3, (1,)))
    model = Tagger(layer, width).double()
    eager.assert_trains_alike(model, F.cross_entropy, batch, torch.optim.Adam, ADAM)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_initial_state_is_an_input(kind: str) -> None:
    torch.manual_seed(0)
    layer, width = LAYERS[kind]()
    x = torch.randn(3, 2, 4, dtype=torch.float64)
    state = [torch.randn(1, 2, 5, dtype=torch.float64) for _ in range(1 + (kind == "lstm"))]
    model = Tagger(layer, width, given_state=True).double()
    batch = ((x, *state), torch.randint(3, (1,)))
    eager.assert_trains_alike(model, F.cross_entropy, batch, torch.optim.Adam, ADAM)


def test_sequences_without_a_batch_dimension() -> None:
    torch.manual_seed(0)
    model = Tagger(nn.GRU(4, 5), 5).double()
    model.out = nn.Linear(5, 1).double()
    batch = (torch.randn(3, 4, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64))
    eager.assert_trains_alike(
        model, lambda y, t: (y.sum() - t.sum()) ** 2, batch, torch.optim.Adam, ADAM
    )


def test_nodes_know_layer_and_step() -> None:
    model = Tagger(nn.LSTM(4, 5, 2), 5)
    batch = (torch.randn(3, 2, 4), torch.randint(3, (1,)))
    graph = capture.capture(model, F.cross_entropy, batch, optimizer=torch.optim.SGD)
    products = [n for n in graph.nodes if n.op == "aten.mm" and n.module == "layer"]
    forward = [(n.layer, n.step) for n in products if n.phase is Phase.FORWARD]
    expected = [(layer, step) for layer in range(2) for step in range(3) for _ in range(2)]
    assert forward == expected
    backward = {(n.layer, n.step) for n in products if n.phase is Phase.BACKWARD}
    assert backward == set(expected)
    for node in graph.nodes:
        if node.phase is Phase.BACKWARD and node.module == "layer" and node.op == "aten.mm":
            assert node.partner is not None
            assert graph.node(node.partner).step == node.step


class Loop(nn.Module):
    """A cell called in a Python loop, inside a stack of two."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.ModuleList([nn.LSTMCell(4, 4), nn.LSTMCell(4, 4)])
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        states = [(torch.zeros_like(x[0]), torch.zeros_like(x[0])) for _ in self.cells]
        for step in x:
            for index, cell in enumerate(self.cells):
                states[index] = cell(step, states[index])
                step = self.relu(states[index][0])
        return step


def test_a_module_called_again_and_again_counts_its_calls() -> None:
    torch.manual_seed(0)
    batch = (torch.randn(3, 2, 4, dtype=torch.float64), torch.randint(4, (2,)))
    graph = eager.assert_trains_alike(
        Loop().double(), F.cross_entropy, batch, torch.optim.SGD, {"lr": 0.1}
    )
    cells = [n for n in graph.nodes if n.op == "aten.mm" and n.phase is Phase.FORWARD]
    steps = [(n.module, n.layer, n.step) for n in cells]
    assert steps == [(f"cells.{i}", i, t) for t in range(3) for i in range(2) for _ in range(2)]
    assert all(n.step is None for n in graph.nodes if n.module == "relu")
