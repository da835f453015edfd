"""The splits that the papers and everyday models expect, derived from descriptions written here."""

from itertools import pairwise

import pytest

from calls import find_refusals, find_splits, ranges
from graphwright.describe import Combine, Concat
from graphwright.describe.language.syntax import (
    Max,
    Opaque,
    Sum,
    equal,
    expect,
    fixed,
    function,
    regroup,
    where,
)
from graphwright.errors import MisalignedSplit

exp = function("exp")


def conv1d(data, filters):
    """Figure 3 of the Tofu paper."""
    return lambda b, co, x: Sum(lambda ci, dx: data[b, ci, x + dx] * filters[ci, co, dx])


def test_conv1d_has_the_five_strategies_of_the_paper():
    found = find_splits(conv1d, [(4, 6, 10), (6, 8, 3)], [(4, 8, 8)])
    assert list(found) == ["b", "co", "x", "ci", "dx"]
    assert [s.joins[0] for s in found.values()] == [
        Concat(0), Concat(1), Concat(2), Combine("sum"), Combine("sum"),
    ]  # fmt: skip


def test_conv1d_along_pixels_needs_a_halo():
    split = find_splits(conv1d, [(4, 6, 10), (6, 8, 3)], [(4, 8, 8)])["x"]
    assert ranges(split, 0, 2, 2) == [(0, 6), (4, 10)]
    assert ranges(split, 0, 2, 3) == [(0, 4), (2, 7), (5, 10)]
    assert (1, 2) not in split.cut_dims


def test_conv1d_along_input_channels_cuts_both_inputs():
    split = find_splits(conv1d, [(4, 6, 10), (6, 8, 3)], [(4, 8, 8)])["ci"]
    assert split.cut_dims == {(0, 1), (1, 0)}
    assert ranges(split, 0, 1, 2) == ranges(split, 1, 0, 2) == [(0, 3), (3, 6)]


def test_batch_cholesky_splits_over_its_batch_alone():
    def batch_cholesky(a):
        return lambda b, i, j: Opaque("cholesky")(a[b, :, :])[i, j]

    assert list(find_splits(batch_cholesky, [(4, 3, 3)], [(4, 3, 3)])) == ["b"]
    assert set(find_refusals(batch_cholesky, [(4, 3, 3)], [(4, 3, 3)])) == {"i", "j"}


def view(x, *, size):
    return lambda *i: x[regroup(i, size, x.shape)]


def view_splits(before, after):
    return find_splits(view, [before], [after], {"size": after}, size=lambda out: out.shape)


def test_splitting_heads_apart_is_discovered():
    found = view_splits((2, 5, 12), (2, 5, 4, 3))
    assert list(found) == ["i0", "i1", "i2"]
    assert ranges(found["i2"], 0, 2, 2) == [(0, 6), (6, 12)]
    assert [p.attrs["size"] for p in found["i2"].parts(4)] == [(2, 5, 1, 3)] * 4


def test_merging_heads_is_discovered_at_multiples_of_a_head():
    split = view_splits((2, 5, 4, 3), (2, 5, 12))["i2"]
    assert split.quantum == 3
    assert split.max_parts == 4
    assert split.cuts(3) == (0, 3, 6, 12)
    assert ranges(split, 0, 2, 2) == [(0, 2), (2, 4)]
    assert (0, 3) not in split.cut_dims


@pytest.mark.parametrize(("lo", "end"), [(0, 4), (1, 6), (3, 7)])
def test_misaligned_cuts_are_refused(lo, end):
    split = view_splits((2, 5, 4, 3), (2, 5, 12))["i2"]
    with pytest.raises(MisalignedSplit, match="multiples of 3"):
        split.part(lo, end)


def test_more_parts_than_there_are_heads_are_refused():
    split = view_splits((2, 5, 4, 3), (2, 5, 12))["i2"]
    with pytest.raises(MisalignedSplit, match="at most 4 parts, not 5"):
        split.parts(5)


def test_a_part_outside_of_the_index_is_refused():
    split = view_splits((8,), (8,))["i0"]
    with pytest.raises(MisalignedSplit, match=r"is not in \[0, 8\)"):
        split.part(4, 9)


def test_a_reshape_across_rows_splits_where_rows_meet():
    found = view_splits((6, 4), (4, 6))
    assert list(found) == ["i0"]
    assert found["i0"].quantum == 2
    assert ranges(found["i0"], 0, 0, 2) == [(0, 3), (3, 6)]


def test_the_inner_part_of_a_head_cannot_be_split():
    assert "i3" in find_refusals(
        view, [(2, 5, 12)], [(2, 5, 4, 3)], {"size": (2, 5, 4, 3)}, size=lambda out: out.shape
    )


def test_softmax_splits_along_all_dims_but_its_own():
    def softmax(x):
        return lambda b, i: exp(x[b, i]) / Sum(lambda k: exp(x[b, k]))

    assert list(find_splits(softmax, [(4, 6)], [(4, 6)])) == ["b"]
    refused = find_refusals(softmax, [(4, 6)], [(4, 6)])
    assert "is also read without i" in refused["i"]
    assert "needs the complete result" in refused["k"]


