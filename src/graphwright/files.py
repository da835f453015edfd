"""Read and write whole files atomically; folders that go when their process does.

A file is written under a temporary name in the same folder, flushed to disk and renamed over the
old one, whose mode it keeps. If anything fails, the temporary file is removed and the old one stays
unchanged. A symbolic link of the user's own stays one: what it leads to is replaced. Only plain
files are replaced, never a device or a pipe. Files whose names end in `.gz` are compressed.

What is read is limited: a few bytes of gzip can grow to any size.
"""

from __future__ import annotations

import gzip
import os
import secrets
import shutil
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import IO

from graphwright.errors import GraphFileError, GraphFormatError, GraphwrightError

_GZIP_LEVEL = 6
MAX_READ_BYTES = 1 << 27
"""The largest file that is read, as it is and decompressed: a graph of some 350,000 operators."""

_SCRATCH, _UNLOCKED = "graphwright-run-", ".graphwright-new-"


@contextmanager
def writing(
    path: str | os.PathLike[str], failure: type[GraphwrightError] = GraphFileError
) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears at `path` only when it is complete."""
    path = Path(path)
    try:
        target = path
        if path.is_symlink():
            if path.lstat().st_uid not in (0, os.getuid()):
                raise failure(f"cannot write {path}: it is another user's link; give another name")
            target = Path(os.path.realpath(path))
        mode = _mode_to_keep(target)
        if mode is not None and not stat.S_ISREG(mode):
            raise failure(f"cannot write {path}: it is not a plain file; give another name")
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        try:
            with temporary.open("xb") as file:
                if mode is not None:
                    os.fchmod(file.fileno(), stat.S_IMODE(mode))
                if path.suffix == ".gz":  # mtime=0: the same content gives the same bytes
                    with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as packed:
                        yield packed  # type: ignore[misc]
                else:
                    yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise failure(
            f"cannot write {path}: {error.strerror or error}; check that its folder "
            "exists and has room"
        ) from error


@contextmanager
def writing_folder(
    path: str | os.PathLike[str], failure: type[GraphwrightError] = GraphFileError
) -> Iterator[Path]:
    """A folder to write into that appears at `path` only when it is complete.

    One that is there already is moved aside and removed when the new one is in its place. If the
    process ends between the two moves, both are beside `path`, complete: `.NAME.*.old`, `.tmp`.
    """
    target = Path(path)
    mark = secrets.token_hex(4)
    made, old = (target.with_name(f".{target.name}.{mark}.{kind}") for kind in ("tmp", "old"))
    try:
        made.mkdir(parents=True)
        yield made
        for file in made.rglob("*"):
            if file.is_file():
                _flush(file)
        if target.is_dir() and not target.is_symlink():
            target.rename(old)
        made.rename(target)
        _flush(target.parent)
    except OSError as error:
        raise failure(
            f"cannot write {target}: {error.strerror or error}; check that its folder can be "
            "written to and has room"
        ) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
        if old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(old, ignore_errors=True)


def _flush(path: Path) -> None:
    """Have a file, or what a folder lists, on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mode_to_keep(path: Path) -> int | None:
    """Kind and mode of the file that is replaced, None where there is none."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def write_atomically(path: str | Path, data: bytes) -> None:
    """Write all of `data` to `path`, or nothing."""
    with writing(path) as file:
        file.write(data)


def read_whole(path: str | Path) -> bytes:
    """Return the decompressed content of a file."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_READ_BYTES + 1)
    except OSError as error:
        raise GraphFileError(
            f"cannot read {path}: {error.strerror or error}; check the path"
        ) from error
    if path.suffix == ".gz":
        data = _decompress(path, data)
    if len(data) > MAX_READ_BYTES:
        raise GraphFormatError(
            f"{path} has more than {MAX_READ_BYTES >> 20} MiB, more than Graphwright writes; it is "
            "not one of its files"
        )
    return data


def _decompress(path: Path, data: bytes) -> bytes:
    """The content of all members of a gzip file, up to one byte more than may be read."""
    parts, left = [], MAX_READ_BYTES + 1
    try:
        while data and left:
            member = zlib.decompressobj(wbits=31)
            parts.append(member.decompress(data, left))
            left -= len(parts[-1])
            if left and not member.eof:
                raise EOFError("it ends too early")
            data = member.unused_data.lstrip(b"\0")
    except (EOFError, zlib.error) as error:
        raise GraphFormatError(
            f"{path} is not a complete gzip file ({error}); save it again"
        ) from error
    return b"".join(parts)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that only this user can enter, for as long as the block runs.

    Those that killed processes of this user have left are removed.
    """
    for left in Path(gettempdir()).glob(f"{_SCRATCH}*"):
        remove_abandoned(left)
    made = Path(mkdtemp(prefix=_UNLOCKED))
    lock = lock_folder(made)
    try:
        made = made.rename(made.with_name(f"{_SCRATCH}{secrets.token_hex(8)}"))
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(lock)


def lock_folder(folder: Path) -> int:
    """Hold a folder for as long as this process lives; returns what has to be closed."""
    descriptor = os.open(folder, os.O_RDONLY)
    with suppress(ImportError, OSError):  # without locks, what is left behind stays
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def remove_abandoned(folder: Path) -> None:
    """Remove a folder whose owner, this user's process, no longer lives."""
    with suppress(ImportError, OSError):
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
        try:
            if os.fstat(descriptor).st_uid == os.getuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)
