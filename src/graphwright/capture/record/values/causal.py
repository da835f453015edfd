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

from graphwright.capture.record.functional import VALUE
from graphwright.capture.record.tape import Value
from graphwright.capture.record.values.known import known_value, off_the_record


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
    mask = known_value(value)
    if mask is None:
        return False
    with off_the_record():
        causal = torch.ones(mask.shape[-2:], dtype=torch.bool).tril()
        if mask.dtype == torch.bool:
            return bool((mask == causal).all())
        hidden = mask <= torch.finfo(mask.dtype).min / 2
        return bool(((mask == 0) == causal).all() and (hidden == ~causal).all())
