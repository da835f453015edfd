"""The halo of a part: rows of other workers' vertices come in, their gradients go back.

    worker 0   x[send_rows] -------->  halo of worker 1                                forward
    worker 0   grad[send_rows] +=  <-  gradients of worker 1's halo                    backward

`begin` and `finish` are two steps of autograd's tape, so that what is computed between them,
forward or backward, overlaps with the transfer. A token, which holds a zero, leads from one to the
other. The tokens of a pass are added to the loss: so every worker takes part in every exchange on
the way back, even if nothing that it computed depends on its halo.

Rows without gradients, as the features that a first layer aggregates, are mostly the same in every
epoch. They are sent in the first and then again only if they have changed on any worker: each
compares what it would send with what it sent, and the others hear one number of it.

    pass 1    send, remember              pass 2    compare: 0 workers differ    use what came
                                                             1 or more           send ever after
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import torch
from torch import Tensor

from graphwright.gnn.distributed.training.clock import LayerClock
from graphwright.gnn.kernels import as_one
from graphwright.run import RowLinks


class Pending(Protocol):
    """Rows under way."""

    def wait(self) -> Tensor:
        """The rows, once they are there."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Routes:
    """Which own rows go to others, rank after rank, and how many come from each."""

    send_rows: Tensor
    sent: tuple[int, ...]
    received: tuple[int, ...]


@dataclass(slots=True, eq=False)
class _Exchange:
    """One exchange: what is under way, in either direction."""

    pending: Pending | None
    layer: int
    num_rows: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    back: Pending | None = None
    remembered: _Remembered | None = None


@dataclass(slots=True, eq=False)
class _Remembered:
    """The rows of one exchange that had no gradients: what was sent, and what came."""

    sent: Tensor
    came: Tensor | None = None

    def is_same(self, rows: Tensor) -> bool:
        return rows.dtype == self.sent.dtype and torch.equal(rows, self.sent)

    def wait(self) -> Tensor:
        assert self.came is not None
        return self.came


class HaloExchange:
    """The halo of one part; the exchanges of a pass in the order in which they began."""

    def __init__(self, links: RowLinks, routes: Routes, clock: LayerClock) -> None:
        self.links, self.routes, self.clock = links, routes, clock
        self.tokens: list[Tensor] = []
        self.num_rows = sum(routes.received)
        self.remembers = True
        """Whether rows without gradients are kept from one pass to the next."""
        self.received_bytes = 0
        """What came from other workers in this pass, both ways."""
        self._remembered: dict[int, _Remembered | None] = {}  # None: rows that change
        self._under_way: dict[int, _Exchange] = {}
        self._newest: _Exchange | None = None

    def start(self) -> None:
        """A pass over the model begins."""
        self.tokens.clear()
        self._under_way.clear()
        self.received_bytes = 0
        self.clock.start()

    def begin(self, x: Tensor) -> Tensor:
        """Send own rows that others need; a token for what comes in return."""
        token = _Begin.apply(self, x, self._may_last(x))
        assert isinstance(token, Tensor) and self._newest is not None
        self.tokens.append(token)
        self._under_way[id(token)] = self._newest
        return token

    def finish(self, token: Tensor) -> Tensor:
        """The rows of the halo."""
        rows = _Finish.apply(self, self._under_way.pop(id(token)), token)
        assert isinstance(rows, Tensor)
        return rows

    def _may_last(self, x: Tensor) -> bool:
        """Whether rows may be those of the pass before; all workers answer alike."""
        if not self.remembers or self.links.size == 1 or x.requires_grad:
            return False
        changes = self._remembered.get(len(self.clock.widths), ...) is None
        return torch.is_grad_enabled() and not changes

    def remembered(self, layer: int, rows: Tensor) -> _Remembered | None:
        """What is kept of an exchange; rows that came are there if nobody's have changed."""
        if layer not in self._remembered:
            self._remembered[layer] = _Remembered(rows)
            return self._remembered[layer]
        kept = self._remembered[layer]
        assert kept is not None
        changed = torch.tensor([0.0 if kept.is_same(rows) else 1.0], device=rows.device)
        if self.links.sum([changed])[0].item():
            self._remembered[layer] = kept = None
        return kept

    def sum(self, x: Tensor) -> Tensor:
        """The sum of a tensor over all workers, on each of them, with gradients."""
        made = _Sum.apply(self, x)
        assert isinstance(made, tuple)
        total: Tensor = made[0]
        self.tokens.append(made[1])
        return total

    def anchored(self, loss: Tensor) -> Tensor:
        """A loss that depends on every exchange, with the same value."""
        return torch.stack([loss, *(token.to(loss.dtype) for token in self.tokens)]).sum()


