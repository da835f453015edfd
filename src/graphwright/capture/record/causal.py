"""Attention with a causal mask that the model writes out, as causal attention.

    mask = arange(n)[:, None] >= arange(n)          the same in every step: made from nothing
    scaled_dot_product_attention(q, k, v, mask)     no query sees a later key

Libraries make such a mask where they are traced, so that it could also be another one. Nothing that
a step is given decides it, so its values are computed here, and if they are those of a causal mask,
the operator is told so. Kernels then leave out what is not seen, and hold no mask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._python_dispatch import _disable_current_modes

from graphwright.aten import call_kernel
from graphwright.capture.record.functional import VALUE
from graphwright.capture.record.tape import Entry, Value

MOST_ELEMENTS = 1 << 26
"""A larger mask is not computed."""
_MOST_ENTRIES = 200


def without_causal_mask(
    func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The arguments of a call of attention, with a causal mask said in the place of one written."""
    names = [a.name for a in func._schema.arguments if not a.kwarg_only]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    mask, query, key = given.get("attn_mask"), given["query"], given["key"]
    if (
        not isinstance(mask, Tensor)
        or given.get("is_causal")
        or given.get("dropout_p")
        or query.shape[2] != key.shape[2]
        or mask.shape[-2:] != (query.shape[2], key.shape[2])
        or mask.numel() > MOST_ELEMENTS
    ):
        return args, kwargs
    value: Value | None = getattr(mask, VALUE, None)
    if value is None or not _is_causal(value):
        return args, kwargs
    given |= {"attn_mask": None, "is_causal": True, "dropout_p": 0.0}
    rest = {name: given[name] for name in given if name not in names}
    return [given[name] for name in names if name in given], rest


def _is_causal(value: Value) -> bool:
    """Whether a mask that nothing decides lets each query see the keys up to its own."""
    entries = _entries_behind(value)
    if entries is None:
        return False
    with unset_fake_temporarily(), _disable_current_modes(), torch.no_grad():
        mask = _evaluate(entries, value)
        if mask is None:
            return False
        causal = torch.ones(mask.shape[-2:], dtype=torch.bool).tril()
        if mask.dtype == torch.bool:
            return bool((mask == causal).all())
        hidden = mask <= torch.finfo(mask.dtype).min / 2
        return bool(((mask == 0) == causal).all() and (hidden == ~causal).all())


def _entries_behind(value: Value) -> list[Entry] | None:
    """The entries that make a value, in order; None if an input or a draw is behind it."""
    pending = [value.producer]
    entries: dict[int, Entry] = {}
    while pending:
        entry = pending.pop()
        if entry is None or entry.random or len(entries) > _MOST_ENTRIES:
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
            made = call_kernel(entry.op, inputs, entry.attrs)
            values.update(zip(entry.outputs, made, strict=True))
    except (RuntimeError, TypeError, ValueError, KeyError):
        return None
    return values[wanted]
