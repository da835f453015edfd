"""Save and load what a training run holds, under any plan: the values are those of whole tensors, not of their parts.

    4 processes, float32[10] cut at 0 2 5 7     --save-->  000001-step-10/  --load-->  3 processes, cut at 0 3 6
                                                                                       1 process, into a plain module

A checkpoint is complete or invisible: it is written beside the others under a hidden name and renamed when all processes
have written and flushed (`checkpoint_folder`); those before are not touched until then. Parts that several processes hold
are written once. All processes call `save` and `load` together, with a folder that they share; without a process group
there is one process. What lies in the files is said in `checkpoint_write` and `checkpoint_index`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from graphwright.aten import tensor_type
from graphwright.errors import (
    CheckpointMismatch,
    CheckpointNotSaved,
    InvalidOption,
    InvalidShard,
)
from graphwright.ir import TensorType, parse_type
from graphwright.plans import as_box
from graphwright.run.checkpoint.folder import commit, find, hidden_folder, latest
from graphwright.run.checkpoint.index import Index, read_index
from graphwright.run.checkpoint.shards import (
    Part,
    Shard,
    cut,
    distinct_boxes,
    held_box,
    is_empty,
    whole_box,
)
from graphwright.run.processes import rank_and_size, together

Offer = tuple[str, tuple[int, ...], str]
_NOT_OF_THE_MODEL = ("optimizer.", "loss_fn.")


def save(
    directory: str | os.PathLike[str],
    step_number: int,
    shards: Mapping[str, Shard],
    *,
    extra: Mapping[str, Any] | None = None,
    keep: int | None = None,
) -> Path:
    """Save the tensors of all processes as the newest checkpoint of `directory`, and return its path.

    `extra` is anything that JSON can hold; that of rank 0 is saved. With `keep`, only so many of the newest stay.
    """
    from graphwright.run.checkpoint.write import write_parts

    rank, size = rank_and_size()
    where = Path(directory)
    options = dict(extra or {})
    offers = together(lambda: _offers(step_number, shards, options, keep, rank, size))
    types = _agree(offers)
    former = latest(where)
    try:
        with hidden_folder(where, rank) as made:
            parts = {n: part for n, shard in shards.items() if (part := _own_part(shard, rank))}
            write_parts(made, step_number, parts, types, options)
            done = together(lambda: "" if rank else str(commit(where, made, step_number, keep)))
            return Path(done[0])
    except (OSError, RuntimeError, CheckpointNotSaved) as error:
        kept = f"the one before, {former}, is as it was" if former else "there was none before it"
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise CheckpointNotSaved(
            f"step {step_number} could not be saved in {where}: {reason}; {kept}. Free some room, or give a folder that "
            "all processes can write to",
            former=str(former) if former else None,
        ) from error


def load(path: str | os.PathLike[str], shards: Mapping[str, Shard]) -> dict[str, Any]:
    """Fill `local` of every shard from a checkpoint, or from the newest in a folder of them; return what was given as `extra`.

    It may have been written under another plan and by another number of processes. All names and types, and the sizes
    of the files, are compared before anything is changed; only bytes that turn out damaged while they are read can leave some tensors filled.
    """
    from graphwright.run.checkpoint.read import read_parts

    rank, _ = rank_and_size()
    found = Path(together(lambda: "" if rank else str(find(Path(path))))[0])
    parts: dict[str, Part] = {}

    def prepare() -> list[str]:
        for name, shard in shards.items():
            if (box := held_box(shard, rank)) is not None:
                parts[name] = Part(shard.type, box, shard.local)
        return list(shards)

    asked = {name for names in together(prepare) for name in names}
    wanted = {name: shard.type for name, shard in shards.items()}

    def compare() -> dict[str, Any]:
        index = read_index(found)
        _compare(found, index, wanted, set(index.tensors) - asked)
        indexes.append(index)
        return index.extra

    indexes: list[Index] = []
    extra = together(compare)[rank]
    read_parts(found, indexes[0], parts, alone=False)
    return extra


def examine(
    path: str | os.PathLike[str], wanted: Mapping[str, TensorType]
) -> tuple[Path, dict[str, Any]]:
    """The checkpoint at `path`, or the newest in it, and its `extra`, in this process alone; refused unless it holds just these tensors."""
    found = find(Path(path))
    index = read_index(found)
    _compare(found, index, wanted, set(index.tensors) - set(wanted))
    return found, index.extra


def load_into_module(path: str | os.PathLike[str], module: nn.Module) -> dict[str, Any]:
    """Fill the parameters and buffers of a plain module, in this process alone; return what was given as `extra`.

    What belongs to the optimizer, or to a loss that is a module, is passed over.
    """
    from graphwright.run.checkpoint.read import read_parts

    found = find(Path(path))
    index = read_index(found)
    tensors: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    tensors |= dict(module.named_buffers(remove_duplicate=False))
    shared = {id(tensor) for name, tensor in tensors.items() if name in index.tensors}
    saved = module.state_dict().keys()
    wanted = {
        name: tensor_type(tensor)
        for name, tensor in tensors.items()
        if name in index.tensors or (name in saved and id(tensor) not in shared)
    }
    extra = {
        name
        for name in set(index.tensors) - set(tensors)
        if not name.startswith(_NOT_OF_THE_MODEL) and name.rpartition(".")[0] not in tensors
    }
    _compare(found, index, wanted, extra)
    for name in wanted:
        if tensors[name].is_meta:
            raise InvalidShard(
                f"{name} is a meta tensor, without memory; call module.to_empty(device='cpu') first"
            )
    parts = {n: Part(type, whole_box(type.shape), tensors[n]) for n, type in wanted.items()}
    read_parts(found, index, parts, alone=True)
    return index.extra


# Saving


def _offers(
    step: int,
    shards: Mapping[str, Shard],
    extra: dict[str, Any],
    keep: int | None,
    rank: int,
    size: int,
) -> dict[str, Offer]:
    """What this process has to give, after all checks that need nobody else."""
    if keep is not None and keep < 1:
        raise InvalidOption(
            f"keep={keep}: the newest always stays; give 1 or more, or None for all"
        )
    if step < 0:
        raise InvalidOption(f"step {step}: steps are counted from 0 on")
    try:
        json.dumps(extra)
    except (TypeError, ValueError) as error:
        raise InvalidOption(f"extra cannot be written as JSON: {error}") from error
    for name, shard in shards.items():
        sharding = shard.sharding
        if name != shard.name:
            raise InvalidShard(f"the shard of {shard.name} is given under the name {name}")
        if sharding.is_partial:
            raise InvalidShard(
                f"{name} is {sharding}: terms still to be put together; reduce it before it is saved"
            )
        if max(sharding.mesh.devices) >= size:
            raise InvalidShard(
                f"{name} lies on the devices {sharding.mesh.devices}, but there are {size} processes: nobody would save the rest"
            )
        held_box(shard, rank)
        distinct_boxes(sharding, shard.type.shape, name)
    return {name: _offer(shard) for name, shard in shards.items()}


def _offer(shard: Shard) -> Offer:
    mesh = shard.sharding.mesh
    how = f"{shard.sharding} on {mesh.shape}, pieces {shard.sharding.pieces}"
    return repr(shard.type), mesh.devices, how


def _agree(offers: list[dict[str, Offer]]) -> dict[str, TensorType]:
    """The types of all tensors; every process of a tensor's mesh must offer its part, in the same way."""
    first: dict[str, Offer] = {}
    for rank, some in enumerate(offers):
        for name, offer in some.items():
            if first.setdefault(name, offer) != offer:
                raise InvalidShard(f"{name} is {offer} on rank {rank}, but {first[name]} before")
    for name, (_, devices, _) in first.items():
        if silent := [rank for rank in devices if name not in offers[rank]]:
            raise InvalidShard(
                f"{name} lies on the devices {devices}, but ranks {silent} give no part of it"
            )
    return {name: parse_type(offer[0]) for name, offer in first.items()}


