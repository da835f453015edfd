"""What a rank does with its own tensors besides calling operators: cut regions, look up rows.

    cut     a region of a tensor, filled up beyond the edges
    rows    a part holds rows [low, end) of a table: an index moves down by low, and what it would
            find elsewhere counts as 0 (`describe.Mask`)

Operators run part by part (`check.parts`) and programs (`module`) do this alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch


def take(held: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    """An input, taken out of what is held."""
    return held.pop(name)


def window(value: torch.Tensor, region: Sequence[tuple[int, int]]) -> torch.Tensor:
    """A region of a tensor, in the tensor's own memory."""
    for dim, ((start, stop), size) in enumerate(zip(region, value.shape, strict=True)):
        if stop - start != size:
            value = value.narrow(dim, start, stop - start)
    return value


def cut(
    value: torch.Tensor, region: Sequence[tuple[int, int]], fills: Sequence[float | None] = ()
) -> torch.Tensor:
    """A region of a tensor, dense and in its order of memory, with fill values beyond the edges."""
    sizes = value.shape
    inside = [
        (min(max(0, start), size), max(min(size, stop), 0))
        for (start, stop), size in zip(region, sizes, strict=True)
    ]
    inner = window(value, [(low, max(low, high)) for low, high in inside])
    for dim, (start, stop) in enumerate(region):
        before = min(max(0, -start), stop - start)
        after = stop - start - before - inner.shape[dim]
        if before or after:
            pads = [0, 0] * (inner.dim() - dim - 1) + [before, after]
            inner = torch.constant_pad_nd(inner, pads, (fills[dim] if fills else None) or 0)
    order = order_in_memory(value)
    if order is None:
        return inner.contiguous()
    back = sorted(range(len(order)), key=lambda place: order[place])
    return inner.permute(order).contiguous().permute(back)


def order_in_memory(value: torch.Tensor) -> list[int] | None:
    """The dims, outermost first, of a dense value that lies in memory in another order, or None."""
    if value.is_contiguous():
        return None
    order = sorted(range(value.dim()), key=lambda dim: -value.stride()[dim])
    return order if value.permute(order).is_contiguous() else None


def zeros_like(value: torch.Tensor, region: Sequence[tuple[int, int]]) -> torch.Tensor:
    """Zeros in the place of a region."""
    return value.new_zeros([stop - start for start, stop in region])


def check_rows(index: torch.Tensor, size: int) -> None:
    """Raise, or on a GPU abort, if an index is outside of a table: no rank would notice."""
    inside = ((index >= 0) & (index < size)).all()
    torch._assert_async(inside, f"index out of range: the table has {size:,} rows")


def find_rows(index: torch.Tensor, low: int, end: int) -> torch.Tensor:
    """Which elements of an index lie in [low, end)."""
    return (index >= low) & (index < end)


def move_rows(index: torch.Tensor, held: torch.Tensor, low: int) -> torch.Tensor:
    """An index that counts from `low`; 0 where the row is not held."""
    return torch.where(held, index - low, 0)


def hide_rows(value: torch.Tensor, held: torch.Tensor, dims: tuple[int, ...]) -> torch.Tensor:
    """The value where rows are held, else 0; `dims` are those dims of it that the index has.

    The 0 is written as False, which every dtype can hold: a mask of truth values stays one.
    """
    order = sorted(range(len(dims)), key=lambda d: dims[d])
    shape = [1] * value.dim()
    for d in order:
        shape[dims[d]] = held.shape[d]
    return torch.where(held.permute(order).reshape(shape), value, False)


def own_memory(value: torch.Tensor) -> torch.Tensor:
    """The value in memory of its own, no larger than itself, in the order of its dims."""
    whole = value.numel() * value.element_size()
    if value.is_contiguous() and value.untyped_storage().nbytes() == whole:
        return value
    return value.clone(memory_format=torch.contiguous_format)
