"""What all ranks have to be given alike: the values that training starts from, learning rates, and batches that are given whole.

Nothing of it travels in a step, so ranks that differ would train different models and report one loss. They compare short digests before the first call,
the second, the fourth, the eighth and so on: what goes wrong in every step is found soon, and what is compared costs nothing in the long run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b

import torch

from graphwright.errors import RanksDiffer
from graphwright.run.processes.agreement import together

ENDS = 1 << 15
"""Bytes at each end of a tensor that are looked at: values that were drawn or read differently differ there, too."""

VALUES, RATES = "values", "rates"


def is_due(num_calls: int) -> bool:
    """Whether ranks compare after so many calls: after 0, 1, 3, 7, ..."""
    return num_calls & (num_calls + 1) == 0


def digest_of(tensors: Iterable[tuple[str, torch.Tensor]]) -> str:
    """A short name for the values of tensors, by their ends; of what is on the meta device that it is there."""
    found = blake2b(digest_size=16)
    for name, tensor in tensors:
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} {tensor.is_meta}".encode())
        if tensor.is_meta or not tensor.numel():
            continue
        count = max(1, ENDS // tensor.element_size())
        flat = tensor.detach().reshape(-1)
        for part in (flat[:count], flat[-count:]):
            found.update(part.contiguous().cpu().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def check_alike(given: Mapping[str, object]) -> None:
    """Compare with all other ranks what this one was given, by the names of inputs, VALUES and RATES; None is not compared."""
    everywhere = together(lambda: dict(given))
    for key, own in everywhere[0].items():
        for rank, other in enumerate(everywhere):
            if None not in (own, other.get(key)) and other[key] != own:
                raise RanksDiffer(_words(key, rank, own, other[key]))


def _words(key: str, rank: int, first: object, other: object) -> str:
    if key == VALUES:
        return (
            f"rank {rank} has a model with other values than rank 0. Call torch.manual_seed with the same number on every rank before making the model, "
            "read it from a file, or step.load a checkpoint before the first step"
        )
    if key == RATES:
        return f"rank {rank} has the learning rates {other}, and rank 0 has {first}; step the scheduler on every rank"
    return (
        f"rank {rank} was given another {key} than rank 0. Give all ranks the same whole batch, shuffled from the same seed, or each its own part "
        "(graphwright.run.shard_loader)"
    )