def _own_part(shard: Shard, rank: int) -> Part | None:
    """What this process answers for; replicas all do, and `torch.distributed.checkpoint` chooses one."""
    box = held_box(shard, rank)
    if box is None:
        return None
    if not shard.type.numel:  # no element, but still a tensor: written once, whole
        whole = shard.local.new_empty(shard.type.shape)
        return Part(shard.type, whole_box(shard.type.shape), whole)
    position = shard.sharding.mesh.devices.index(rank)
    own = as_box(distinct_boxes(shard.sharding, shard.type.shape, shard.name)[position])
    return None if is_empty(own) else Part(shard.type, own, cut(shard.local, box, own))


# Loading


def _compare(path: Path, index: Index, wanted: Mapping[str, TensorType], extra: set[str]) -> None:
    """Refuse a checkpoint that holds other tensors than are wanted."""
    missing = [name for name in wanted if name not in index.tensors]
    other = [n for n in wanted if n in index.tensors and index.tensors[n].type != wanted[n]]
    shown = {
        "it lacks": missing,
        "nothing asks for": sorted(extra),
        "of another type are": [
            f"{n} ({index.tensors[n].type} there, {wanted[n]} here)" for n in other
        ],
    }
    if not any(shown.values()):
        return
    found = "; ".join(f"{what} {_some(names)}" for what, names in shown.items() if names)
    raise CheckpointMismatch(
        f"{path} does not fit: {found}. Nothing was changed; load it into the model and the optimizer that wrote it",
        missing=tuple(missing),
        extra=tuple(sorted(extra)),
        mismatched=tuple(other),
    )


def _some(names: list[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
