"""Ids as users give them: a number, a tensor, any iterable, or True/False for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphwright.gnn.storage.errors import InvalidIds

ID_TYPES = (torch.int32, torch.int64)


def as_ids(
    given: Any, idtype: torch.dtype, device: torch.device, what: str, limit: int | None = None
) -> Tensor:
    """Ids as a tensor of the graph's type and device; within `limit`, if one is given."""
    if isinstance(given, Tensor):
        ids = given.reshape(1) if given.dim() == 0 else given
        if ids.dtype == torch.bool and limit is not None and len(ids) == limit:
            ids = ids.nonzero().reshape(-1).to(idtype)
        if ids.dtype != idtype:
            raise InvalidIds(
                f'Expect argument "{what}" to have data type {idtype}. But got {ids.dtype}.'
            )
        if ids.device != device:
            raise InvalidIds(
                f'Expect argument "{what}" to have device {device}. But got {ids.device}.'
            )
        if ids.dim() != 1:
            raise InvalidIds(
                f'Expect argument "{what}" to be a 1-D tensor. Got shape {tuple(ids.shape)}.'
            )
    else:
        array = np.asarray(given if not hasattr(given, "__next__") else list(given))
        array = array.reshape(-1)
        if array.size and array.dtype.kind not in "iu":
            raise InvalidIds(
                f'Expect argument "{what}" to be integers. But got {array.dtype}: {given!r:.60}.'
            )
        ids = torch.as_tensor(array.astype(np.int64)).to(device=device, dtype=idtype)
    if limit is not None and len(ids):
        low, high = (int(end) for end in torch.aminmax(ids))
        if low < 0 or high >= limit:
            raise InvalidIds(
                f'Argument "{what}" has id {low if low < 0 else high}, but ids go from 0 to '
                f"{limit - 1}."
                if limit
                else f'Argument "{what}" has id {high}, but there are none.'
            )
    return ids
