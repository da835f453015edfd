"""Cut a call along several indices at once: the regions and the call of each part.

    tile("aten.mm", {}, types, (("i", 2), ("k", 3)))      6 parts: rows in 2 (outermost), sum in 3

Each way splits the parts of the previous way, so every part results from splits that the
description allows. Parts with the same sizes and attributes form a class: thousands of parts have a
handful of classes, and only these are computed one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphwright.describe.language import Types, find
from graphwright.describe.splitting.scatter import Mask
from graphwright.describe.splitting.splits import Split, local_types, splits
from graphwright.describe.splitting.symbolic_split import END, LO, Concat, Join
from graphwright.errors import InvalidStrategy, MisalignedSplit
from graphwright.ir import Attrs, TensorType
from graphwright.symbolic import Poly, Symbol

Ways = tuple[tuple[str, int], ...]
Regions = NDArray[np.int64]
"""[part, dim, 2]: start and stop; positions outside of the tensor hold a fill value."""


@dataclass(frozen=True, slots=True, eq=False)
class PartCall:
    """The attributes and types of the kernel call of a part."""

    attrs: Attrs
    types: Types


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tiling:
    """The parts of a call, numbered with the first way outermost.

    For every way, `cut_dims` are the (argument, dim) that it cuts, `joins` says how the outputs of
    its parts are joined, `bounds` [part, 2] are the [low, end) of its index, and `masks` masks an
    index tensor (see `scatter`). `fills` are the values beyond the edges of an (argument, dim).
    """

    ways: Ways
    inputs: tuple[Regions | None, ...]
    outputs: tuple[Regions, ...]
    cut_dims: tuple[frozenset[tuple[int, int]], ...]
    joins: tuple[tuple[Join, ...], ...]
    bounds: tuple[NDArray[np.int64], ...]
    masks: tuple[Mask | None, ...]
    fills: Mapping[tuple[int, int], float]
    class_of: NDArray[np.int64]
    classes: tuple[PartCall, ...]

    @property
    def num_parts(self) -> int:
        return len(self.class_of)


def tile(op: str, attrs: Attrs, types: Types, ways: Ways) -> Tiling:
    """Cut a call along the indices of `ways`, each into its number of parts."""
    return _tile(op, attrs, types, ways, id(find(op)))


@lru_cache(maxsize=65536)
def _tile(op: str, attrs: Attrs, types: Types, ways: Ways, _: int) -> Tiling:
    inputs = [None if t is None else _whole(t) for t in types.inputs]
    outputs = [_whole(t) for t in types.outputs]
    class_of = np.zeros(1, dtype=np.int64)
    classes = [PartCall(attrs, types)]
    cut_dims: list[frozenset[tuple[int, int]]] = []
    joins: list[tuple[Join, ...]] = []
    bounds: list[NDArray[np.int64]] = []
    masks: list[Mask | None] = []
    fills: dict[tuple[int, int], float] = {}
    for index, num_parts in ways:
        along = [_split_along(op, c, index) for c in classes]
        cut_dims.append(frozenset().union(*(s.cut_dims for s in along)))
        if len({s.joins for s in along}) != 1:
            raise InvalidStrategy(f"{op}: the parts along {index} would need different joins")
        joins.append(along[0].joins)
        masks.append(along[0].symbolic.mask)
        _add_fills(fills, along)
        cuts = [_cut(s, num_parts) for s in along]
        chosen = [cuts[c] for c in class_of]
        inputs = [
            None if r is None else _compose(r, [c.inputs[a] for c in chosen], types.inputs[a])
            for a, r in enumerate(inputs)
        ]
        outputs = [
            _compose(r, [c.outputs[o] for c in chosen], types.outputs[o])
            for o, r in enumerate(outputs)
        ]
        bounds = [np.repeat(b, num_parts, axis=0) for b in bounds]
        bounds.append(np.concatenate([c.bounds for c in chosen]))
        first = np.cumsum([0] + [len(c.classes) for c in cuts])
        class_of = np.concatenate(
            [c.class_of + first[k] for c, k in zip(chosen, class_of, strict=True)]
        )
        classes = [part for c in cuts for part in c.classes]
    return Tiling(
        ways=ways,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        cut_dims=tuple(cut_dims),
        joins=tuple(joins),
        bounds=tuple(bounds),
        masks=tuple(masks),
        fills=fills,
        class_of=class_of,
        classes=tuple(classes),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Cut:
    """One call cut along one index; regions are relative to the call's tensors."""

    inputs: tuple[Regions | None, ...]
    outputs: tuple[Regions, ...]
    bounds: NDArray[np.int64]
    class_of: NDArray[np.int64]
    classes: tuple[PartCall, ...]


