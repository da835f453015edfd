"""Read and write whole files atomically.

A file is written under a temporary name in the same folder, flushed to disk and renamed over the
old one. If anything fails, the temporary file is removed and the old one stays unchanged. Files
whose names end in `.gz` are compressed.
"""

from __future__ import annotations

import gzip
import os
import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from graphwright.errors import GraphFileError, GraphFormatError, GraphwrightError

_GZIP_LEVEL = 6


@contextmanager
def writing(
    path: str | os.PathLike[str], failure: type[GraphwrightError] = GraphFileError
) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears at `path` only when it is complete."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        try:
            with temporary.open("xb") as file:
                if path.suffix == ".gz":  # mtime=0: the same content gives the same bytes
                    with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as packed:
                        yield packed  # type: ignore[misc]
                else:
                    yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise failure(
            f"cannot write {path}: {error.strerror or error}; check that its folder "
            "exists and has room"
        ) from error


def write_atomically(path: str | Path, data: bytes) -> None:
    """Write all of `data` to `path`, or nothing."""
    with writing(path) as file:
        file.write(data)


def read_whole(path: str | Path) -> bytes:
    """Return the decompressed content of a file."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise GraphFileError(
            f"cannot read {path}: {error.strerror or error}; check the path"
        ) from error
    if path.suffix != ".gz":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise GraphFormatError(
            f"{path} is not a complete gzip file ({error}); save the graph again"
        ) from error
