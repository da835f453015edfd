"""Single hops as instructions, region by region, counted by hand."""

import pytest

from graphwright.ir import TensorType
from graphwright.lower import lower_hop
from graphwright.lower.moves import changed_axes, group_of, lower_slice
from graphwright.machine import cluster
from graphwright.plans import Mesh, Sharding
from graphwright.tasks import Hop
from programs import check_cover
from reshardings import KINDS

THREE, FOUR = cluster("local:3"), cluster("local:4")
LINE = Mesh((0, 1, 2), (3,))
SQUARE = Mesh((0, 1, 2, 3), (2, 2))
FIVE = TensorType((5, 4), "float32")


def hop(kind, source, target, mesh=LINE, to=None, pieces=(), halo=()):
    source = Sharding(mesh, source, pieces)
    return Hop(KINDS[kind], source, Sharding(to or mesh, target, halo), 0, 1)


def lowered(found, type=FIVE, on=THREE, ranks=3):
    """The instruction of every rank."""
    made = []
    for rank in range(ranks):
        value = 0 if rank in found.source.mesh.devices else None
        output = 1 if rank in found.target.mesh.devices else None
        if value is None and output is None:
            made.append(None)
            continue
        made.append(lower_hop(found, "t", type, on, rank, value, output, 9))
    return made


# -- groups ------------------------------------------------------------------------------------------


def test_a_group_differs_along_the_axes_only():
    assert group_of(SQUARE, (0,), 1) == (1, 3)
    assert group_of(SQUARE, (1,), 2) == (2, 3)
    assert group_of(SQUARE, (0, 1), 2) == (0, 1, 2, 3)
    assert group_of(SQUARE, (), 2) == (2,)


def test_a_group_is_in_the_order_of_the_mesh():
    assert group_of(Mesh((2, 0, 1), (3,)), (0,), 1) == (2, 0, 1)


def test_changed_axes():
    assert changed_axes(hop("all_gather", ("S0", "S1"), ("S0", "R"), SQUARE)) == (1,)
    assert changed_axes(hop("all_gather", ("S0", "S0"), ("R", "R"), SQUARE)) == (0, 1)


# -- collectives -------------------------------------------------------------------------------------


def test_gathering_uneven_parts():
    for made in lowered(hop("all_gather", ("S0",), ("R",))):
        assert (made.kind.name, made.dim, made.group) == ("all_gather", 0, (0, 1, 2))
        assert made.sizes == (1, 2, 2)  # cuts of 5 at 0, 1, 3, 5


def test_gathering_along_one_axis_of_two():
    made = lowered(hop("all_gather", ("S0", "S0"), ("S0", "R"), SQUARE), on=FOUR, ranks=4)
    assert [m.group for m in made] == [(0, 1), (0, 1), (2, 3), (2, 3)]
    assert [m.sizes for m in made] == [(1, 1), (1, 1), (1, 2), (1, 2)]


def test_adding_up():
    made = lowered(hop("all_reduce", ("P(max)", "S1"), ("R", "S1"), SQUARE), on=FOUR, ranks=4)
    assert [m.group for m in made] == [(0, 2), (1, 3), (0, 2), (1, 3)]
    assert {m.reducer for m in made} == {"max"}


def test_adding_up_to_parts():
    for made in lowered(hop("reduce_scatter", ("P(sum)",), ("S1",))):
        assert (made.kind.name, made.dim, made.reducer) == ("reduce_scatter", 1, "sum")
        assert made.sizes == (1, 1, 2)


# -- exchanges ---------------------------------------------------------------------------------------


def test_all_to_all():
    one, _, three = made = lowered(hop("all_to_all", ("S0",), ("S1",)))
    assert one.type.shape == (5, 1)
    assert one.sends == ((1, ((0, 1), (1, 2))), (2, ((0, 1), (2, 4))))
    assert one.receives == ((1, ((1, 3), (0, 1))), (2, ((3, 5), (0, 1))))
    assert one.own == ((((0, 1), (0, 1)), ((0, 1), (0, 1))),)
    assert three.own == ((((0, 2), (2, 4)), ((3, 5), (0, 2))),)
    for m in made:
        check_cover(m)


