"""LSTM, GRU and plain RNN layers, unrolled in time.

PyTorch runs a whole recurrence as one call. Here each layer and time step is written out, with the
cell's own operators, so that a graph shows every step's weights use and each node knows its layer
and step:

    LSTM  i, f, g, o = chunk(x W_ih' + h W_hh' + b);  c' = f c + i g;  h' = o tanh(c')
    GRU   r, z, n with n = tanh(x_n + r h_n);         h' = (h - n) z + n
    RNN   h' = tanh or relu of (x W_ih' + h W_hh' + b)

The functions have the signatures of `torch._VF.lstm` and the others, and stand in for them during a
capture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

import torch
from torch import Tensor
from torch.nn.modules import rnn as torch_rnn

from graphwright.capture.record import Provenance
from graphwright.errors import UnsupportedModel

State = tuple[Tensor, ...]
Cell = Callable[[Tensor, State, "Weights"], State]


class Weights:
    """The weights of one layer and direction."""

    def __init__(self, flat: Sequence[Tensor], bias: bool) -> None:
        self.w_ih, self.w_hh = flat[0], flat[1]
        self.b_ih = flat[2] if bias else None
        self.b_hh = flat[3] if bias else None
        rest = flat[4:] if bias else flat[2:]
        self.w_hr = rest[0] if rest else None

    def gates(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Return the two projections that a cell adds up."""
        linear = torch.nn.functional.linear
        return linear(x, self.w_ih, self.b_ih), linear(h, self.w_hh, self.b_hh)


def lstm_cell(x: Tensor, state: State, weights: Weights) -> State:
    """One step of an LSTM."""
    h, c = state
    of_x, of_h = weights.gates(x, h)
    i, f, g, o = (of_x + of_h).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(c)
    if weights.w_hr is not None:
        h = torch.nn.functional.linear(h, weights.w_hr)
    return h, c


def gru_cell(x: Tensor, state: State, weights: Weights) -> State:
    """One step of a GRU."""
    (h,) = state
    of_x, of_h = weights.gates(x, h)
    xr, xz, xn = of_x.chunk(3, -1)
    hr, hz, hn = of_h.chunk(3, -1)
    n = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
    return ((h - n) * torch.sigmoid(xz + hz) + n,)


def tanh_cell(x: Tensor, state: State, weights: Weights) -> State:
    """One step of a plain RNN."""
    of_x, of_h = weights.gates(x, state[0])
    return (torch.tanh(of_x + of_h),)


def relu_cell(x: Tensor, state: State, weights: Weights) -> State:
    """One step of a plain RNN with rectified units."""
    of_x, of_h = weights.gates(x, state[0])
    return (torch.relu(of_x + of_h),)


class _Unrolled:
    """Stands in for one of PyTorch's recurrences."""

    def __init__(self, provenance: Provenance, cell: Cell, num_states: int) -> None:
        self.provenance, self.cell, self.num_states = provenance, cell, num_states

    def __call__(
        self,
        x: Tensor,
        hx: Tensor | Sequence[Tensor],
        flat_weights: Sequence[Tensor],
        bias: bool | Sequence[Tensor],
        num_layers: int,
        dropout: float,
        training: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Tensor, ...]:
        if not isinstance(
            bias, bool
        ):  # (data, batch_sizes, hx, flat_weights, ...): a packed sequence
            raise UnsupportedModel(
                "a packed sequence has a shape that depends on the data; pad to a fixed length"
            )
        initial = (hx,) if isinstance(hx, Tensor) else tuple(hx)
        directions = 2 if bidirectional else 1
        per_cell = len(flat_weights) // (num_layers * directions)
        time_dim = 1 if batch_first else 0
        sequence = list(x.unbind(time_dim))
        finals: list[State] = []
        for layer in range(num_layers):
            number = layer if num_layers > 1 else None
            outputs: list[list[Tensor]] = []
            for direction in range(directions):
                index = layer * directions + direction
                weights = Weights(flat_weights[index * per_cell : (index + 1) * per_cell], bias)
                with self.provenance.at_cell(number, 0):
                    state = tuple(s[index] for s in initial)
                steps: list[Tensor] = [x] * len(sequence)
                order = range(len(sequence))
                for step in reversed(order) if direction else order:
                    with self.provenance.at_cell(number, step):
                        state = self.cell(sequence[step], state, weights)
                    steps[step] = state[0]
                outputs.append(steps)
                finals.append(state)
            sequence = self._join(outputs, number)
            if dropout and training and layer < num_layers - 1:
                dropped = torch.dropout(torch.stack(sequence), dropout, True)
                sequence = list(dropped.unbind())
        states = [torch.stack([s[i] for s in finals]) for i in range(self.num_states)]
        return torch.stack(sequence, time_dim), *states

    def _join(self, outputs: list[list[Tensor]], layer: int | None) -> list[Tensor]:
        if len(outputs) == 1:
            return outputs[0]
        joined: list[Tensor] = []
        for step, pair in enumerate(zip(*outputs, strict=True)):
            with self.provenance.at_cell(layer, step):
                joined.append(torch.cat(pair, -1))
        return joined


class _Functions:
    """`torch._VF` with the recurrences replaced."""

    def __init__(self, provenance: Provenance) -> None:
        self.lstm = _Unrolled(provenance, lstm_cell, 2)
        self.gru = _Unrolled(provenance, gru_cell, 1)
        self.rnn_tanh = _Unrolled(provenance, tanh_cell, 1)
        self.rnn_relu = _Unrolled(provenance, relu_cell, 1)

    def __getattr__(self, name: str) -> object:
        return getattr(torch._VF, name)


@contextmanager
def unrolled(provenance: Provenance) -> Iterator[None]:
    """Run recurrent layers step by step."""
    with mock.patch.object(torch_rnn, "_VF", _Functions(provenance)):
        yield
