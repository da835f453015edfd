"""Values that are the same in every step: nothing that a step is given decides them.

    arange(n)[:, None] >= arange(n)        a mask of shapes alone
    ~eye(n, dtype=bool)                    which pairs are compared: n (n - 1) of them, always
    ones(n).sum().item()                   n

Neither an input nor a draw is behind them, so they are computed here, for real, where their values
are asked for. That is exact: the step would compute the same.

    max(self.stride, pad).item()           with self.stride a buffer outside of the state dict

Whole numbers in buffers that are neither saved nor changed by the step are settings of the model,
as are numbers in its attributes. The step may look at single ones; `refuse_changed_settings` makes
sure at the end that it changed none that it looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._python_dispatch import _disable_current_modes

from graphwright.aten import call_kernel, to_dtype
from graphwright.capture.record.tape import Entry, Value
from graphwright.errors import DataDependentControlFlow
from graphwright.ir import CONSTANT_OP

MOST_ELEMENTS = 1 << 26
"""A larger tensor is not computed."""
_MOST_ENTRIES = 200
MOST_IN_SETTING = 64
"""A buffer of more numbers is data."""


def known_value(value: Value, *, by_settings: bool = False) -> Tensor | None:
    """What a value is in every step; None if a draw or an input, maybe no setting, is behind it."""
    settings: set[Value] | None = set[Value]() if by_settings else None
    entries = _entries_behind(value, settings)
    if entries is None:
        return None
    with off_the_record():
        known = _evaluate(entries, value, settings or ())
    for setting in settings or ():
        setting.is_asked |= known is not None
    return known


def setting_of(module: nn.Module, name: str) -> Tensor | None:
    """What a buffer holds if it is a setting of the model, else None."""
    owner, _, own_name = name.rpartition(".")
    holder = module.get_submodule(owner)
    held: Tensor = getattr(holder, own_name)
    is_setting = (
        own_name in holder._non_persistent_buffers_set
        and not held.is_meta
        and held.numel() <= MOST_IN_SETTING
        and not (held.is_floating_point() or held.is_complex())
    )
    if not is_setting:
        return None
    with off_the_record():
        return held.detach().cpu().clone()


def refuse_changed_settings(updates: Mapping[str, Value], inputs: Mapping[str, Value]) -> None:
    """Refuse a step that changes a setting by which it took a turn."""
    for name in updates:
        if inputs[name].is_asked:
            raise DataDependentControlFlow(
                f"the step looks at the value of the buffer {name}, and changes it, so that it may "
                "go another way the next time; keep what it decides by in an attribute"
            )


@contextmanager
def off_the_record() -> Iterator[None]:
    """Compute with real tensors, without writing anything down."""
    with unset_fake_temporarily(), _disable_current_modes(), torch.no_grad():
        yield


def _entries_behind(value: Value, settings: set[Value] | None) -> list[Entry] | None:
    """The entries that make a value, in order; None if an input or a draw is behind it.

    The inputs that are settings go into `settings`, if it is given.
    """
    pending = [value]
    entries: dict[int, Entry] = {}
    while pending:
        made = pending.pop()
        entry = made.producer
        if entry is None and settings is not None and made.content is not None:
            settings.add(made)
            continue
        if entry is None or entry.random or len(entries) > _MOST_ENTRIES:
            return None
        if any(made.type.numel > MOST_ELEMENTS for made in entry.outputs):
            return None
        if entry.index not in entries:
            entries[entry.index] = entry
            pending += [v for v in entry.inputs if v is not None]
    return [entries[index] for index in sorted(entries)]


def _evaluate(entries: Sequence[Entry], wanted: Value, settings: Iterable[Value]) -> Tensor | None:
    values = {setting: setting.content for setting in settings if setting.content is not None}
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
