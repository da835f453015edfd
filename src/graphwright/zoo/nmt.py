"""Neural machine translation with attention: FlexFlow's NMT (section 3.7.1, figure 3.15).

An encoder and a decoder of two LSTM layers of 1024 each, unrolled for 40 steps, with attention on
top of the last decoder layer (Luong et al., 2015, "general" score) and a linear map to the
vocabulary:

    a[t, s] = softmax over s of  h[t] . W memory[s]
    y[t] = tanh(V [sum over s of a[t, s] memory[s], h[t]])

The vocabulary is that of the system it follows, 32,000 word pieces (Wu et al., 2016); the embedding
has the hidden size.
"""

import torch
from torch import Tensor, nn

from graphwright.zoo.rnn import LSTMCell


class StepAttention(nn.Module):
    """Attention of one decoder step to all encoder steps."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.score = nn.Linear(hidden, hidden, bias=False)
        self.join = nn.Linear(2 * hidden, hidden, bias=False)

    def forward(self, h: Tensor, memory: Tensor) -> Tensor:
        scores = torch.bmm(memory, self.score(h).unsqueeze(2))
        weights = torch.softmax(scores, dim=1)
        context = torch.bmm(weights.transpose(1, 2), memory).squeeze(1)
        return torch.tanh(self.join(torch.cat((context, h), dim=1)))


class NMT(nn.Module):
    """The next word's scores at every step; the decoder starts from the encoder's last states."""

    def __init__(self, *, layers: int, hidden: int, vocabulary: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.source = nn.Embedding(vocabulary, hidden)
        self.target = nn.Embedding(vocabulary, hidden)
        self.encoder = nn.ModuleList(LSTMCell(hidden, hidden) for _ in range(layers))
        self.decoder = nn.ModuleList(LSTMCell(hidden, hidden) for _ in range(layers))
        self.attention = StepAttention(hidden)
        self.output = nn.Linear(hidden, vocabulary)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x, y = self.source(source), self.target(target)
        zeros = x.new_zeros(x.shape[0], self.hidden)
        states = [(zeros, zeros) for _ in self.encoder]
        memory = []
        for step in range(x.shape[1]):
            h = x[:, step]
            for layer, cell in enumerate(self.encoder):
                states[layer] = cell(h, states[layer])
                h = states[layer][0]
            memory.append(h)
        stacked = torch.stack(memory, dim=1)
        outputs = []
        for step in range(y.shape[1]):
            h = y[:, step]
            for layer, cell in enumerate(self.decoder):
                states[layer] = cell(h, states[layer])
                h = states[layer][0]
            outputs.append(self.attention(h, stacked))
        return self.output(torch.stack(outputs, dim=1))
