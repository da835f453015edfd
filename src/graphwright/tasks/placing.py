"""One operator under one strategy: each device's part, the inputs that it needs, its outputs.

    aten.mm on 2 x 2 devices, strategy "i k":

    a needed as [S0 S1]      b needed as [R S0]      out made as [S0 P(sum)]

The shardings follow from the regions that the description derives for the parts. Where one index
cuts two dims of a tensor, or two indices one dim, a sharding cannot say so exactly: then the tensor
is asked for whole along the second, which is always enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from graphwright.describe import (
    Combine,
    Concat,
    PartCall,
    Regions,
    Tiling,
    Types,
    Ways,
    find,
    properties,
    tile,
)
from graphwright.errors import InvalidStrategy, MisalignedSplit
from graphwright.ir import Attrs
from graphwright.plans import (
    Along,
    Keep,
    Mesh,
    Partial,
    Pieces,
    Placement,
    Replicated,
    Sharding,
    Split,
    Strategy,
    even_pieces,
    part_numbers,
    shared_sharding,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Placed:
    """An operator on a mesh: its needs, its results, and the call that each device makes.

    `class_of` numbers the calls in `classes`, and `part_of` the parts of `tiling`, for every device
    in the order of the mesh.
    """

    mesh: Mesh
    inputs: tuple[Sharding | None, ...]
    outputs: tuple[Sharding, ...]
    class_of: NDArray[np.int64]
    classes: tuple[PartCall, ...]
    part_of: NDArray[np.int64]
    tiling: Tiling


def place(op: str, attrs: Attrs, types: Types, choices: Strategy, mesh: Mesh) -> Placed:
    """Spread a call over the devices of a mesh."""
    return _place(op, attrs, types, choices, mesh, id(find(op)))


@lru_cache(maxsize=65536)
def _place(op: str, attrs: Attrs, types: Types, choices: Strategy, mesh: Mesh, _: int) -> Placed:
    if len(choices.choices) != len(mesh.shape):
        raise InvalidStrategy(
            f"{op}: {len(choices.choices)} choices ({choices}) for the {len(mesh.shape)} axes "
            f"of a mesh of {mesh.shape}"
        )
    axes: dict[str, list[int]] = {}
    for axis, choice in enumerate(choices.choices):
        if isinstance(choice, Along):
            axes.setdefault(choice.index, []).append(axis)
        elif isinstance(choice, Keep):
            _check_linear(op, attrs, types, choice)
    ways: Ways = tuple((i, prod(mesh.shape[a] for a in own)) for i, own in axes.items())
    try:
        tiling = tile(op, attrs, types, ways)
    except MisalignedSplit as error:
        raise InvalidStrategy(f"{op}: {error}") from error
    order = tuple(a for own in axes.values() for a in own)
    number = part_numbers(mesh, order)
    groups = [tuple(own) for own in axes.values()]
    keeps = {a: c for a, c in enumerate(choices.choices) if isinstance(c, Keep)}
    return Placed(
        mesh=mesh,
        inputs=tuple(
            None if t is None else _needed(tiling, arg, t.shape, groups, keeps, mesh)
            for arg, t in enumerate(types.inputs)
        ),
        outputs=tuple(
            _made(tiling, output, t.shape, groups, keeps, mesh)
            for output, t in enumerate(types.outputs)
        ),
        class_of=tiling.class_of[number],
        classes=tiling.classes,
        part_of=number,
        tiling=tiling,
    )


def _check_linear(op: str, attrs: Attrs, types: Types, keep: Keep) -> None:
    linear = properties(op, attrs, types).linear
    if frozenset(keep.arguments) not in linear:
        allowed = "; ".join("+" + ",".join(map(str, sorted(s))) for s in linear) or "none"
        raise InvalidStrategy(
            f"{op} is not linear in its arguments {keep.arguments} together, so terms cannot pass "
            f"through it; possible: {allowed}"
        )


def _needed(
    tiling: Tiling,
    arg: int,
    shape: tuple[int, ...],
    groups: list[tuple[int, ...]],
    keeps: dict[int, Keep],
    mesh: Mesh,
) -> Sharding:
    """The sharding in which an input is needed."""
    placements: list[Placement] = [Replicated()] * len(mesh.shape)
    for axis, keep in keeps.items():
        if arg in keep.arguments:
            placements[axis] = Partial("sum")
    pieces: list[tuple[int, Pieces]] = []
    taken: set[int] = set()
    regions = tiling.inputs[arg]
    assert regions is not None
    for way, axes in enumerate(groups):
        dims = sorted(d for a, d in tiling.cut_dims[way] if a == arg and d not in taken)
        if dims:
            _split(placements, pieces, axes, dims[0], shape, tiling, way, regions)
            taken.add(dims[0])
    return shared_sharding(mesh, tuple(placements), tuple(sorted(pieces)))


def _made(
    tiling: Tiling,
    output: int,
    shape: tuple[int, ...],
    groups: list[tuple[int, ...]],
    keeps: dict[int, Keep],
    mesh: Mesh,
) -> Sharding:
    """The sharding in which an output is made."""
    placements: list[Placement] = [Replicated()] * len(mesh.shape)
    for axis in keeps:
        placements[axis] = Partial("sum")
    pieces: list[tuple[int, Pieces]] = []
    for way, axes in enumerate(groups):
        match tiling.joins[way][output]:
            case Concat(dim):
                _split(placements, pieces, axes, dim, shape, tiling, way, tiling.outputs[output])
            case Combine(reducer):
                for axis in axes:
                    placements[axis] = Partial(reducer)
            case _:
                pass
    return shared_sharding(mesh, tuple(placements), tuple(sorted(pieces)))


def _split(
    placements: list[Placement],
    pieces: list[tuple[int, Pieces]],
    axes: tuple[int, ...],
    dim: int,
    shape: tuple[int, ...],
    tiling: Tiling,
    way: int,
    regions: Regions,
) -> None:
    """Say that `axes` split `dim`, with its pieces where they are not the even ones."""
    for axis in axes:
        placements[axis] = Split(dim)
    counts = [n for _, n in tiling.ways]
    by_way = regions[:, dim].reshape(*counts, 2)
    others = tuple(w for w in range(len(counts)) if w != way)
    start = by_way[..., 0].min(axis=others).clip(0, shape[dim])
    stop = by_way[..., 1].max(axis=others).clip(0, shape[dim])
    if not (np.stack([start, stop], axis=1) == even_pieces(shape[dim], counts[way])).all():
        pieces.append((dim, tuple(zip(start.tolist(), stop.tolist(), strict=True))))
