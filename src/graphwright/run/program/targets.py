"""What a generated module calls besides operators and `regions`: transfers, draws, constants.

    start(value) -> Pending       a transfer begins (`StartTransfer`, `StartSums`)
    finish(pending) -> value      and is waited for where its result is first needed
    draw(seed, inputs)            a part of a random operator's output (`DrawPart`)
    constant()                    a constant in memory of its own, which may be overwritten

`Transport` is how ranks reach each other; `run.links` has it for processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from graphwright.plans import Call, Collective, Exchange, Together
from graphwright.run.random import Keys, RandomBox, draw

_LINKS = "graphwright.run.links.collectives"


class Pending(Protocol):
    """Something under way."""

    def wait(self) -> torch.Tensor:
        """The result, once it is there."""


class Transport(Protocol):
    """How ranks reach each other."""

    def collect(self, what: Collective, value: torch.Tensor) -> Pending:
        """Begin a collective."""

    def sum_all(self, what: Together, values: Sequence[torch.Tensor]) -> Sequence[Pending]:
        """Begin several sums at once."""

    def exchange(self, what: Exchange, value: torch.Tensor | None) -> Pending:
        """Begin an exchange."""


def finish(pending: Pending) -> torch.Tensor:
    """Wait for what is under way."""
    return pending.wait()


class Permuted:
    """A result under way whose dims arrive in the order in which they lie in memory."""

    def __init__(self, pending: Pending, order: Sequence[int]) -> None:
        self.pending = pending
        self.back = sorted(range(len(order)), key=lambda place: order[place])

    def wait(self) -> torch.Tensor:
        return self.pending.wait().permute(self.back)


class StartTransfer:
    """Begins a collective or an exchange."""

    def __init__(self, links: Transport, what: Collective | Exchange) -> None:
        self.links, self.what = links, what
        kind = what.kind.name if isinstance(what, Collective) else "exchange"
        self.__name__ = self.__qualname__ = kind
        self.__module__ = _LINKS

    def __call__(self, value: torch.Tensor | None) -> Pending:
        order = self.what.order
        if value is not None and order is not None:
            value = value.permute(order)
        if isinstance(self.what, Collective):
            assert value is not None
            pending = self.links.collect(self.what, value)
        else:
            pending = self.links.exchange(self.what, value)
        return pending if order is None or self.what.output is None else Permuted(pending, order)


class StartSums:
    """Begins several sums."""

    def __init__(self, links: Transport, what: Together) -> None:
        self.links, self.what = links, what
        self.__name__ = self.__qualname__ = "all_reduce_together"
        self.__module__ = _LINKS

    def __call__(self, *values: torch.Tensor) -> Sequence[Pending]:
        orders = [each.order for each in self.what.sums]
        given = [v if o is None else v.permute(o) for v, o in zip(values, orders, strict=True)]
        sums = self.links.sum_all(self.what, given)
        return [s if o is None else Permuted(s, o) for s, o in zip(sums, orders, strict=True)]


class DrawPart:
    """Draws a part of a random operator's output."""

    def __init__(self, call: Call, device: torch.device) -> None:
        self.call, self.device = call, device
        self.__name__ = self.__qualname__ = f"draw_{call.op.replace('.', '_')}"
        self.__module__ = "graphwright.run.random.draw"

    def __call__(self, seed: int | Keys, *inputs: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        call = self.call
        operator = call.number if call.draw is None else call.draw
        place = RandomBox(seed=seed, operator=operator, shape=call.shape, box=call.box)
        return draw(call.op, call.attrs, inputs, place, self.device)


class CopyConstant:
    """Makes a constant, each time in memory of its own."""

    def __init__(self, value: torch.Tensor) -> None:
        self.value = value
        self.__name__ = self.__qualname__ = "constant"
        self.__module__ = __name__

    def __call__(self) -> torch.Tensor:
        return self.value.clone()
