"""Recurrent models: LSTMs unrolled in Python (RNN, BRNN, RNNLM), `nn.LSTM` (RNNTC), NasRNN.

The unrolled models call one cell per layer once per time step, so the graph holds every step and a
layer's weights are shared by its steps:

    h[l, t], c[l, t] = cell[l](h[l-1, t], (h[l, t-1], c[l, t-1]))
    h[-1, t] = embedding(tokens[:, t])

Tofu (section 7.1) and SwapAdvisor (section 5.1) take the model of Jozefowicz et al. (2016): an
embedding of 1024 and LSTM layers, 20 steps. Neither gives the vocabulary. Their sizes leave no room
for words: a layer has 4 H (H + H) weights, the first 4 H (1024 + H), and 3 x 4 bytes of those alone
give Tofu's Table 2 within 1.5% (units of 2^30 bytes). So tokens are characters here, 256 of them,
which adds 0.2% at most.

One cell of Table 2 is off: L = 8, H = 6K is given as 28.5 where this formula has 25.6. The
neighbours L = 6 and 10 (18.6 and 32.1) put the middle of the line at 25.35; every cell of the table
is three times a figure of one decimal, and 9.5 for 8.5 explains the 28.5.

SwapAdvisor's table 5.1 agrees: taking 3 x weights off its memory (118 GB for RNN-8-8K at batch 256,
99 GB for BRNN-4-8K at batch 128) leaves about the same for each of the 160 cells of either, 58 and
61 tensors of batch x hidden.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

State = tuple[Tensor, Tensor]


class LSTMCell(nn.Module):
    """One LSTM step; the four gates are one linear map of the input and one of the state."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.input = nn.Linear(inputs, 4 * hidden)
        self.hidden = nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self, x: Tensor, state: State) -> State:
        h, c = state
        i, f, g, o = (self.input(x) + self.hidden(h)).chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


def unroll(cell: nn.Module, steps: list[Tensor], hidden: int) -> list[Tensor]:
    """The outputs of one layer at every step, from a zero state."""
    zeros = steps[0].new_zeros(steps[0].shape[0], hidden)
    state, outputs = (zeros, zeros), []
    for x in steps:
        state = cell(x, state)
        outputs.append(state[0])
    return outputs


class RNN(nn.Module):
    """A language model: embedding, stacked recurrent layers, one linear map to the vocabulary.

    `cell` makes a layer's cell from its input and hidden sizes.
    """

    def __init__(
        self,
        *,
        layers: int,
        hidden: int,
        vocabulary: int,
        embedding: int,
        cell: type[nn.Module] = LSTMCell,
    ) -> None:
        super().__init__()
        self.hidden = hidden
        self.embedding = nn.Embedding(vocabulary, embedding)
        sizes = [embedding] + [hidden] * (layers - 1)
        self.cells = nn.ModuleList(cell(size, hidden) for size in sizes)
        self.output = nn.Linear(hidden, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        zeros = x.new_zeros(x.shape[0], self.hidden)
        states = [(zeros, zeros) for _ in self.cells]
        outputs = []
        for step in range(x.shape[1]):
            h = x[:, step]
            for layer, cell in enumerate(self.cells):
                states[layer] = cell(h, states[layer])
                h = states[layer][0]
            outputs.append(h)
        return self.output(torch.stack(outputs, dim=1))


class BRNN(nn.Module):
    """Bidirectional: each layer concatenates the outputs of a forward and a backward cell."""

    def __init__(self, *, layers: int, hidden: int, vocabulary: int, embedding: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.embedding = nn.Embedding(vocabulary, embedding)
        sizes = [embedding] + [2 * hidden] * (layers - 1)
        self.forward_cells = nn.ModuleList(LSTMCell(size, hidden) for size in sizes)
        self.backward_cells = nn.ModuleList(LSTMCell(size, hidden) for size in sizes)
        self.output = nn.Linear(2 * hidden, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        steps = [x[:, step] for step in range(x.shape[1])]
        for ahead, back in zip(self.forward_cells, self.backward_cells, strict=True):
            left = unroll(ahead, steps, self.hidden)
            right = unroll(back, steps[::-1], self.hidden)[::-1]
            steps = [torch.cat(pair, dim=1) for pair in zip(left, right, strict=True)]
        return self.output(torch.stack(steps, dim=1))


class RNNTC(nn.Module):
    """Text classification with PyTorch's own `nn.LSTM`: the last step's state gives the class."""

    def __init__(
        self, *, layers: int, hidden: int, vocabulary: int, embedding: int, classes: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, num_layers=layers, batch_first=True)
        self.output = nn.Linear(hidden, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        outputs, _ = self.lstm(self.embedding(tokens))
        return self.output(outputs[:, -1])


class NasCell(nn.Module):
    """The recurrent cell of a neural architecture search (Zoph and Le, 2017).

    Its eight branches have separate linear maps, as in TASO (section 2.9.1), which merges them by
    rewriting.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.input = nn.ModuleList(nn.Linear(inputs, hidden) for _ in range(8))
        self.hidden = nn.ModuleList(nn.Linear(hidden, hidden, bias=False) for _ in range(8))

    def forward(self, x: Tensor, state: State) -> State:
        h, c = state
        a = [linear(x) for linear in self.input]
        b = [linear(h) for linear in self.hidden]
        first = torch.tanh(torch.sigmoid(a[0] + b[0]) * F.relu(a[1] + b[1]))
        second = torch.tanh(torch.sigmoid(a[2] + b[2]) + F.relu(a[3] * b[3]))
        third = torch.tanh(torch.tanh(a[4] + b[4]) * torch.sigmoid(a[5] + b[5]))
        fourth = torch.sigmoid(torch.tanh(a[6] + b[6]) + torch.sigmoid(a[7] + b[7]))
        c = torch.tanh(first + c) * second
        return torch.tanh(c * torch.tanh(third + fourth)), c
