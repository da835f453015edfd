"""Where a node comes from: phase, module call, forward partner, whose gradient it makes.

Autograd numbers its nodes. The forward call that makes autograd node s is the first one dispatched
after the counter passed s; the backward calls of s run while s is autograd's current node. So:

    forward    mm      counter 7 -> 8     groups[7] = the values that mm made
    backward   s = 7: t, mm, mm           partner = the producer of groups[7]
    hook       before s = 7 runs, its incoming gradients are those of groups[7], one by one

Between the end of one autograd node and the start of the next, the only calls are the additions
that gather the gradients of a tensor used more than once (`accumulates`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from graphwright.capture.record.functional import value_of
from graphwright.capture.record.tape import Entry, Frame, Value
from graphwright.ir import Phase, Role

_DERIVATIVES = {
    "aten.mm": "aten.mm",
    "aten.bmm": "aten.bmm",
    "graphwright.convolution_grad_input": "aten.convolution",
    "graphwright.convolution_grad_weight": "aten.convolution",
    "graphwright.max_pool_grad_input": "graphwright.max_pool",
}
"""Which forward operator a backward operator derives, where it is not the last one of its call."""


class Provenance:
    """Follows the step as it runs and says, for each call, where it belongs."""

    def __init__(self) -> None:
        self.phase = Phase.FORWARD
        self.frame: Frame | None = None
        self.cell: tuple[int | None, int] | None = None
        self.micro: int | None = None
        self.loss: Value | None = None
        self.accumulating = False
        self._reader: Entry | None = None
        self.calls: Counter[str] = Counter()
        self._recalls: Counter[str] = Counter()
        self._groups: dict[int, _Group] = {}
        self._numbers: list[int] = []
        self._last = _sequence_number()

    # Autograd.

    def opened_group(self) -> int | None:
        """Return the number of the autograd node made since the last call, if there is one."""
        number = _sequence_number()
        if number == self._last:
            return None
        self._last = number
        return number - 1

    def close_group(self, number: int, values: list[Value | None], entries: list[Entry]) -> None:
        """Remember what the call that made autograd node `number` returned and wrote."""
        self._groups[number] = _Group(values, entries)
        self._numbers.append(number)

    @property
    def recomputing(self) -> bool:
        """Whether a checkpointed part of the forward pass is being run again."""
        return self.phase is Phase.BACKWARD and torch.is_grad_enabled()

    def partner(self, op: str) -> Entry | None:
        """Return the forward entry whose autograd node is running.

        Where the forward call was written as several entries, it is the one that `op` derives (the
        product for a product, the convolution for its gradients), else the one that made the
        result.
        """
        if self.phase is not Phase.BACKWARD:
            return None
        if self._reader is not None:
            return self._reader
        node: Any = torch._C._current_autograd_node()
        if node is None:
            return None if self.loss is None else self.loss.producer
        at = bisect_right(self._numbers, node._sequence_nr()) - 1
        for index in range(at, -1, -1):
            entry = self._groups[self._numbers[index]].main(op)
            if entry is not None:
                return entry if entry.phase is Phase.FORWARD else entry.partner
        return None

    @contextmanager
    def belonging_to(self, reader: Entry | None) -> Iterator[None]:
        """Let what is recorded inside be the backward of one forward entry: a parameter's hook."""
        before = self._reader, self.accumulating
        self._reader, self.accumulating = reader, False
        try:
            yield
        finally:
            self._reader, self.accumulating = before

    def watch(self, loss: torch.Tensor) -> None:
        """Follow the backward pass from `loss`: label gradients, notice accumulation."""
        self.loss = value_of(loss)
        pending: list[Any] = [loss.grad_fn]
        seen: set[torch.autograd.graph.Node] = set()
        while pending:
            node = pending.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            pending.extend(following for following, _ in node.next_functions)
            if node.next_functions:  # not a leaf
                node.register_prehook(_Before(self, node._sequence_nr()))
                node.register_hook(self._after)

    def before(self, number: int, grads: Sequence[torch.Tensor | None]) -> None:
        """Label the gradients that autograd node `number` is given."""
        self.accumulating = False
        group = self._groups.get(number)
        if group is None:
            return
        for grad, forward in zip(grads, group.values, strict=False):
            if grad is not None and forward is not None:
                self.label(value_of(grad), forward)

    def _after(self, _inputs: object, _outputs: object) -> None:
        self.accumulating = True

    def label(self, grad: Value, forward: Value) -> None:
        """Say that `grad` is the gradient of `forward`."""
        if grad.role is not Role.ACTIVATION or grad.producer is None:
            return
        if grad.type.shape != forward.type.shape or grad is forward:
            return
        if grad.producer.phase is not Phase.BACKWARD:
            return
        grad.role, grad.of = Role.GRADIENT, forward
        if forward.producer is not None and forward.producer.phase is Phase.FORWARD:
            _set_partner(grad.producer, forward.producer)

    # Modules.

    @contextmanager
    def following(self, modules: Sequence[tuple[str, nn.Module]]) -> Iterator[None]:
        """Follow the calls of modules, given with their paths."""
        paths: dict[int, str] = {}
        for path, module in modules:
            paths.setdefault(id(module), path)

        stack: list[tuple[nn.Module, Frame | None]] = []

        def enter(module: nn.Module, _args: object) -> None:
            parent = self.frame
            stack.append((module, parent))
            path = paths.get(id(module), parent.path if parent else "")
            counts = self.calls if self.phase is Phase.FORWARD else self._recalls
            owns = next(module.parameters(), None) is not None
            self.frame = Frame(path, counts[path], owns, parent)
            counts[path] += 1

        def leave(module: nn.Module, _args: object, _result: object) -> None:
            left = None
            while left is not module:  # calls inside of it that raised have no end of their own
                left, self.frame = stack.pop()

        handles = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave)]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            self.frame = None

    @contextmanager
    def at_micro_batch(self, number: int) -> Iterator[None]:
        """Mark what is recorded inside as one micro-batch of several; each counts its own calls."""
        self.phase, self.micro = Phase.FORWARD, number
        self.calls.clear()
        self._recalls.clear()
        try:
            yield
        finally:
            self.micro = None

    @contextmanager
    def at_cell(self, layer: int | None, step: int) -> Iterator[None]:
        """Mark what is recorded inside as one cell of an unrolled recurrence."""
        before, self.cell = self.cell, (layer, step)
        try:
            yield
        finally:
            self.cell = before


@dataclass(slots=True)
class _Group:
    """What one forward call returned and wrote."""

    values: list[Value | None]
    entries: list[Entry]

    def main(self, op: str) -> Entry | None:
        """Return the entry that a backward operator belongs to."""
        wanted = _DERIVATIVES.get(op)
        for entry in self.entries:
            if entry.op == wanted:
                return entry
        return next((v.producer for v in self.values if v is not None and v.producer), None)


def _sequence_number() -> int:
    number: int = torch.autograd._get_sequence_nr()
    return number


class _Before:
    """A pre-hook of one autograd node."""

    __slots__ = ("number", "provenance")

    def __init__(self, provenance: Provenance, number: int) -> None:
        self.provenance, self.number = provenance, number

    def __call__(self, grads: Sequence[torch.Tensor | None]) -> None:
        self.provenance.before(self.number, grads)


def _set_partner(entry: Entry, partner: Entry) -> None:
    """Give a chain of accumulating additions its partner."""
    pending = [entry]
    while pending:
        node = pending.pop()
        if node.accumulates and node.partner is not partner:
            node.partner = partner
            pending.extend(
                v.producer
                for v in node.inputs
                if v is not None and v.producer is not None and v.role is Role.ACTIVATION
            )
