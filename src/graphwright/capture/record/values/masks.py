"""Attention with a mask that is the same in every step, as attention without one.

    mask = arange(n)[:, None] >= arange(n)          made from nothing
    scaled_dot_product_attention(q, k, v, mask)     no query sees a later key: causal attention
    mask = ones(b, 1, n, n, dtype=bool)             every query sees every key: no mask at all

Libraries make such a mask where they are traced, so that it could also be another one. Nothing that
a step is given decides it, so its values are computed here, and the operator is told what they say.
Kernels then leave out what is not seen, and hold no mask.
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


def without_known_mask(
    func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """What attention is given, without a mask that is always causal or never hides anything."""
    names = [a.name for a in func._schema.arguments if not a.kwarg_only]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    mask = given.get("attn_mask")
    if not isinstance(mask, Tensor) or given.get("is_causal") or given.get("dropout_p"):
        return args, kwargs
    value: Value | None = getattr(mask, VALUE, None)
    known = None if value is None else known_value(value)
    if known is None:
        return args, kwargs
    with off_the_record():
        seen = _seen(known)
        if seen is None:
            return args, kwargs
        is_causal = not bool(seen.all())
        if is_causal and not _is_causal(seen, given["query"].shape[2], given["key"].shape[2]):
            return args, kwargs
    given |= {"attn_mask": None, "is_causal": is_causal, "dropout_p": 0.0}
    rest = {name: given[name] for name in given if name not in names}
    return [given[name] for name in names if name in given], rest


def _seen(mask: Tensor) -> Tensor | None:
    """Which keys a query sees; None if a mask adds anything else to scores."""
    if mask.dtype == torch.bool:
        return mask
    seen, hidden = mask == 0, mask <= torch.finfo(mask.dtype).min / 2
    return seen if bool((seen | hidden).all()) else None


def _is_causal(seen: Tensor, queries: int, keys: int) -> bool:
    """Whether each query sees the keys up to its own."""
    if queries != keys or seen.shape[-2:] != (queries, keys):
        return False
    return bool((seen == torch.ones(queries, keys, dtype=torch.bool).tril()).all())