def test_partial_sums_pass_through_a_scale_and_not_through_an_offset():
    def scaled(x):
        return lambda i: Sum(lambda k: x[i, k]) * 3

    def shifted(x):
        return lambda i: Sum(lambda k: x[i, k]) + 3

    assert find_splits(scaled, [(4, 6)], [(4,)])["k"].reducer == "sum"
    assert "k" not in find_splits(shifted, [(4, 6)], [(4,)])


def test_maximum_combines_by_maximum():
    def largest(x):
        return lambda i: Max(lambda k: x[i, k])

    assert find_splits(largest, [(4, 6)], [(4,)])["k"].joins == (Combine("max"),)


def test_a_mean_is_not_the_sum_of_partial_means():
    def mean(x):
        return lambda i: Sum(lambda k: x[i, k]) / x.shape[1]

    assert list(find_splits(mean, [(4, 6)], [(4,)])) == ["i"]


def test_padding_is_taken_up_by_the_region():
    def window(x, *, padding):
        return lambda i: Sum(lambda d: x.pad(0)[i + d - padding], over=3)

    split = find_splits(window, [(8,)], [(8,)], {"padding": 1})["i"]
    assert ranges(split, 0, 0, 2) == [(-1, 5), (3, 9)]
    assert [p.attrs["padding"] for p in split.parts(2)] == [0, 0]
    assert {p.inputs[0][0].fill for p in split.parts(2)} == {0}


def test_the_diagonal_of_a_triangle_moves_with_the_part():
    def tril(x, *, diagonal):
        return lambda i, j: where(j - i <= diagonal, x[i, j], 0)

    found = find_splits(tril, [(4, 4)], [(4, 4)], {"diagonal": 0})
    assert [p.attrs["diagonal"] for p in found["i"].parts(2)] == [0, 2]
    assert [p.attrs["diagonal"] for p in found["j"].parts(2)] == [0, -2]


def test_an_index_as_a_value_with_nothing_to_take_it_up_is_refused():
    def eye(x):
        return lambda i, j: where(equal(i, j), x[i, j], 0)

    assert find_splits(eye, [(4, 4)], [(4, 4)]) == {}


def test_a_table_splits_over_its_rows_as_a_masked_lookup():
    def lookup(table, index):
        return lambda i, j: table[index[i], j]

    split = find_splits(lookup, [(10, 4), (6,)], [(6, 4)])["table.0"]
    assert split.joins == (Combine("sum"),)
    assert split.symbolic.mask.index == 1
    assert ranges(split, 0, 0, 3) == [(0, 3), (3, 6), (6, 10)]


def test_groups_split_between_groups():
    def grouped(x, w, *, groups):
        size = fixed(w.shape[0] // groups)
        return lambda o: Sum(lambda i: x[o // size * w.shape[1] + i] * w[o, i])

    restated = {"groups": lambda x, w: x.shape[0] // w.shape[1]}
    split = find_splits(grouped, [(6,), (8, 3)], [(8,)], {"groups": 2}, **restated)["o"]
    assert split.quantum == 4
    assert [p.attrs["groups"] for p in split.parts(2)] == [1, 1]
    assert ranges(split, 0, 0, 2) == [(0, 3), (3, 6)]


def test_a_split_that_breaks_an_expected_size_is_refused():
    def doubled(x, *, out):
        expect(out.shape[0], x.shape[0] * 2 - 1)
        return lambda i: x[i // 2]

    assert find_splits(doubled, [(4,)], [(7,)]) == {}


def test_several_outputs_join_each_in_its_own_way():
    def product_gradients(g, a, b):
        left = lambda i, k: Sum(lambda j: g[i, j] * b[k, j])
        right = lambda k, j: Sum(lambda i: a[i, k] * g[i, j])
        return left, right

    found = find_splits(product_gradients, [(4, 6), (4, 5), (5, 6)], [(4, 5), (5, 6)])
    by_join = {s.joins for s in found.values()}
    assert (Concat(0), Combine("sum")) in by_join
    assert (Combine("sum"), Concat(1)) in by_join


def test_one_analysis_serves_every_shape():
    from calls import types
    from graphwright.describe import make_description, splits_of
    from graphwright.describe.language.trace import num_traces

    description = make_description("test.conv1d", conv1d)
    before = num_traces()
    for n in range(2, 4):  # the dims of the weight are met, once as sizes of their own
        assert splits_of(description, {}, types([(n, 6, n + 2), (6, 8, 3)], [(n, 8, n)]))
    assert num_traces() <= before + 3
    before = num_traces()
    for n in range(4, 30):
        assert splits_of(description, {}, types([(n, 6, n + 2), (6, 8, 3)], [(n, 8, n)]))
    assert (
        num_traces() <= before + 2
    )  # one more for parts of one element, where a dim looks broadcast


@pytest.mark.parametrize("num_parts", [2, 3, 4, 5, 7])
def test_parts_cover_the_index_without_overlap(num_parts):
    split = find_splits(conv1d, [(50, 6, 10), (6, 8, 3)], [(50, 8, 8)])["b"]
    cuts = split.cuts(num_parts)
    assert cuts[0] == 0
    assert cuts[-1] == 50
    sizes = [b - a for a, b in pairwise(cuts)]
    assert max(sizes) - min(sizes) <= 1
