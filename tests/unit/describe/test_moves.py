"""Views and joins of the library: where their splits may be cut, and what a part then reads."""

import pytest

from calls import ranges, types
from graphwright.describe import splits


def found(op, attrs, inputs, output):
    return {s.index: s for s in splits(op, attrs, types(inputs, [output]))}


@pytest.mark.parametrize(
    ("before", "quantum"), [((2, 12), 12), ((2, 3, 4), 12), ((2, 3, 2, 2), 12), ((4, 3, 2), 6)]
)
def test_merged_dims_split_between_rows_of_the_first(before, quantum):
    split = found("aten.view", {"size": (24,)}, [before], (24,))["i0"]
    assert split.quantum == quantum


def test_a_dim_that_every_part_reads_whole_is_not_cut():
    split = found("aten.pixel_unshuffle", {"downscale_factor": 2}, [(2, 3, 6, 8)], (2, 12, 3, 4))
    assert split["i1"].cut_dims == {(0, 1)}
    assert split["i1"].quantum == 4


def test_padding_is_shared_out_between_parts():
    attrs = {"pad": (2, 1), "value": 0.0}
    split = found("aten.constant_pad_nd", attrs, [(4, 6)], (4, 9))["i1"]
    assert ranges(split, 0, 1, 3) == [(-2, 1), (1, 4), (4, 7)]
    assert [part.attrs["pad"] for part in split.parts(3)] == [(0, 0)] * 3


def test_a_named_dim_that_squeeze_keeps_stays_whole():
    assert list(found("aten.squeeze.dims", {"dim": (0, 1)}, [(4, 1, 3)], (4, 3))) == ["i1"]


def test_a_concatenation_of_many_is_analysed_at_once():
    inputs = [(4, 3)] * 64
    assert list(found("aten.cat", {"dim": 1}, inputs, (4, 192))) == ["i0"]
