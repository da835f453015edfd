"""Inputs that an ONNX file is read for: an example, or drawn for the shapes that it declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphwright.aten import dtype_name
from graphwright.capture.onnx.messages import Declared
from graphwright.capture.onnx.tensors import dtype_of
from graphwright.capture.onnx.wire import DamagedMessage
from graphwright.errors import InvalidOption, UnsupportedModel


def inputs_for(
    path: Path,
    declared: Sequence[Declared],
    given: Any,
    shapes: Mapping[str, int | Sequence[int]],
) -> list[tuple[Tensor, ...]]:
    """Inputs in the file's order; several to be tried where indices were drawn."""
    for each in declared:
        if not each.kind:
            raise UnsupportedModel(f"{path}: input {each.name!r} is no tensor")
    if given is not None:
        if shapes:
            raise InvalidOption("give example inputs or shapes=, not both")
        return [_checked(path, declared, given)]
    known = {d.name for d in declared} | {n for d in declared for n in d.dims or () if n}
    unknown = sorted(name for name in shapes if name not in known)
    if unknown:
        names = ", ".join(sorted(str(name) for name in known if isinstance(name, str)))
        raise InvalidOption(f"{path} has no input or dim {unknown[0]!r}; there are {names}")
    sizes = [_shape(path, each, shapes) for each in declared]
    # ones are allowed as masks and as most indices, zeros as all
    return [_drawn(path, declared, sizes, fill) for fill in (1, 0)]


def _shape(
    path: Path, declared: Declared, shapes: Mapping[str, int | Sequence[int]]
) -> tuple[int, ...]:
    whole = shapes.get(declared.name)
    if whole is not None:
        sizes = (whole,) if isinstance(whole, int) else tuple(whole)
        _check_sizes(path, declared, sizes)
        return sizes
    if declared.dims is None:
        raise InvalidOption(
            f"{path} does not say which shape input {declared.name!r} has; give "
            f"shapes={{{declared.name!r}: (1, 3, 224, 224)}}, or example inputs"
        )
    made = []
    for d, size in enumerate(declared.dims):
        found = shapes.get(size) if isinstance(size, str) else size
        if found is None:
            example = tuple(n if isinstance(n, int) else 1 for n in declared.dims)
            named = f"{{{size!r}: 1}} or shapes=" if isinstance(size, str) else ""
            called = f" ({size!r})" if isinstance(size, str) else ""
            raise InvalidOption(
                f"{path} leaves dim {d}{called} of input {declared.name!r} open; give "
                f"shapes={named}{{{declared.name!r}: {example}}}, or example inputs"
            )
        if not isinstance(found, int) or isinstance(found, bool) or found < 1:
            raise InvalidOption(f"shapes: {size!r} is {found!r}; a dim has a size of 1 or more")
        made.append(found)
    return tuple(made)


def _check_sizes(path: Path, declared: Declared, sizes: tuple[Any, ...]) -> None:
    dims = declared.dims
    fits = dims is None or (
        len(dims) == len(sizes)
        and all(not isinstance(n, int) or n == size for n, size in zip(dims, sizes, strict=True))
    )
    if not fits or not all(isinstance(n, int) and n >= 0 for n in sizes):
        wanted = "any" if dims is None else [n if n is not None else "any" for n in dims]
        raise InvalidOption(
            f"{path}: input {declared.name!r} is declared as {wanted}, and {list(sizes)} is given"
        )


def _drawn(
    path: Path, declared: Sequence[Declared], sizes: Sequence[tuple[int, ...]], fill: int
) -> tuple[Tensor, ...]:
    generator, made = torch.Generator().manual_seed(0), []
    for each, shape in zip(declared, sizes, strict=True):
        dtype = _dtype(path, each)
        if dtype.is_floating_point:
            made.append(torch.randn(shape, generator=generator).to(dtype))
        else:
            made.append(torch.full(shape, fill, dtype=dtype))
    return tuple(made)


def _dtype(path: Path, declared: Declared) -> torch.dtype:
    try:
        return dtype_of(declared.kind, f"input {declared.name!r}")
    except DamagedMessage as error:
        raise UnsupportedModel(f"{path}: {error}") from error


def _checked(path: Path, declared: Sequence[Declared], given: Any) -> tuple[Tensor, ...]:
    names = [each.name for each in declared]
    if isinstance(given, Mapping):
        if sorted(given) != sorted(names):
            raise InvalidOption(
                f"{path} has the inputs {', '.join(names)}; {', '.join(map(str, given))} are given"
            )
        given = tuple(given[name] for name in names)
    given = given if isinstance(given, tuple) else (given,)
    if len(given) != len(names):
        raise InvalidOption(
            f"{path} has {len(names)} inputs ({', '.join(names)}), and {len(given)} are given"
        )
    for each, tensor in zip(declared, given, strict=True):
        dtype = _dtype(path, each)
        if not isinstance(tensor, Tensor) or tensor.dtype != dtype:
            has = dtype_name(tensor.dtype) if isinstance(tensor, Tensor) else type(tensor).__name__
            raise InvalidOption(
                f"{path}: input {each.name!r} is a tensor of {dtype_name(dtype)}, not {has}"
            )
        _check_sizes(path, each, tuple(tensor.shape))
    made: tuple[Tensor, ...] = given
    return made
