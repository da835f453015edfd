"""Meshes, shardings and strategies: how they are counted, cut and spelled."""

import numpy as np
import pytest

from graphwright.ir import TensorType
from graphwright.plans import (
    Along,
    Keep,
    Mesh,
    Partial,
    Replicate,
    Replicated,
    Sharding,
    Split,
    Strategy,
    boxes,
    even_cuts,
    even_pieces,
    local_bytes,
    on_one,
    parse_choice,
    parse_placement,
    part_numbers,
    replicated,
    whole_mesh,
)
from timelines import make_cluster

SIX = Mesh((0, 1, 2, 3, 4, 5), (2, 3))


@pytest.mark.parametrize("choice", [Along("i"), Along("kh"), Replicate(), Keep((0,)), Keep((0, 2))])
def test_choices_are_spelled_and_read(choice):
    assert parse_choice(str(choice)) == choice


@pytest.mark.parametrize(
    "placement", [Split(0), Split(12), Replicated(), Partial(), Partial("max")]
)
def test_placements_are_spelled_and_read(placement):
    assert parse_placement(str(placement)) == placement


def test_spelling():
    assert str(Strategy((Along("i"), Replicate(), Keep((0, 1))))) == "i - +0,1"
    assert str(on_one(3)) == "- on 3"
    assert str(Strategy((Along("i"),), Mesh((4, 2), (2,)))) == "i on 4, 2"
    assert str(Sharding(SIX, (Split(0), Partial()))) == "[S0 P(sum)]"
    halo = Sharding(SIX, (Split(0), Replicated()), ((0, ((0, 3), (2, 4))),))
    assert str(halo) == "[S0 R]~"


def test_values_are_equal_by_content():
    again = Mesh((0, 1, 2, 3, 4, 5), (2, 3))
    assert again == SIX and hash(again) == hash(SIX) and again != Mesh(SIX.devices, (3, 2))
    a, b = (Sharding(m, (Split(0), Replicated())) for m in (SIX, again))
    assert a == b and hash(a) == hash(b) and len({a, b, replicated(SIX)}) == 2


def test_the_mesh_of_a_cluster_has_its_axes():
    assert whole_mesh(make_cluster(2, 4)) == Mesh(tuple(range(8)), (2, 2, 2))
    assert whole_mesh(make_cluster(1, 1)) == Mesh((0,), ())


def test_parts_are_numbered_with_the_first_axis_outermost():
    assert part_numbers(SIX, (0, 1)).tolist() == [0, 1, 2, 3, 4, 5]
    assert part_numbers(SIX, (1,)).tolist() == [0, 1, 2, 0, 1, 2]
    assert part_numbers(SIX, (1, 0)).tolist() == [0, 2, 4, 1, 3, 5]
    assert part_numbers(SIX, ()).tolist() == [0] * 6


def test_uneven_sizes_are_cut_without_gaps():
    assert even_cuts(7, 3).tolist() == [0, 2, 4, 7]
    assert even_pieces(2, 3).tolist() == [[0, 0], [0, 1], [1, 2]]
    for size in range(1, 20):
        for ways in range(1, 7):
            sizes = np.diff(even_cuts(size, ways))
            assert sizes.sum() == size and sizes.max() - sizes.min() <= 1


def test_boxes_follow_the_axes():
    tiles = boxes(Sharding(SIX, (Split(0), Split(1))), (4, 7))
    assert tiles[0].tolist() == [[0, 2], [0, 2]]
    assert tiles[5].tolist() == [[2, 4], [4, 7]]
    nested = boxes(Sharding(SIX, (Split(1), Split(1))), (4, 7))
    assert nested[:, 1].tolist() == even_pieces(7, 6).tolist()
    halo = Sharding(SIX, (Replicated(), Split(0)), ((0, ((0, 2), (1, 3), (2, 4))),))
    assert boxes(halo, (4,))[:, 0].tolist() == [[0, 2], [1, 3], [2, 4]] * 2
    assert boxes(Sharding(SIX, (Partial(), Replicated())), (4,))[:, 0].tolist() == [[0, 4]] * 6
    assert boxes(replicated(SIX), ()).shape == (6, 0, 2)


def test_local_bytes():
    held = Sharding(SIX, (Replicated(), Split(1)))
    assert local_bytes(held, TensorType((4, 7), "float32")).tolist() == [32, 32, 48] * 2
    assert local_bytes(replicated(SIX), TensorType((), "float64")).tolist() == [8] * 6


def test_axes_and_ways():
    sharding = Sharding(SIX, (Split(1), Split(1)))
    assert sharding.axes_of(1) == (0, 1) and sharding.ways(1) == 6
    assert sharding.axes_of(0) == () and sharding.ways(0) == 1
    assert not sharding.is_partial and Sharding(SIX, (Split(0), Partial())).is_partial
