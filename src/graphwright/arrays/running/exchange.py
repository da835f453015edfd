"""Arrays in and out: several at once, files, memory maps, dask.array, checkpoints.

Files are NumPy's own, or Zarr and Parquet where these are installed. Nothing read is executed.
"""

from __future__ import annotations

import json
import shutil
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from graphwright.arrays.array import Array, asarray, wrap
from graphwright.arrays.errors import ArrayError
from graphwright.arrays.evaluate import evaluate, to_numpy
from graphwright.arrays.running.session import Held, current_workers, is_at
from graphwright.files import write_atomically, writing, writing_folder
from graphwright.run import workers as pool


def compute(*arrays: Any) -> tuple[NDArray[Any], ...]:
    """The values of arrays, computed as one program."""
    given = [asarray(x) for x in arrays]
    evaluate([x._output for x in given])
    return tuple(to_numpy(x._output) for x in given)


def persist(*arrays: Array) -> tuple[Array, ...]:
    """Compute arrays as one program, and leave them where they are."""
    evaluate([x._output for x in arrays])
    return arrays


# -- Dask ------------------------------------------------------------------------------------------


def to_dask(x: Array) -> Any:
    """The dask.array whose chunks are the tiles of an array, where they are."""
    evaluate([x._output])
    value = x._output.value
    if isinstance(value, Held):
        blocks = {box: value.futures[rank] for rank, box in value.boxes.items()}
        return pool.to_dask_array(blocks, x.shape, x.dtype)
    return import_module("dask.array").from_array(value)


def from_dask(array: Any) -> Array:
    """The array of a dask.array, computed by the workers in use."""
    return wrap(np.asarray(pool.from_dask_array(array, current_workers().client)))


# -- files -----------------------------------------------------------------------------------------


def load(path: str | Path, /, *, columns: list[str] | None = None) -> Any:
    """The array of a .npy file, mapped into memory; those of .npz, .zarr and .parquet by name."""
    where = Path(path)
    try:
        return _loaded(where, columns)
    except ArrayError:
        raise
    except (ValueError, EOFError, KeyError, OSError, BadZipFile) as error:
        if not where.exists():
            raise
        raise ArrayError(
            f"{where} is not a {where.suffix} file of numbers, or not all of one: {error}"
        ) from error


def _loaded(where: Path, columns: list[str] | None) -> Any:
    match where.suffix:
        case ".npy":
            return wrap(np.load(where, mmap_mode="r", allow_pickle=False))
        case ".npz":
            with np.load(where, allow_pickle=False) as file:
                return {name: wrap(file[name]) for name in file.files}
        case ".zarr":
            return wrap(np.asarray(_optional("zarr").open_array(str(where), mode="r")[...]))
        case ".parquet":
            table = _optional("pyarrow.parquet").read_table(where, columns=columns)
            return {name: wrap(table[name].to_numpy()) for name in table.column_names}
    raise ArrayError(f"{where}: no format for {where.suffix!r}; one of .npy, .npz, .zarr, .parquet")


def save(path: str | Path, x: Any, /) -> None:
    """Write an array as a .npy or .zarr file: all of it, or nothing."""
    where, value = Path(path), asarray(x).compute()
    match where.suffix:
        case ".npy":
            with writing(where) as file:
                np.save(file, value, allow_pickle=False)
        case ".zarr":
            zarr = _optional("zarr")
            with writing_folder(where) as folder:
                made = zarr.create_array(str(folder), shape=value.shape, dtype=value.dtype)
                made[...] = value
        case _:
            raise ArrayError(f"{where}: no format for {where.suffix!r}; one of .npy and .zarr")


def savez(path: str | Path, /, **arrays: Any) -> None:
    """Write several arrays, by their names, as one .npz file: all of it, or nothing."""
    values: dict[str, Any] = dict(zip(arrays, compute(*map(asarray, arrays.values())), strict=True))
    with writing(Path(path)) as file:
        np.savez(file, allow_pickle=False, **values)


def from_file(path: str | Path, /, dtype: Any, shape: tuple[int, ...], *, offset: int = 0) -> Array:
    """The array of a file of bare numbers, mapped into memory."""
    return wrap(np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape))


def _optional(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise ArrayError(f"this needs {package}, which is not installed") from None


# -- checkpoints -----------------------------------------------------------------------------------


def checkpoint(
    folder: str | Path, /, *, step: int = 0, every: int = 1, **arrays: Array
) -> dict[str, Array]:
    """Save arrays, at every `every`-th step, so that no loss of workers goes back any further.

    The arrays that come back are the same ones, but are made from the files: go on with these.
    `resume` finds the latest checkpoint of a folder, in this program or another: the one before
    stays until this one is complete, also if it is of the same step.
    """
    if every < 1:
        raise ArrayError(f"every={every}; save at every step, 1, or more rarely")
    if step % every:
        return arrays
    arrays = {name: asarray(x) for name, x in arrays.items()}
    values = compute(*arrays.values())
    root = Path(folder)
    name = f"step-{step:09}"
    made = next(
        where for n in count() if not (where := root / (f"{name}.{n}" if n else name)).exists()
    )
    with writing_folder(made) as unfinished:
        for name, value in zip(arrays, values, strict=True):
            np.save(unfinished / f"{name}.npy", value, allow_pickle=False)
    latest = {"step": step, "folder": made.name}
    write_atomically(root / "latest.json", json.dumps(latest).encode())
    for old in [*root.glob("step-*"), *root.glob(".step-*")]:  # these of attempts that were killed
        if old != made:
            shutil.rmtree(old, ignore_errors=True)
    kept: dict[str, Array] = {}
    for name, x in arrays.items():
        kept[name] = load(made / f"{name}.npy")
        is_at(kept[name]._output, x._output)
    return kept


def resume(folder: str | Path, /) -> tuple[int, dict[str, Array]] | None:
    """The step and the arrays of the latest checkpoint of a folder, None if there is none."""
    root = Path(folder)
    try:
        latest = json.loads((root / "latest.json").read_text())
        step = int(latest["step"])
        where = root / str(latest.get("folder", f"step-{step:09}"))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise ArrayError(f"{root / 'latest.json'} does not name a step: {error}") from error
    if where.parent != root or not where.is_dir():
        raise ArrayError(
            f"{root / 'latest.json'} names {where.name}, and there is no such folder in {root}; "
            "it was moved or removed, or is not one of a checkpoint"
        )
    files = sorted(where.glob("*.npy"))
    return step, {file.stem: load(file) for file in files}
