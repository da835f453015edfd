"""What one operator can do along one axis, in numbers: the layouts that it needs and makes under
each of its choices.

    aten.mm, out[i, j] = sum over k        a    b    out
    0  -      replicated                  -1   -1   -1
    1  i      rows                         0   -1    0
    2  j      columns                     -1    1    1
    3  k      the reduced index            1    0   -2
    4  +0     terms of a pass through     -2   -1   -2

A layout is the number of the dim that the axis splits, REPLICATED or PARTIAL. Along several axes an
operator chooses axis by axis, so a layout of a tensor over all axes is a row of such numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from graphwright.describe import Combine, Concat, Types, Ways, properties, splits, tile
from graphwright.errors import InvalidStrategy, MisalignedSplit
from graphwright.ir import Attrs
from graphwright.plans import (
    Along,
    Choice,
    Keep,
    Mesh,
    Partial,
    Placement,
    Replicate,
    Replicated,
    Sharding,
    Split,
    Strategy,
    shared_sharding,
)

REPLICATED = -1
PARTIAL = -2
Codes = NDArray[np.int8]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Options:
    """The choices of a call along one axis, replication first.

    `need[option, argument]` and `made[option, output]` are layouts; `units` how many parts an
    option allows at most, 0 for no split; `extent` and `quantum` the size of its index and where
    cuts may be. `clashes` are pairs of options that cut the same dim of something, and so do not go
    together.
    """

    choices: tuple[Choice, ...]
    need: Codes
    made: Codes
    extent: tuple[int, ...]
    units: tuple[int, ...]
    reduces: tuple[bool, ...]
    clashes: frozenset[tuple[int, int]]

    def numbers(self, strategy: Strategy) -> tuple[int, ...] | None:
        """The numbers of a strategy's choices, None if the call does not have all of them."""
        return _numbers(self, strategy)

    def strategy(self, numbers: tuple[int, ...]) -> Strategy:
        """The strategy with these choices: one object for equal ones, as layers are split alike."""
        return _strategy(tuple(self.choices[number] for number in numbers))


@lru_cache(maxsize=65536)
def _numbers(options: Options, strategy: Strategy) -> tuple[int, ...] | None:
    if not set(strategy.choices) <= set(options.choices):
        return None
    return tuple(map(options.choices.index, strategy.choices))


@lru_cache(maxsize=65536)
def _strategy(choices: tuple[Choice, ...]) -> Strategy:
    return Strategy(choices)


@lru_cache(maxsize=65536)
def options(op: str, attrs: Attrs, types: Types) -> Options:
    """The choices of a call."""
    num_args, num_outputs = len(types.inputs), len(types.outputs)
    choices: list[Choice] = [Replicate()]
    need, made = [[REPLICATED] * num_args], [[REPLICATED] * num_outputs]
    extent, units, reduces = [1], [0], [False]
    for split in splits(op, attrs, types):
        if split.max_parts < 2:
            continue
        needs = [REPLICATED] * num_args
        for arg, dim in sorted(split.cut_dims, reverse=True):
            needs[arg] = dim
        makes = [REPLICATED] * num_outputs
        for output, join in enumerate(split.joins):
            match join:
                case Concat(dim):
                    makes[output] = dim
                case Combine(_):
                    makes[output] = PARTIAL
                case _:
                    pass
        choices.append(Along(split.index))
        need.append(needs)
        made.append(makes)
        extent.append(split.extent)
        units.append(split.max_parts)
        reduces.append(PARTIAL in makes)
    for arguments in properties(op, attrs, types).linear:
        choices.append(Keep(tuple(sorted(arguments))))
        need.append([PARTIAL if a in arguments else REPLICATED for a in range(num_args)])
        made.append([PARTIAL] * num_outputs)
        extent.append(1)
        units.append(0)
        reduces.append(False)
    needed = np.array(need, dtype=np.int8).reshape(len(choices), num_args)
    makes_ = np.array(made, dtype=np.int8).reshape(len(choices), num_outputs)
    return Options(
        choices=tuple(choices),
        need=needed,
        made=makes_,
        extent=tuple(extent),
        units=tuple(units),
        reduces=tuple(reduces),
        clashes=_clashes(needed, makes_),
    )


def _clashes(need: Codes, made: Codes) -> frozenset[tuple[int, int]]:
    """Pairs of options that cut one dim."""
    both = np.concatenate([need, made], axis=1)
    clashes: set[tuple[int, int]] = set()
    for a in range(1, len(both)):
        for b in range(a + 1, len(both)):
            if ((both[a] == both[b]) & (both[a] >= 0)).any():
                clashes.add((a, b))
    return frozenset(clashes)


@lru_cache(maxsize=1 << 18)
def can_tile(op: str, attrs: Attrs, types: Types, ways: Ways) -> bool:
    """Whether a call can be cut so, along several indices at once."""
    try:
        tile(op, attrs, types, ways)
    except (MisalignedSplit, InvalidStrategy):
        return False
    return True


def ways_of(layouts: Codes, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Into how many parts rows of layouts cut a tensor."""
    cut = np.where(layouts >= 0, sizes, 1.0)
    return np.asarray(cut.prod(axis=-1), dtype=np.float64)


def distinct_rows(layouts: Codes) -> tuple[Codes, NDArray[np.int64]]:
    """The distinct rows of layouts, and which one each row is."""
    base = np.int64(16)
    packed = np.zeros(len(layouts), dtype=np.int64)
    for axis in range(layouts.shape[1]):
        packed = packed * base + (layouts[:, axis] + 2)
    _, first, number = np.unique(packed, return_index=True, return_inverse=True)
    return np.ascontiguousarray(layouts[first]), number.reshape(-1).astype(np.int64)


def to_sharding(layout: Codes, mesh: Mesh) -> Sharding:
    """A row of layouts as a sharding of even parts."""
    return _sharding(tuple(layout.tolist()), mesh)


@lru_cache(maxsize=65536)
def _sharding(codes: tuple[int, ...], mesh: Mesh) -> Sharding:
    placements: list[Placement] = []
    for code in codes:
        match code:
            case -1:
                placements.append(Replicated())
            case -2:
                placements.append(Partial("sum"))
            case dim:
                placements.append(Split(dim))
    return shared_sharding(mesh, tuple(placements))


def num_parts(choices: Sequence[Choice], sizes: Sequence[int]) -> Ways:
    """How many parts a strategy makes along each index that it splits."""
    axes: dict[str, list[int]] = {}
    for choice, size in zip(choices, sizes, strict=True):
        if isinstance(choice, Along):
            axes.setdefault(choice.index, []).append(size)
    return tuple((index, prod(counts)) for index, counts in axes.items())
