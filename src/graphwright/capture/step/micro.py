"""Gradient accumulation: the batch of a step, cut into micro-batches.

    batch of 8, accumulate=4        0 1 | 2 3 | 4 5 | 6 7        four times forward, backward

As in the loop that one writes by hand, micro-batches are consecutive samples (`tensor.chunk(4)`),
each loss counts one part in `accumulate`, and gradients are added in their order. Every tensor of
the batch is cut along its batch dim; one that has none is named in `batch_dim` with None, and is
read whole by all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from graphwright.aten import BatchDim, map_named, named_tensors
from graphwright.errors import InvalidAccumulation


def check_accumulation(accumulate: object, inputs: Any, targets: Any, batch_dim: BatchDim) -> None:
    """Raise unless the batch can be cut in so many parts."""
    if not isinstance(accumulate, int) or isinstance(accumulate, bool) or accumulate < 1:
        raise InvalidAccumulation(
            f"accumulate has to be a number of micro-batches, 1 or more, not {accumulate!r}"
        )
    if accumulate == 1:
        return
    tensors = {**dict(named_tensors("inputs", inputs)), **dict(named_tensors("targets", targets))}
    if not isinstance(batch_dim, int):
        unknown = sorted(set(batch_dim) - set(tensors))
        if unknown:
            raise InvalidAccumulation(
                f"batch_dim names {', '.join(unknown)}, but the batch has {', '.join(tensors)}"
            )
    first: tuple[str, int] | None = None
    for name, tensor in tensors.items():
        dim = _dim_of(name, batch_dim)
        if dim is None:
            continue
        if not -tensor.dim() <= dim < tensor.dim():
            raise InvalidAccumulation(
                f"{name} has shape {list(tensor.shape)}, so no dim {dim} along which "
                f"accumulate={accumulate} could cut it; name its batch dim, or None to let every "
                f"micro-batch read all of it: batch_dim={{{name!r}: None}}"
            )
        size = tensor.shape[dim]
        first = first or (name, size)
        if size != first[1]:
            raise InvalidAccumulation(
                f"{name} has {size} samples along dim {dim}, but {first[0]} has {first[1]}; name "
                "its batch dim, or None to let every "
                f"micro-batch read all of it: batch_dim={{{name!r}: None}}"
            )
    if first is None:
        raise InvalidAccumulation(
            "no tensor of the batch has a batch dim, so accumulate has nothing to cut"
        )
    if first[1] % accumulate or first[1] == 0:
        fitting = [n for n in range(1, first[1] + 1) if first[1] % n == 0]
        nearest = sorted(fitting, key=lambda n: abs(n - accumulate))[:3]
        raise InvalidAccumulation(
            f"accumulate={accumulate} does not divide the batch: {first[0]} has {first[1]} "
            "samples; give "
            + (
                f"accumulate={' or '.join(map(str, sorted(nearest)))}, or another batch size"
                if nearest
                else "a batch that has some"
            )
        )


def micro_batches(
    accumulate: int, inputs: Any, targets: Any, batch_dim: BatchDim
) -> Iterator[tuple[Any, Any]]:
    """Yield inputs and targets of each micro-batch; cut when it is asked for."""
    if accumulate == 1:
        yield inputs, targets
        return
    for number in range(accumulate):

        def part(name: str, tensor: Tensor, number: int = number) -> Tensor:
            return _part(tensor, _dim_of(name, batch_dim), number, accumulate)

        yield map_named(part, "inputs", inputs), map_named(part, "targets", targets)


def _part(tensor: Tensor, dim: int | None, number: int, count: int) -> Tensor:
    if dim is None:
        return tensor
    size = tensor.shape[dim] // count
    return tensor.narrow(dim, number * size, size)


def _dim_of(name: str, batch_dim: BatchDim) -> int | None:
    return batch_dim if isinstance(batch_dim, int) else batch_dim.get(name, 0)
