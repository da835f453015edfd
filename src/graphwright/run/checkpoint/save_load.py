"""Save and load what a training run holds, under any plan: whole tensors, not their parts.

    4 processes, float32[10]                                          3 processes, cut at 0 3 6
    cut at 0 2 5 7           --save-->  000001-step-10/  --load-->    1 process, a plain module

A checkpoint is complete or invisible: it is written under a hidden name and renamed when all
processes have written and flushed (`folder`); earlier ones are not touched until then. What several
processes hold is written once. All processes call `save` and `load`, with a folder that they share;
without a process group there is one process. `write` and `index` say what lies in the files.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from graphwright.aten import tensor_type
from graphwright.errors import (
    CheckpointMismatch,
    CheckpointNotSaved,
    InvalidCheckpoint,
    InvalidOption,
    InvalidShard,
)
from graphwright.ir import TensorType, parse_type
from graphwright.plans import as_box
from graphwright.run.checkpoint.folder import commit, find_checkpoints, hidden_folder, latest
from graphwright.run.checkpoint.index import Index, read_index, read_position
from graphwright.run.checkpoint.read import read_tensors
from graphwright.run.checkpoint.shards import (
    BoxedTensor,
    Shard,
    distinct_boxes,
    held_box,
    is_empty,
    view_box,
    whole_box,
)
from graphwright.run.processes import gather_results, rank_and_size

Layout = dict[str, Any]
"""How a tensor is held: its type, its devices and its sharding, as JSON that ranks compare."""
_NOT_OF_THE_MODEL = ("optimizer.", "loss_fn.")


def save(
    directory: str | os.PathLike[str],
    step_number: int,
    shards: Mapping[str, Shard],
    *,
    extra: Mapping[str, Any] | None = None,
    keep: int | None = None,
) -> Path:
    """Save the tensors of all processes as the newest checkpoint of `directory`; return its path.

    `extra` is anything that JSON can hold; rank 0's is saved. With `keep`, only so many stay.
    """
    from graphwright.run.checkpoint.write import write_tensors

    rank, size = rank_and_size()
    where = Path(directory)
    options = dict(extra or {})
    layouts = gather_results(lambda: _check(step_number, shards, options, keep, rank, size))
    types = _agree(layouts)
    former = latest(where)
    try:
        with hidden_folder(where, rank) as made:
            owned = {n: own for n, shard in shards.items() if (own := _owned(shard, rank))}
            write_tensors(made, step_number, owned, types, options)
            done = gather_results(
                lambda: "" if rank else str(commit(where, made, step_number, keep))
            )
            return Path(done[0])
    except (OSError, RuntimeError, CheckpointNotSaved) as error:
        kept = f"the one before, {former}, is as it was" if former else "there was none before it"
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise CheckpointNotSaved(
            f"step {step_number} could not be saved in {where}: {reason}; {kept}. Free some room, "
            "or give a folder that all processes can write to",
            former=str(former) if former else None,
        ) from error


def load(path: str | os.PathLike[str], shards: Mapping[str, Shard]) -> dict[str, Any]:
    """Fill `local` of every shard from a checkpoint, or the newest in a folder; return its `extra`.

    It may be from another plan and number of processes. Names, types and the sizes of files are
    compared before anything changes; only damaged bytes can leave some tensors filled. Where the
    newest of a folder is damaged, the one before is read, with a warning.
    """
    return _load(path, shards)[1].extra


def load_step(path: str | os.PathLike[str], shards: Mapping[str, Shard]) -> tuple[int, int]:
    """As `load`, for the checkpoint of a training step; the number of its steps, and its seed."""
    return read_position(*_load(path, shards, check=read_position))


def _load(
    path: str | os.PathLike[str],
    shards: Mapping[str, Shard],
    check: Callable[[Path, Index], object] = lambda path, index: None,
) -> tuple[Path, Index]:
    rank, _ = rank_and_size()
    everywhere = gather_results(lambda: [str(p) for p in find_checkpoints(Path(path))])
    targets: dict[str, BoxedTensor] = {}

    def prepare() -> list[str]:
        for name, shard in shards.items():
            if (box := held_box(shard, rank)) is not None:
                targets[name] = BoxedTensor(shard.type, box, shard.local)
        return list(shards)

    asked = {name for names in gather_results(prepare) for name in names}
    wanted = {name: shard.type for name, shard in shards.items()}

    def read(chosen: Path) -> Index:
        def compare() -> None:
            index = read_index(chosen)
            check(chosen, index)
            _compare(chosen, index, wanted, set(index.tensors) - asked)
            indexes.append(index)

        indexes: list[Index] = []
        gather_results(compare)
        try:
            gather_results(lambda: read_tensors(chosen, indexes[0], targets))
        except InvalidCheckpoint as error:
            raise InvalidCheckpoint(str(error), partly_loaded=True) from error
        return indexes[0]

    return _first_whole([Path(p) for p in everywhere[0]], read)


def examine(
    path: str | os.PathLike[str], wanted: Mapping[str, TensorType]
) -> tuple[Path, int, list[str]]:
    """The checkpoint at `path`, or the newest whole one in it, and its steps; in this process.

    And what is to be said about those that are damaged. Bytes of tensors are not looked at. Raises
    CheckpointMismatch unless it holds just these tensors.
    """

    def read(chosen: Path) -> Index:
        index = read_index(chosen)
        _compare(chosen, index, wanted, set(index.tensors) - set(wanted))
        read_position(chosen, index)
        return index

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DamagedCheckpoint)
        chosen, index = _first_whole(find_checkpoints(Path(path)), read)
    return chosen, read_position(chosen, index)[0], [str(w.message) for w in caught]


def load_into_module(path: str | os.PathLike[str], module: nn.Module) -> dict[str, Any]:
    """Fill the parameters and buffers of a plain module in this process alone; return `extra`.

    What belongs to the optimizer, or to a loss that is a module, is skipped.
    """
    tensors: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    tensors |= dict(module.named_buffers(remove_duplicate=False))
    saved = module.state_dict().keys()

    def read(chosen: Path) -> Index:
        index = read_index(chosen)
        shared = {id(tensor) for name, tensor in tensors.items() if name in index.tensors}
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
        _compare(chosen, index, wanted, extra)
        if meta := next((name for name in wanted if tensors[name].is_meta), None):
            raise InvalidShard(
                f"{meta} is a meta tensor, without memory; call module.to_empty(device='cpu') first"
            )
        targets = {
            name: BoxedTensor(type, whole_box(type.shape), tensors[name])
            for name, type in wanted.items()
        }
        read_tensors(chosen, index, targets)
        return index

    return _first_whole(find_checkpoints(Path(path)), read)[1].extra


class DamagedCheckpoint(UserWarning):
    """The newest checkpoint of a folder is damaged, so an older one was read.

    Restore its files from a copy if you have one; otherwise remove it, or let new ones replace it.
    """


def _first_whole(chosen: Sequence[Path], read: Callable[[Path], Index]) -> tuple[Path, Index]:
    """Read the first checkpoint that is not damaged; the first one's error where all are."""
    failures: list[InvalidCheckpoint] = []
    for path in chosen:
        try:
            index = read(path)
        except InvalidCheckpoint as error:
            failures.append(error)
            continue
        for failure in failures:
            warnings.warn(f"{failure}; going on from {path}", DamagedCheckpoint, stacklevel=4)
        return path, index
    failures[0].partly_loaded = any(failure.partly_loaded for failure in failures)
    raise failures[0]


