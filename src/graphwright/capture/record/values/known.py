"""Values that are the same in every step: nothing that a step is given decides them.

    arange(n)[:, None] >= arange(n)        a mask of shapes alone
    ~eye(n, dtype=bool)                    which pairs are compared: n (n - 1) of them, always
    ones(n).sum().item()                   n

Neither an input nor a draw is behind them, so they are computed here, for real, where their values
are asked for. That is exact: the step would compute the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._python_dispatch import _disable_current_modes

from graphwright.aten import call_kernel, to_dtype
from graphwright.capture.record.tape import Entry, Value
from graphwright.ir import CONSTANT_OP

MOST_ELEMENTS = 1 << 26
"""A larger tensor is not computed."""
_MOST_ENTRIES = 200


def known_value(value: Value) -> Tensor | None:
    """What a value is in every step; None if an input or a draw is behind it."""
    entries = _entries_behind(value)
    if entries is None:
        return None
    with off_the_record():
        return _evaluate(entries, value)


@contextmanager
def off_the_record() -> Iterator[None]:
    """Compute with real tensors, without writing anything down."""
    with unset_fake_temporarily(), _disable_current_modes(), torch.no_grad():
        yield


def _entries_behind(value: Value) -> list[Entry] | None:
    """The entries that make a value, in order; None if an input or a draw is behind it."""
    pending = [value.producer]
    entries: dict[int, Entry] = {}
    while pending:
        entry = pending.pop()
        if entry is None or entry.random or len(entries) > _MOST_ENTRIES:
            return None
        if any(made.type.numel > MOST_ELEMENTS for made in entry.outputs):
            return None
        if entry.index not in entries:
            entries[entry.index] = entry
            pending += [v.producer for v in entry.inputs if v is not None]
    return [entries[index] for index in sorted(entries)]


def _evaluate(entries: Sequence[Entry], wanted: Value) -> Tensor | None:
    values: dict[Value, Tensor] = {}
    try:
        for entry in entries:
            inputs = [None if v is None else values[v] for v in entry.inputs]
            values.update(zip(entry.outputs, _run(entry, inputs), strict=True))
    except (RuntimeError, TypeError, ValueError, KeyError):
        return None
    return values[wanted]


def _run(entry: Entry, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
    if entry.op == CONSTANT_OP:
        type = entry.outputs[0].type
        content = torch.tensor(entry.attrs["value"], dtype=to_dtype(type.dtype))
        return (content.reshape(type.shape),)
    return call_kernel(entry.op, inputs, entry.attrs)