def _send(rows: Tensor, halo: HaloExchange, sent: Sequence[int], received: Sequence[int]) -> Any:
    halo.received_bytes += sum(received) * prod(rows.shape[1:]) * rows.element_size()
    return halo.links.trade(rows, sent, received)


class _Begin(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, halo: HaloExchange, x: Tensor, may_last: bool) -> Tensor:
        token: Tensor = _begin(halo, x, may_last)
        ctx.halo, ctx.exchange = halo, halo._newest
        return token

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, _take_back(ctx.halo, ctx.exchange, grads[0]), None


class _Finish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, halo: HaloExchange, exchange: _Exchange, token: Tensor) -> Tensor:
        ctx.halo, ctx.exchange = halo, exchange
        rows: Tensor = _finish(halo, exchange)
        return rows

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, _send_back(ctx.halo, ctx.exchange, grads[0])


class _Sum(torch.autograd.Function):
    """Every worker's total depends on every worker's term, so gradients are summed as well."""

    @staticmethod
    def forward(ctx: Any, halo: HaloExchange, x: Tensor) -> tuple[Tensor, Tensor]:
        ctx.halo = halo
        return _summed(halo, x), x.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, _summed(ctx.halo, grads[0])


# Each of these is one operator to a mode that looks: what is under way belongs to nobody else.


@as_one
def _begin(halo: HaloExchange, x: Tensor, may_last: bool) -> Tensor:
    halo.clock.stop()
    routes, shape = halo.routes, tuple(x.shape[1:])
    rows = x.detach().index_select(0, routes.send_rows).contiguous()
    layer = halo.clock.add_layer(prod(shape))
    remembered = halo.remembered(layer, rows) if may_last else None
    pending: Pending | None = remembered
    if remembered is None or remembered.came is None:
        pending = _send(rows, halo, routes.sent, routes.received)
    halo._newest = _Exchange(pending, layer, len(x), shape, x.dtype, remembered=remembered)
    halo.clock.go_on(layer)
    return x.new_zeros(())


@as_one
def _take_back(halo: HaloExchange, exchange: _Exchange, like: Tensor) -> Tensor:
    halo.clock.stop()
    routes = halo.routes
    if exchange.back is None:  # nothing here depends on the halo
        zeros = like.new_zeros(halo.num_rows, *exchange.shape, dtype=exchange.dtype)
        exchange.back = _send(zeros, halo, routes.received, routes.sent)
    back = exchange.back.wait()
    grad = like.new_zeros(exchange.num_rows, *exchange.shape, dtype=exchange.dtype)
    grad.index_add_(0, routes.send_rows, back)
    exchange.back = None
    halo.clock.go_on(exchange.layer - 1)
    return grad


@as_one
def _finish(halo: HaloExchange, exchange: _Exchange) -> Tensor:
    halo.clock.stop()
    assert exchange.pending is not None
    rows: Tensor = exchange.pending.wait()
    exchange.pending = None  # it would keep the rows until the way back
    if exchange.remembered is not None:
        exchange.remembered.came = rows
    halo.clock.go_on()
    return rows


@as_one
def _send_back(halo: HaloExchange, exchange: _Exchange, grad: Tensor) -> Tensor:
    halo.clock.stop()
    rows = grad.clone() if grad.is_cuda else grad.contiguous()  # it may be freed while it is sent
    exchange.back = _send(rows, halo, halo.routes.received, halo.routes.sent)
    halo.clock.go_on()
    return rows.new_zeros(())


@as_one
def _summed(halo: HaloExchange, x: Tensor) -> Tensor:
    halo.clock.stop()
    total = halo.links.sum([x.contiguous()])[0].clone()
    halo.clock.go_on()
    return total