def test_a_halo():
    """Parts [0, 2) [2, 4) [4, 6), and a row more on either side."""
    six = TensorType((6, 4), "float32")
    halo = ((0, ((0, 3), (1, 5), (3, 6))),)
    one, two, three = made = lowered(hop("exchange", ("S0",), ("S0",), halo=halo), six)
    assert one.sends == ((1, ((1, 2), (0, 4))),)
    assert one.receives == ((1, ((2, 3), (0, 4))),)
    assert dict(two.receives) == {0: ((0, 1), (0, 4)), 2: ((3, 4), (0, 4))}
    assert two.own == ((((0, 2), (0, 4)), ((1, 3), (0, 4))),)
    assert three.type.shape == (3, 4)
    for m in made:
        assert m.tag == 9
        check_cover(m)


def test_to_other_devices():
    one, two, three = lowered(
        hop("exchange", ("S0",), (), Mesh((0, 1), (2,)), to=Mesh((2,), ())), on=THREE
    )
    assert (one.output, two.output, three.value) == (None, None, None)
    assert one.sends == ((2, ((0, 2), (0, 4))),)
    assert two.sends == ((2, ((0, 3), (0, 4))),)
    assert dict(three.receives) == {0: ((0, 2), (0, 4)), 1: ((2, 5), (0, 4))}
    assert not one.receives
    assert not three.sends
    check_cover(three)


def test_each_region_comes_from_one_rank_though_several_have_it():
    made = lowered(hop("exchange", ("R",), (), Mesh((0, 1), (2,)), to=Mesh((2,), ())), on=THREE)
    assert len(made[2].receives) == 1
    assert len(made[0].sends) + len(made[1].sends) == 1


def test_gathering_pieces_that_overlap():
    """What a rank has already is not sent to it again, and what two others have may come from both."""
    halo = ((0, ((0, 3), (1, 5), (3, 6))),)
    six = TensorType((6, 4), "float32")
    made = lowered(hop("all_gather", ("S0",), ("R",), pieces=halo), six)
    for rank, m in enumerate(made):
        assert m.type == six
        check_cover(m, overlapping=True)
        assert [r for r, _ in m.receives] == [r for r in range(3) if r != rank]


# -- slices ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rank", "rows"), [(0, (0, 1)), (1, (1, 3)), (2, (3, 5))])
def test_a_slice_takes_its_part(rank, rows):
    made = lower_slice(hop("slice", ("R",), ("S0",)), FIVE, rank, 0, 1)
    assert made.region == (rows, (0, 4))
    assert not made.zero


def test_a_slice_of_a_part_counts_from_its_own_beginning():
    found = hop("slice", ("S0", "R"), ("S0", "S0"), SQUARE)
    regions = [lower_slice(found, FIVE, rank, 0, 1).region[0] for rank in range(4)]
    assert regions == [(0, 1), (1, 2), (0, 1), (1, 3)]  # of [0, 2) and of [2, 5)


def test_all_terms_but_the_first_are_zero():
    found = hop("slice", ("R", "S0"), ("P(sum)", "S0"), SQUARE)
    zeros = [lower_slice(found, FIVE, rank, 0, 1).zero for rank in range(4)]
    assert zeros == [False, False, True, True]


def test_terms_along_two_axes():
    found = hop("slice", ("R", "R"), ("P(sum)", "P(sum)"), SQUARE)
    zeros = [lower_slice(found, FIVE, rank, 0, 1).zero for rank in range(4)]
    assert zeros == [False, True, True, True]


def test_terms_that_were_there_before_stay():
    found = hop("slice", ("P(sum)", "R"), ("P(sum)", "S1"), SQUARE)
    assert not any(lower_slice(found, FIVE, rank, 0, 1).zero for rank in range(4))
