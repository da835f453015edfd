"""Assignment through a mask, `x[mask] = value`, with a fixed shape.

    x[mask] = value    ->    x.copy_(where(mask, value, x))

PyTorch looks for the places where the mask is true, as many as its values say, forward and, for the
gradient of the value, backward. The two agree where the value does not say which of the masked
places it is for: one value, or one for each position of the dims behind the mask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class MaskedAssignment(TorchFunctionMode):
    """Assigns through masks without looking at their values, above autograd."""

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is Tensor.__setitem__ and _assign(*args):
            return None
        return func(*args, **(kwargs or {}))


def _assign(x: Tensor, key: object, values: object) -> bool:
    """Assign through a mask if it can be done so; whether it was."""
    keys = key if isinstance(key, tuple) else (key,)
    before = [k for k in keys[:-1] if isinstance(k, slice) and k == slice(None)]
    mask, first = keys[-1] if keys else None, len(before)
    if (
        not isinstance(mask, Tensor)
        or not isinstance(values, Tensor)
        or mask.dtype != torch.bool
        or mask.dim() == 0
        or first != len(keys) - 1
        or mask.shape != x.shape[first : first + mask.dim()]
    ):
        return False
    behind = x.dim() - first - mask.dim()
    if values.dim() > behind:
        at = values.dim() - behind - 1
        if values.shape[at] != 1 or at > first:
            return False
        values = values.reshape(*values.shape[:at], *(1,) * mask.dim(), *values.shape[at + 1 :])
    x.copy_(torch.where(mask.reshape(*mask.shape, *(1,) * behind), values.to(x.dtype), x))
    return True
