"""Splits that look right and are not, most of them derived once; and a few right ones that the refusals must not take along."""

import pytest

from calls import find_properties, find_refusals, find_splits, types
from graphwright.describe import Combine, Concat, Same, make_description, splits_of
from graphwright.describe.language.syntax import Max, Sum, constant, equal, expect, fixed, where
from graphwright.errors import DescriptionError, MisalignedSplit

# -- attributes and sizes that are used in several places ---------------------------------------------


def test_an_attribute_that_a_region_takes_up_may_not_be_needed_elsewhere():
    def windows(x, y, *, p):
        return lambda i, j: x.pad(0)[i - p] * y.pad(0)[j - p]

    found = find_splits(windows, [(6,), (6,)], [(8, 8)], {"p": 1})
    assert found == {}


def test_a_size_that_a_part_changes_may_not_move_another_read():
    def beyond(x, y):
        return lambda i, j: x[i] * y[j + x.shape[0]]

    assert list(find_splits(beyond, [(4,), (9,)], [(4, 5)])) == ["j"]


def test_a_negative_dilation_has_no_region():
    def window(x, *, step):
        return lambda i: Sum(lambda k: x.pad(0)[i + k * step], over=3)

    assert "i" in find_splits(window, [(8,)], [(6,)], {"step": 1})
    assert "i" not in find_splits(window, [(8,)], [(6,)], {"step": -1})