def _split_along(op: str, call: PartCall, index: str) -> Split:
    available = splits(op, call.attrs, call.types)
    for split in available:
        if split.index == index:
            return split
    names = ", ".join(s.index for s in available) or "none"
    shapes = ", ".join("none" if t is None else str(t) for t in call.types.inputs)
    raise InvalidStrategy(f"{op}({shapes}) has no split along {index!r}; its splits are: {names}")


def _add_fills(fills: dict[tuple[int, int], float], along: list[Split]) -> None:
    for split in along:
        for place, cut in split.symbolic.cuts.items():
            if cut.fill is not None and fills.setdefault(place, cut.fill) != cut.fill:
                raise InvalidStrategy(
                    f"{split.call.op}: input {place[0]} would be padded with both {fills[place]} "
                    f"and {cut.fill}"
                )


@lru_cache(maxsize=65536)
def _cut_cached(split: Split, call: int, num_parts: int) -> _Cut:
    symbolic, types = split.symbolic, split.call.types
    cuts = np.array(split.cuts(num_parts), dtype=np.int64)
    low, end = cuts[:-1], cuts[1:]
    values: dict[Symbol, Any] = {**split.call.values, LO: low, END: end}
    inputs = [None if t is None else np.repeat(_whole(t), num_parts, axis=0) for t in types.inputs]
    for (arg, dim), cut in symbolic.cuts.items():
        start, first = (
            _evaluate(cut.start, values, num_parts),
            _evaluate(cut.first, values, num_parts),
        )
        stop = start + _evaluate(cut.length, values, num_parts)
        size = types.inputs[arg].shape[dim]  # type: ignore[union-attr]
        outside = (start < 0) | (stop > size) if cut.fill is None else np.zeros(num_parts, bool)
        bad = (first < start) | (stop < start) | outside
        if bad.any():
            p = int(np.argmax(bad))
            raise MisalignedSplit(
                f"{split.call.op} cannot compute {split.index} in [{low[p]}, {end[p]}) alone"
            )
        region = inputs[arg]
        assert region is not None
        region[:, dim, 0], region[:, dim, 1] = start, stop
    outputs = [np.repeat(_whole(t), num_parts, axis=0) for t in types.outputs]
    for region, join, unit in zip(outputs, split.joins, split.units, strict=True):
        if isinstance(join, Concat):
            region[:, join.dim, 0], region[:, join.dim, 1] = low * unit, end * unit
    signature = [end - low]
    signature += [_evaluate(c.length, values, num_parts) for c in symbolic.cuts.values()]
    signature += [_evaluate(poly, values, num_parts) for poly in symbolic.attrs.values()]
    _, shown, class_of = np.unique(
        np.stack(signature), axis=1, return_index=True, return_inverse=True
    )
    parts = [split.part(int(low[p]), int(end[p])) for p in shown]
    classes = [PartCall(Attrs(part.attrs), local_types(split, part)) for part in parts]
    return _Cut(
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        bounds=np.stack([low, end], axis=1),
        class_of=class_of.reshape(-1).astype(np.int64),
        classes=tuple(classes),
    )


def _cut(split: Split, num_parts: int) -> _Cut:
    # Splits compare equal regardless of their call, so the key needs the identity of the call.
    return _cut_cached(split, id(split.call), num_parts)


def _evaluate(poly: Poly, values: Mapping[Symbol, Any], count: int) -> NDArray[np.int64]:
    return np.broadcast_to(np.asarray(poly.evaluate(values), dtype=np.int64), (count,))


def _whole(type: TensorType) -> Regions:
    region = np.zeros((1, type.rank, 2), dtype=np.int64)
    region[0, :, 1] = type.shape
    return region


def _compose(outer: Regions, inner: list[Regions | None], type: TensorType | None) -> Regions:
    """The regions of parts of parts, relative to the whole tensor."""
    pieces = []
    for region, part in zip(outer, inner, strict=True):
        assert part is not None and type is not None
        size = region[:, 1] - region[:, 0]
        beyond = (part[:, :, 0] < 0) | (part[:, :, 1] > size)
        edge = (region[:, 0] <= 0) & (region[:, 1] >= np.array(type.shape, dtype=np.int64))
        if (beyond & ~edge).any():
            raise MisalignedSplit(
                "two splits of one dim: the inner one would pad a region that another part holds"
            )
        pieces.append(part + region[:, 0][None, :, None])
    return np.concatenate(pieces)
