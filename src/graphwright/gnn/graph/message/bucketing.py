"""Reduce by a user's function: nodes with as many messages go together (DGL thesis, section 4.6.1).

A reduction of any form sees a mailbox [nodes, messages, ...]. Nodes are put into buckets by the
number of messages, and the function runs once for each bucket:

    in-degrees   2 0 3 2 3     ->     {2: nodes 0, 3}   {3: nodes 2, 4}      0: keeps its feature

A power-law graph has hundreds of small buckets. A function that heeds `nodes.mask` may have them
padded: degrees are rounded up to the next power of two (`padded`), and there are at most as many
buckets as the largest degree has bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.storage import Compressed, InvalidFunction, take_rows


@dataclass(frozen=True, slots=True, eq=False)
class Bucket:
    """Nodes with the places of their messages, [nodes, messages]; a mask if some are padding."""

    nodes: Tensor
    messages: Tensor
    mask: Tensor | None


def padded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a reduce function as one that heeds `nodes.mask`, so that buckets may be padded."""
    function.__dict__["__gnn_padded__"] = True
    return function


def is_padded(function: Any) -> bool:
    """Whether a reduce function may be given padded buckets."""
    return bool(getattr(function, "__gnn_padded__", False))


def buckets(form: Compressed, pad: bool) -> list[Bucket]:
    """The rows of a form with entries, by their number; messages are edges in the form's order."""
    degrees = form.indptr.diff()
    sizes = degrees
    if pad:
        exponents = torch.ceil(torch.log2(degrees.clamp(min=1).double()))
        sizes = torch.where(degrees > 0, (2**exponents).to(degrees.dtype), 0)
    made, numbers = [], form.numbered().long()
    for size in torch.unique(sizes).tolist():
        if size == 0:
            continue
        nodes = (sizes == size).nonzero().reshape(-1)
        within = torch.arange(size, device=nodes.device)
        entries = form.indptr[nodes].long()[:, None] + within
        mask = within < degrees[nodes][:, None]
        if bool(mask.all()):
            made.append(Bucket(nodes, numbers[entries], None))
        else:
            safe = entries.clamp(max=len(numbers) - 1)
            made.append(Bucket(nodes, torch.where(mask, numbers[safe], 0), mask))
    return made


def take_messages(values: Any, bucket: Bucket) -> Any:
    """The mailbox of a bucket: [nodes, messages, ...], with zeros for padding."""
    rows, columns = bucket.messages.shape
    taken = take_rows(values, bucket.messages.reshape(-1))
    taken = taken.reshape(rows, columns, *values.shape[1:])
    if bucket.mask is None:
        return taken
    mask = bucket.mask.reshape(rows, columns, *[1] * (len(values.shape) - 1))
    return taken * (mask if isinstance(values, Tensor) else mask.numpy())


def check_result(result: Any, expected: int, what: str, function: Any) -> Mapping[str, Any]:
    """What a user's function returned: a dictionary of features with one row for each."""
    name = getattr(function, "__name__", type(function).__name__)
    if not isinstance(result, Mapping):
        raise InvalidFunction(
            f"{what} function {name} has to return a dictionary from field names to tensors. Got "
            f"{type(result).__name__}."
        )
    for field, values in result.items():
        if not hasattr(values, "shape") or len(values.shape) == 0 or len(values) != expected:
            given = list(values.shape) if hasattr(values, "shape") else type(values).__name__
            raise InvalidFunction(
                f"{what} function {name} returned field '{field}' of shape {given}, but its batch "
                f"has {expected} rows; the first dimension has to be the batch's."
            )
    return result
