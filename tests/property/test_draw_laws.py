"""Laws of drawing by place: a part is the slice of the whole, bit for bit; other operators, names and seeds draw others."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from cases import CASES, complete, load_cases
from hypothesis import given
from hypothesis import strategies as st

from graphwright.aten.invoke import call_kernel
from graphwright.describe import splits
from graphwright.run.check.operator import types_of
from graphwright.run.check.parts import join_parts, run_part
from graphwright.run.random import philox
from graphwright.run.random.draw import RandomBox, draw
from graphwright.run.random.philox import fill
from graphwright.run.random.request import RULES

CPU = torch.device("cpu")
RANDOM = sorted(RULES)
DTYPES = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
load_cases()


def whole(shape: tuple[int, ...], seed: int = 3, operator: int = 5) -> RandomBox:
    return RandomBox(seed=seed, operator=operator, shape=shape, box=tuple((0, n) for n in shape))


def identical(a: torch.Tensor, b: torch.Tensor) -> bool:
    """The same bits, those of NaN included."""
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    return torch.equal(*(x.contiguous().flatten().view(torch.uint8) for x in (a, b)))


@st.composite
def boxes(draw, max_size: int = 300) -> RandomBox:
    """A box in a shape, some of whose dims are long enough to share counters along."""
    sizes = st.integers(1, 7) | st.integers(60, 70) | st.integers(1, max_size)
    shape: list[int] = []
    for size in draw(st.lists(sizes, max_size=4)):
        shape.append(size if torch.Size([*shape, size]).numel() <= 40_000 else 1)
    box = []
    for size in shape:
        start = draw(st.integers(0, size))
        box.append((start, draw(st.integers(start, size))))
    seed, operator = draw(st.integers(-(2**70), 2**70)), draw(st.integers(0, 10**6))
    return RandomBox(seed=seed, operator=operator, shape=tuple(shape), box=tuple(box))


def cut(x: torch.Tensor, drawn: RandomBox) -> torch.Tensor:
    return x[tuple(slice(*bounds) for bounds in drawn.box)]


@given(boxes(), st.integers(0, 40))
def test_words_of_a_box_are_a_slice_of_the_whole(drawn: RandomBox, chunk: int) -> None:
    """Also where the box is drawn in chunks of any size."""
    all_words = fill(
        whole(drawn.shape, drawn.seed, drawn.operator), "n", 2, lambda a, b: a * b, torch.int64, CPU
    )
    before = philox.CHUNK["cpu"]
    philox.CHUNK["cpu"] = 1 + chunk * 37
    try:
        part = fill(drawn, "n", 2, lambda a, b: a * b, torch.int64, CPU)
    finally:
        philox.CHUNK["cpu"] = before
    assert part.is_contiguous()
    assert torch.equal(part, cut(all_words, drawn))


@given(boxes(), st.sampled_from(DTYPES), st.sampled_from(["aten.rand", "aten.randn"]))
def test_numbers_of_a_box_are_a_slice_of_the_whole(drawn: RandomBox, dtype: str, op: str) -> None:
    attrs = {"size": drawn.size, "dtype": dtype}
    (part,) = draw(op, attrs, [], drawn, CPU)
    (all_of_it,) = draw(op, attrs, [], whole(drawn.shape, drawn.seed, drawn.operator), CPU)
    assert identical(part, cut(all_of_it, drawn))


@given(st.data())
@pytest.mark.parametrize("op", RANDOM)
def test_parts_of_every_operator_join_to_the_whole(op: str, data: st.DataObject) -> None:
    """For every derived split, cut anywhere; shapes and dtypes are the kernel's own, of the whole and of each part."""
    attrs, inputs = CASES[op](data.draw)
    attrs = complete(op, attrs)
    outputs = call_kernel(op, inputs, attrs)
    types = types_of(inputs, outputs)
    shape = tuple(outputs[0].shape)
    drawn = whole(shape, seed=data.draw(st.integers(0, 9)))
    made = draw(op, attrs, inputs, drawn, CPU)
    assert types_of(inputs, made) == types
    for split in splits(op, attrs, types):
        inner = range(split.quantum, split.extent, split.quantum)
        chosen = data.draw(st.sets(st.sampled_from(inner))) if inner else set()

        def kernel(split, part, local):
            box = tuple((piece.start, piece.stop) for piece in part.outputs[0])
            found = draw(op, part.attrs, local, replace(drawn, box=box), CPU)
            real = call_kernel(op, local, part.attrs)
            assert types_of(local, found) == types_of(local, real)
            return found

        parts = [
            run_part(split, split.part(lo, end), inputs, kernel)
            for lo, end in pairwise([0, *sorted(chosen), split.extent])
        ]
        for joined, wanted in zip(join_parts(split.joins, parts), made, strict=True):
            assert identical(joined, wanted)


def test_every_random_operator_splits() -> None:
    """Or the law above would say nothing of it."""

    def found(op: str) -> int:
        counts = []

        @given(st.data())
        def count(data: st.DataObject) -> None:
            attrs, inputs = CASES[op](data.draw)
            attrs = complete(op, attrs)
            outputs = call_kernel(op, inputs, attrs)
            counts.append(len(splits(op, attrs, types_of(inputs, outputs))))

        count()
        return max(counts)

    assert [op for op in RANDOM if found(op) == 0] == ["aten.randperm"]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**64), st.integers(0, 2**20), st.sampled_from(["number", "uniform"])
        ),
        min_size=2,
        max_size=6,
        unique=True,
    )
)
def test_other_seeds_operators_and_names_draw_other_words(places) -> None:
    drawn = [
        fill(whole((200,), seed, operator), name, 1, lambda w: w, torch.int64, CPU)
        for seed, operator, name in places
    ]
    for n, one in enumerate(drawn):
        for other in drawn[:n]:
            assert (one == other).sum() <= 1


@given(boxes(max_size=80))
def test_no_two_elements_share_a_word(drawn: RandomBox) -> None:
    """Nor two streams: 64 bits of one place are met nowhere else."""
    words = fill(drawn, "n", 2, lambda a, b: (a << 32) + b, torch.int64, CPU).flatten()
    swapped = fill(drawn, "n", 2, lambda a, b: (b << 32) + a, torch.int64, CPU).flatten()
    assert torch.cat([words, swapped]).unique().numel() == 2 * words.numel()
