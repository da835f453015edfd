"""Calls cut along several indices and spread over meshes, and run part by part to see whether that is true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from random import Random

import numpy as np
import torch

from graphwright.aten.invoke import call_kernel
from graphwright.describe import Types, Ways, properties, splits, tile
from graphwright.errors import InvalidStrategy, MisalignedSplit
from graphwright.ir import Attrs, TensorType
from graphwright.plans import (
    Along,
    Choice,
    Keep,
    Mesh,
    Partial,
    Replicate,
    Replicated,
    Sharding,
    Strategy,
    boxes,
)
from graphwright.run import run_tile, run_tiling
from graphwright.run.check.parts import combine, tolerance_of
from graphwright.tasks import place

Inputs = Sequence[torch.Tensor | None]
MESHES = ((2,), (3,), (4,), (2, 2), (2, 3), (3, 2), (2, 2, 2))


@dataclass
class Tally:
    """How many combinations were tried, and how many the description allowed."""

    tried: int = 0
    held: int = 0


@dataclass(frozen=True)
class Call:
    """A call that was made, to compare others with."""

    op: str
    attrs: Attrs
    inputs: Inputs
    outputs: tuple[torch.Tensor, ...]
    types: Types

    @staticmethod
    def make(op: str, attrs, inputs: Inputs) -> Call:
        outputs = call_kernel(op, inputs, attrs)
        types = Types(
            tuple(None if t is None else tensor_type(t) for t in inputs),
            tuple(map(tensor_type, outputs)),
        )
        return Call(op, Attrs(attrs), inputs, outputs, types)

    @property
    def random(self) -> bool:
        """Whether a second call gives other values."""
        return properties(self.op, self.attrs, self.types).random

    def compare(self, found: Sequence[torch.Tensor], how: object) -> None:
        near = tolerance_of(*(t for t in (*self.inputs, *self.outputs) if t is not None))
        for number, (want, got) in enumerate(zip(self.outputs, found, strict=True)):
            assert got.shape == want.shape, f"{self.op} {how}: {got.shape}, not {want.shape}"
            if self.random:
                continue
            if not (want.is_floating_point() or want.is_complex()):
                same = torch.equal(got, want)
            else:
                got, want = widened(got), widened(want)
                finite = want[want.isfinite()].abs()
                scale = max(1.0, finite.max().item()) if finite.numel() else 1.0
                same = torch.allclose(got, want, rtol=near, atol=near * scale, equal_nan=True)
            assert same, (
                f"{self.op} {dict(self.attrs)} {self.types} {how}: output {number} is\n{got}\nnot\n{want}"
            )


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """Floats of 8 bits as such of 32: PyTorch compares no others."""
    is_narrow = tensor.is_floating_point() and tensor.dtype.itemsize == 1
    return tensor.float() if is_narrow else tensor


def tensor_type(tensor: torch.Tensor) -> TensorType:
    return TensorType(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))


# -- several ways at once ------------------------------------------------------------------------


def random_ways(rng: Random, call: Call, num_ways: int) -> Ways:
    """Distinct indices of the call in any order, each in 2 to 4 parts if it has so many."""
    available = [s for s in splits(call.op, call.attrs, call.types) if s.max_parts > 1]
    chosen = rng.sample(available, min(num_ways, len(available)))
    return tuple((s.index, rng.randint(2, min(4, s.max_parts))) for s in chosen)


def check_ways(call: Call, ways: Ways, tally: Tally) -> None:
    """The kernel, run on every part and joined, gives what it gives for the whole."""
    tally.tried += 1
    try:
        tiling = tile(call.op, call.attrs, call.types, ways)
    except (InvalidStrategy, MisalignedSplit):
        return
    tally.held += 1
    assert tiling.num_parts == prod(n for _, n in ways)
    for number in range(tiling.num_parts):
        for types, regions in ((tiling.inputs, "inputs"), (tiling.outputs, "outputs")):
            local = getattr(tiling.classes[tiling.class_of[number]].types, regions)
            for t, region in zip(local, types, strict=True):
                if t is not None:
                    assert t.shape == tuple((region[number, :, 1] - region[number, :, 0]).tolist())
    call.compare(run_tiling(call.op, tiling, call.inputs), f"along {ways}")


# -- on meshes -----------------------------------------------------------------------------------


def adding_sets(call: Call) -> list[frozenset[int]]:
    """The arguments through which terms pass, where they are numbers that add up."""
    linear = properties(call.op, call.attrs, call.types).linear
    if any(t.dtype == "bool" for t in call.types.outputs):
        return []
    finite = [
        t is not None and t.dtype != torch.bool and bool(widened(t).isfinite().all())
        for t in call.inputs
    ]
    return [arguments for arguments in linear if all(finite[a] for a in arguments)]


def random_choices(rng: Random, call: Call, shape: tuple[int, ...], linear) -> tuple[Choice, ...]:
    """An index, replication or, where the call is linear in something, terms, for every axis."""
    left = {s.index: s.max_parts for s in splits(call.op, call.attrs, call.types)}
    choices: list[Choice] = []
    for size in shape:
        possible = [Along(i) for i, parts in left.items() if parts >= size]
        others = [Replicate(), *(Keep(tuple(sorted(s))) for s in linear)]
        choice = rng.choice(possible if possible and rng.random() < 0.7 else others)
        if isinstance(choice, Along):
            left[choice.index] //= size
        choices.append(choice)
    return tuple(choices)


def check_placement(rng: Random, call: Call, shape: tuple[int, ...], linear, tally: Tally) -> None:
    """A random strategy on a mesh is true."""
    check_choices(rng, call, random_choices(rng, call, shape, linear), shape, tally)


def check_choices(
    rng: Random, call: Call, choices: tuple[Choice, ...], shape: tuple[int, ...], tally: Tally
) -> None:
    """Every device has what its part reads, and the outputs are where and what their shardings say."""
    count = prod(shape)
    mesh = Mesh(tuple(rng.sample(range(2 * count), count)), shape)
    tally.tried += 1
    try:
        placed = place(call.op, call.attrs, call.types, Strategy(choices), mesh)
    except InvalidStrategy:
        return
    tally.held += 1
    axes: dict[str, list[int]] = {}
    for axis, choice in enumerate(choices):
        if isinstance(choice, Along):
            axes.setdefault(choice.index, []).append(axis)
    ways = tuple((i, prod(shape[a] for a in found)) for i, found in axes.items())
    tiling = tile(call.op, call.attrs, call.types, ways)
    terms = [
        None if t is None else split_terms(rng, t, needed)
        for t, needed in zip(call.inputs, placed.inputs, strict=True)
    ]
    made = []
    for at, coordinates in enumerate(np.ndindex(*shape)):
        number = 0
        for found in axes.values():
            for axis in found:
                number = number * shape[axis] + coordinates[axis]
        for arg, needed in enumerate(placed.inputs):
            if needed is not None:
                check_inside(
                    tiling.inputs[arg][number],
                    boxes(needed, call.types.inputs[arg].shape)[at],
                    call.types.inputs[arg].shape,
                )
        own = [None if t is None else t[at] for t in terms]
        made.append(run_tile(call.op, tiling, number, own))
        if call.random:  # only the types of what is drawn count
            made[-1] = tuple(map(torch.zeros_like, made[-1]))
        local = placed.classes[placed.class_of[at]]
        assert local.types.outputs == tuple(map(tensor_type, made[-1]))
    found = [
        put_together([m[o] for m in made], sharding, call.outputs[o])
        for o, sharding in enumerate(placed.outputs)
    ]
    call.compare(found, f"as {Strategy(choices)} on {shape}")


def check_inside(region: np.ndarray, box: np.ndarray, shape: tuple[int, ...]) -> None:
    limits = np.array(shape).reshape(-1, 1)
    read = np.clip(region, 0, limits)
    if (read[:, 1] > read[:, 0]).all():
        assert (box[:, 0] <= read[:, 0]).all(), (region, box)
        assert (read[:, 1] <= box[:, 1]).all(), (region, box)


def split_terms(rng: Random, whole: torch.Tensor, needed: Sharding) -> list[torch.Tensor]:
    """For every device the whole tensor, or its term of it along the axes where it is partial."""
    shape = needed.mesh.shape
    partial = [a for a, p in enumerate(needed.placements) if isinstance(p, Partial)]
    assert all(needed.placements[a] == Partial("sum") for a in partial)
    if not partial:
        return [whole] * len(needed.mesh)
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    sizes = [shape[a] for a in partial]
    made = {
        key: (6 * torch.rand(whole.shape, generator=generator, dtype=torch.float64) - 3).to(whole)
        for key in np.ndindex(*sizes)
    }
    last = tuple(n - 1 for n in sizes)
    made[last] = whole - sum(t for key, t in made.items() if key != last)
    return [made[tuple(c[a] for a in partial)] for c in np.ndindex(*shape)]


def put_together(
    pieces: Sequence[torch.Tensor], sharding: Sharding, like: torch.Tensor
) -> torch.Tensor:
    """The tensor that devices hold in a sharding, from their boxes alone."""
    shape = sharding.mesh.shape
    held = boxes(sharding, tuple(like.shape))
    whole = torch.empty_like(like)
    covered = torch.zeros(like.shape, dtype=torch.bool)
    array = np.empty(len(pieces), dtype=object)
    for at, piece in enumerate(pieces):
        assert tuple(piece.shape) == tuple((held[at, :, 1] - held[at, :, 0]).tolist())
        array[at] = piece
    array = array.reshape(shape)
    for at, coordinates in enumerate(np.ndindex(*shape)):
        if any(coordinates[a] and not hasattr(p, "dim") for a, p in enumerate(sharding.placements)):
            continue
        value = reduce_terms(array, coordinates, sharding, len(shape))
        box = tuple(slice(a, b) for a, b in held[at].tolist())
        whole[box] = value
        covered[box] = True
    assert covered.all(), f"{sharding} leaves some of {tuple(like.shape)} to nobody"
    return whole


def reduce_terms(
    array: np.ndarray, at: tuple[int, ...], sharding: Sharding, axes: int
) -> torch.Tensor:
    """What the devices at `at` hold together along the last of `axes` axes that is not split, and those before."""
    if axes == 0:
        return array[at]
    axis = axes - 1
    placement = sharding.placements[axis]
    if hasattr(placement, "dim"):
        return reduce_terms(array, at, sharding, axis)
    along = [
        reduce_terms(array, (*at[:axis], n, *at[axis + 1 :]), sharding, axis)
        for n in range(array.shape[axis])
    ]
    if isinstance(placement, Replicated):
        near = tolerance_of(along[0])
        for other in along[1:]:
            a, b = widened(other), widened(along[0])
            assert torch.allclose(a, b, rtol=near, atol=near, equal_nan=True)
        return along[0]
    return combine(placement.reducer, along)
