"""Whose memory the results of a call lie in, and in what order of dims."""

import pytest

from graphwright.aten import in_own_memory, in_place_of, keeps_channels_last
from graphwright.ir import TensorType

IMAGE = TensorType((1, 4, 6, 6), "float32")
CONV = {
    "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("op", "written"),
    [
        ("aten.relu", "aten.relu_"),
        ("aten.add.Tensor", "aten.add_.Tensor"),
        ("aten.gelu", "aten.gelu_"),
        ("aten.mm", None),
        ("aten.cat", None),
        ("aten.fill.Scalar", "aten.fill_.Scalar"),
    ],
)
def test_operators_in_place_are_found_by_their_schemas(op, written):
    assert in_place_of(op) == written


@pytest.mark.parametrize(
    ("op", "attrs", "own"),
    [
        ("aten.relu", {}, True),
        ("aten.permute", {"dims": (0, 2, 3, 1)}, False),
        ("aten.view", {"size": (4, 36)}, False),
        ("aten.dropout", {"p": 0.5, "train": False}, False),
        ("aten.clone", {}, True),
        ("aten.contiguous", {}, False),
    ],
)
def test_views_and_calls_that_give_their_argument_back_have_no_memory_of_their_own(op, attrs, own):
    assert in_own_memory(op, attrs, (IMAGE,)) is own


def test_a_view_is_a_copy_where_channels_are_last():
    assert in_own_memory("aten.view", {"size": (1, 144)}, (IMAGE,), channels_last=True)
    assert (
        in_own_memory("aten.permute", {"dims": (0, 2, 3, 1)}, (IMAGE,), channels_last=True) is False
    )


def test_layouts_are_kept_by_kernels_that_keep_them():
    kernel = TensorType((2, 4, 1, 1), "float32")
    assert keeps_channels_last("aten.conv2d", CONV, (IMAGE, kernel, None))
    assert keeps_channels_last("aten.relu", {}, (IMAGE,))
    assert not keeps_channels_last("aten.permute", {"dims": (0, 2, 3, 1)}, (IMAGE,))
    assert not keeps_channels_last(
        "aten.flatten.using_ints", {"start_dim": 1, "end_dim": -1}, (IMAGE,)
    )


def test_what_cannot_be_asked_is_unknown():
    assert in_own_memory("aten.nonzero", {}, (IMAGE,)) is None