def test_a_quotient_by_the_index_itself_does_not_move_with_it():
    def divided(x, *, n):
        return lambda i: x[i] * (n // (i + 1))

    assert find_splits(divided, [(6,)], [(6,)], {"n": 12}) == {}
    assert "divides by i" in find_refusals(divided, [(6,)], [(6,)], {"n": 12})["i"]


def test_a_divisor_that_is_not_positive_has_no_aligned_split():
    def halves(x, *, n):
        return lambda i: x.pad(0)[i // n]

    assert find_splits(halves, [(3,)], [(6,)], {"n": 2})["i"].quantum == 2
    assert find_splits(halves, [(3,)], [(6,)], {"n": -2}) == {}


def test_a_kernel_that_is_told_nothing_new_makes_the_whole_output():
    def zeros(x):
        return lambda i, j: x[i] * 0

    assert list(find_splits(zeros, [(4,)], [(4, 6)])) == ["i"]
    told = find_splits(zeros, [(4,)], [(4, 6)], {"size": (4, 6)}, size=lambda out: out.shape)
    assert list(told) == ["i", "j"]


# -- decisions ----------------------------------------------------------------------------------------


def test_a_decision_that_a_part_takes_otherwise_is_no_split():
    def by_size(x):
        return lambda i, j: x[i] if x.shape[0] > 2 else x[j]

    assert find_splits(by_size, [(5,)], [(5, 5)]) == {}


def test_parts_are_refused_where_only_they_decide_otherwise():
    def by_size(x):
        return lambda i: x[i] if x.shape[0] != 3 else -x[i]

    split = find_splits(by_size, [(10,)], [(10,)])["i"]
    assert split.part(0, 2)
    with pytest.raises(MisalignedSplit, match="cannot compute i in"):
        split.part(0, 3)


def test_a_dim_of_one_in_a_part_is_not_taken_for_a_broadcast_one():
    def add(a, b):
        return lambda *i: a[i] + b[i]

    found = find_splits(add, [(4, 5), (4, 5)], [(4, 5)])
    assert [s.max_parts for s in found.values()] == [4, 5]
    assert found["i0"].parts(4)


# -- lookups and scatters -----------------------------------------------------------------------------

MASKED = [
    lambda w, idx: lambda i, j: w[idx[i], j] * idx[i],
    lambda w, idx: lambda i, j: where(equal(2, idx[i]), 0, w[idx[i], j]),
    lambda w, idx: lambda i, j: w[idx.pad(0)[i], j],
    lambda w, idx: lambda i, j: w[idx[i], j] * Sum(lambda k: constant(1), over=w.shape[0]),
]


@pytest.mark.parametrize("description", MASKED)
def test_a_lookup_whose_index_or_size_is_used_otherwise_does_not_split_by_rows(description):
    assert "w.0" not in find_splits(description, [(6, 3), (4,)], [(4, 3)])


def test_a_lookup_along_the_diagonal_of_an_index_does_not_split_by_rows():
    assert "w.0" not in find_splits(lambda w, idx: lambda i: w[idx[i, i]], [(6,), (4, 4)], [(4,)])


def test_a_lookup_by_a_part_of_the_index_does_not_split_by_rows():
    lookup = lambda w, idx: lambda i: w[idx[i]]
    assert "w.0" in find_splits(lookup, [(6,), (4,)], [(4,)])
    assert "w.0" not in find_splits(lookup, [(6,), (4,)], [(1,)])


def test_a_scatter_by_an_index_that_is_padded_with_a_row_does_not_split():
    def scatter(idx, g):
        return lambda v: Sum(
            lambda p: where(equal(v, idx.pad(0)[p]), g.pad(1)[p], 0), over=g.shape[0]
        )

    assert "v" not in find_splits(scatter, [(4,), (6,)], [(5,)])


# -- several outputs ----------------------------------------------------------------------------------


def test_a_masked_lookup_does_not_reach_other_outputs():
    def lookup_and_index(w, idx):
        return lambda i, j: w[idx[i], j], lambda i: idx[i]

    assert "w.0" not in find_splits(lookup_and_index, [(6, 3), (4,)], [(4, 3), (4,)])


def test_a_tensor_that_one_output_cuts_is_not_cut_for_one_that_reads_all_of_it():
    def product_and_total(a, b):
        return lambda i: a[i] * Sum(lambda k: b[k]), lambda i: a[i] * b[i]

    assert find_splits(product_and_total, [(6,), (6,)], [(6,), (6,)]) == {}


def test_an_output_decided_to_be_the_same_stays_uncut_when_a_third_joins():
    def three(a, b):
        return lambda i: a[i], lambda j: b[j], lambda i: a[i] * b[i]

    found = find_splits(three, [(6,), (6,)], [(6,), (6,), (6,)])
    assert all(Same() not in split.joins for split in found.values())


def test_outputs_over_different_ranges_are_not_split_together():
    def head_and_total(x):
        return lambda i: x[i], lambda: Sum(lambda k: x[k])

    assert find_splits(head_and_total, [(6,)], [(6,), ()])
    assert find_splits(head_and_total, [(6,)], [(3,), ()]) == {}


def test_an_attribute_that_one_output_changes_is_kept_for_the_others():
    def shifted(x, y, *, p):
        return lambda i: x.pad(0)[i - p], lambda j: y.pad(0)[j - p]

    assert find_splits(shifted, [(6,), (6,)], [(8,), (8,)], {"p": 1}) == {}


def test_an_output_is_the_same_in_every_part_only_if_its_size_is_known_to_be():
    def with_zeros(x):
        return lambda i: x[i] * 2, lambda j: constant(0)

    assert find_splits(with_zeros, [(6,)], [(6,), (6,)]) == {}
    assert find_splits(with_zeros, [(6,)], [(6,), (0,)])["i"].joins == (Concat(0), Same())

    def with_expected_zeros(x, *, outs):
        expect(outs[1].shape[0], outs[1].shape[0] * 0 + 6)
        return with_zeros(x)

    found = find_splits(with_expected_zeros, [(6,)], [(6,), (6,)])
    assert found["i"].joins == (Concat(0), Same())


# -- what is kept between calls -----------------------------------------------------------------------


def test_descriptions_that_share_a_function_restate_their_own_attributes():
    def filled(x):
        return lambda i: x[0]

    kept = make_description("test.kept", filled)
    restated = make_description("test.restated", filled, size=lambda out: out.shape)
    call = types([(1,)], [(6,)])
    assert splits_of(kept, {"size": (6,)}, call) == ()
    assert splits_of(restated, {"size": (6,)}, call)[0].parts(2)[0].attrs == {"size": (3,)}


def test_one_and_true_are_different_attributes():
    def scaled(x, *, n):
        return lambda i: x[i] * n if n is not True else x[i]

    description = make_description("test.scaled", scaled)
    call = types([(6,)], [(6,)])
    for value in (1, True, 1.0):
        (split,) = splits_of(description, {"n": value}, call)
        assert type(split.parts(2)[0].attrs["n"]) is type(value)


# -- what a description may not say -------------------------------------------------------------------


def test_python_cannot_decide_by_an_element():
    with pytest.raises(DescriptionError, match="use where"):
        find_splits(lambda x: lambda i: x[i] if i < 3 else 0, [(6,)], [(6,)])


def test_a_range_may_not_depend_on_an_index():
    with pytest.raises(DescriptionError, match="an extent must not depend on an index"):
        find_splits(lambda x: lambda i: Sum(lambda k: x[k], over=i + 1), [(6,)], [(6,)])


def test_an_input_may_not_have_the_name_of_an_output():
    with pytest.raises(DescriptionError, match="rename the input"):
        find_splits(lambda out: lambda i: out[i] * 2, [(6,)], [(6,)])


# -- properties ---------------------------------------------------------------------------------------

NOT_ELEMENTWISE = [
    lambda x: lambda i, j: where(j <= i, x[i, j], 0),
    lambda x: lambda i, j: x[i, j] / x.shape[0],
    lambda x: lambda i, j: x[0, j] * 2,
    lambda x: lambda i, j: Max(lambda k: x[i, k]),
]


@pytest.mark.parametrize("description", NOT_ELEMENTWISE)
def test_what_depends_on_its_place_is_not_element_wise(description):
    assert not find_properties(description, [(4, 4)], [(4, 4)]).elementwise


def test_a_fixed_quantity_may_be_made_of_another():
    def scaled(x, *, n):
        return lambda i: x[i] * fixed(fixed(n) * 2)

    assert list(find_splits(scaled, [(6,)], [(6,)], {"n": 3})) == ["i"]


def test_sums_nested_in_sums_still_combine():
    def nested(x):
        return lambda: Sum(lambda i: Sum(lambda j: x[i, j]) * 2)

    assert {s.joins for s in find_splits(nested, [(4, 6)], [()]).values()} == {(Combine("sum"),)}