# Saving


def _check(
    step: int,
    shards: Mapping[str, Shard],
    extra: dict[str, Any],
    keep: int | None,
    rank: int,
    size: int,
) -> dict[str, Layout]:
    """All checks that need no other process; the layout of what this one holds."""
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
                f"{name} is {sharding}: terms still to be added up; reduce it before it is saved"
            )
        if max(sharding.mesh.devices) >= size:
            raise InvalidShard(
                f"{name} lies on the devices {sharding.mesh.devices}, but there are {size} "
                "processes: nobody would save the rest"
            )
        held_box(shard, rank)
        distinct_boxes(sharding, shard.type.shape, name)
    return {name: _layout(shard) for name, shard in shards.items()}


def _layout(shard: Shard) -> Layout:
    mesh = shard.sharding.mesh
    how = f"{shard.sharding} on {mesh.shape}, pieces {shard.sharding.pieces}"
    return {"type": repr(shard.type), "devices": list(mesh.devices), "sharding": how}


def _agree(layouts: list[dict[str, Layout]]) -> dict[str, TensorType]:
    """The types of all tensors; raises unless all of a tensor's mesh hold it in the same layout."""
    first: dict[str, Layout] = {}
    for rank, of_rank in enumerate(layouts):
        for name, layout in of_rank.items():
            if first.setdefault(name, layout) != layout:
                raise InvalidShard(f"{name} is {layout} on rank {rank}, but {first[name]} before")
    for name, layout in first.items():
        if silent := [rank for rank in layout["devices"] if name not in layouts[rank]]:
            raise InvalidShard(
                f"{name} lies on the devices {layout['devices']}, but ranks {silent} give no part "
                "of it"
            )
    return {name: parse_type(layout["type"]) for name, layout in first.items()}


def _owned(shard: Shard, rank: int) -> BoxedTensor | None:
    """What this process has to write; of replicas, `torch.distributed.checkpoint` chooses one."""
    box = held_box(shard, rank)
    if box is None:
        return None
    if not shard.type.numel:  # no element, but still a tensor: written once, whole
        whole = shard.local.new_empty(shard.type.shape)
        return BoxedTensor(shard.type, whole_box(shard.type.shape), whole)
    position = shard.sharding.mesh.devices.index(rank)
    own = as_box(distinct_boxes(shard.sharding, shard.type.shape, shard.name)[position])
    return None if is_empty(own) else BoxedTensor(shard.type, own, view_box(shard.local, box, own))


# Loading


def _compare(path: Path, index: Index, wanted: Mapping[str, TensorType], extra: set[str]) -> None:
    """Refuse a checkpoint that holds other tensors than are wanted."""
    missing = [name for name in wanted if name not in index.tensors]
    other = [n for n in wanted if n in index.tensors and index.tensors[n].type != wanted[n]]
    types = [f"{n} ({index.tensors[n].type} there, {wanted[n]} here)" for n in other]
    shown = {"it lacks": missing, "nothing asks for": sorted(extra), "of another type are": types}
    if not any(shown.values()):
        return
    reasons = "; ".join(f"{what} {_some(names)}" for what, names in shown.items() if names)
    raise CheckpointMismatch(
        f"{path} does not fit: {reasons}. Nothing was changed; load it into the model and the "
        "optimizer that wrote it",
        missing=tuple(missing),
        extra=tuple(sorted(extra)),
        mismatched=tuple(other),
    )


def _some(names: list[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
