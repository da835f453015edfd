"""Folders of checkpoints on disk: complete ones have a name, one being written is hidden.

    directory/000001-step-10/       complete
              000002-step-20/       complete, and the `latest`
              .saving-3f91c2d0/     being written, or left by a process that was killed: removed by
                                    the next save

Folders are numbered in the order of saving, so the newest is known by its name, also after a run
went back to an earlier step.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from graphwright.errors import CheckpointNotSaved, InvalidCheckpoint
from graphwright.files import lock_folder, remove_abandoned
from graphwright.run.checkpoint.index import INDEX
from graphwright.run.processes import gather_results

_NAME = re.compile(r"(\d{6,})-step-\d+")
_HIDDEN = ".saving-"


def latest(directory: str | os.PathLike[str]) -> Path | None:
    """The newest complete checkpoint of a folder, or None where there is none."""
    return next(iter(_complete(Path(directory))), None)


def _complete(directory: Path) -> list[Path]:
    return [path for _, path in _numbered(directory) if (path / INDEX).is_file()]


def find_checkpoints(path: Path) -> list[Path]:
    """The checkpoint at `path`, or all in it, newest first; at least one."""
    if (path / INDEX).is_file():
        return [path]
    complete = _complete(path)
    if not complete:
        what = "holds none" if path.is_dir() else "is not a folder"
        raise InvalidCheckpoint(
            f"{path} is not a checkpoint: it {what if path.exists() else 'does not exist'}. Give a "
            f"folder with {INDEX}, like 000001-step-10, or one that holds such folders"
        )
    return complete


@contextmanager
def hidden_folder(directory: Path, rank: int) -> Iterator[Path]:
    """A new folder that all processes write into, removed at the end unless it was renamed."""
    locks: list[int] = []

    def begin() -> str:
        if rank:
            return ""
        directory.mkdir(parents=True, exist_ok=True)
        for left in directory.glob(f"{_HIDDEN}*"):
            remove_abandoned(left)
        made = directory / f"{_HIDDEN}{secrets.token_hex(4)}"
        made.mkdir()
        locks.append(lock_folder(made))
        return str(made)

    def check() -> None:
        if not made.is_dir():
            raise CheckpointNotSaved(
                f"rank {rank} does not see {made}, which rank 0 has made: the folder is not shared"
            )

    try:
        made = Path(gather_results(begin)[0])
        try:
            gather_results(check)
            yield made
        finally:
            if not rank:
                shutil.rmtree(made, ignore_errors=True)
    finally:
        for lock in locks:
            os.close(lock)


def commit(directory: Path, made: Path, step: int, keep: int | None) -> Path:
    """Give a complete folder its name, and remove the oldest beyond `keep`."""
    _flush(made)
    while True:
        number = max((number for number, _ in _numbered(directory)), default=0) + 1
        final = directory / f"{number:06d}-step-{step}"
        try:
            made.rename(final)
            break
        except FileExistsError:  # another run saves here too
            continue
    _flush(directory)
    if keep is not None:
        for old in _complete(directory)[keep:]:
            _remove(old)
    return final


def _numbered(directory: Path) -> list[tuple[int, Path]]:
    """Everything that is named as a checkpoint, newest first."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    matches = [match for name in names if (match := _NAME.fullmatch(name))]
    return sorted(((int(match[1]), directory / match[0]) for match in matches), reverse=True)


def _remove(old: Path) -> None:
    """Hide it first: half of a checkpoint must not look like one."""
    hidden = old.with_name(f"{_HIDDEN}{secrets.token_hex(4)}")
    with suppress(OSError):
        old.rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
