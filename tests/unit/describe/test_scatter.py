"""Which scatters split over the rows they make, by a mask over their source."""

from calls import find_splits
from graphwright.describe import Concat, Mask
from graphwright.describe.language.syntax import Max, Sum, equal, where

SHAPES = [(6,), (6, 4)], [(10, 4)]


def collect(index, g):
    return lambda v, j: Sum(lambda p: where(equal(v, index[p]), g[p, j], 0))


def test_the_gradient_of_a_lookup_splits_over_the_rows_it_makes():
    split = find_splits(collect, *SHAPES)["v"]
    assert split.joins == (Concat(0),)
    assert split.symbolic.mask == Mask(index=0, dims=(0,), scattered=1)
    assert split.cut_dims == frozenset()


def test_the_mask_knows_which_dims_of_the_source_the_index_has():
    def along_last(index, g):
        return lambda i, v: Sum(lambda p: where(equal(v, index[p, i]), g[i, p], 0))

    split = find_splits(along_last, [(6, 3), (3, 6)], [(3, 10)])["v"]
    assert split.symbolic.mask == Mask(index=0, dims=(1, 0), scattered=1)


def test_what_is_added_to_is_cut_with_the_rows():
    def add(x, index, g):
        return lambda v, j: x[v, j] + 2 * Sum(lambda p: where(equal(v, index[p]), g[p, j], 0))

    split = find_splits(add, [(10, 4), (6,), (6, 4)], [(10, 4)])["v"]
    assert split.cut_dims == {(0, 0)}
    assert split.symbolic.mask.scattered == 2


def test_an_attribute_compared_with_the_row_moves_along():
    def padded(index, g, *, padding_idx):
        return lambda v, j: where(equal(v, padding_idx), 0, collect(index, g)(v, j))

    split = find_splits(padded, *SHAPES, {"padding_idx": 3})["v"]
    assert [part.attrs["padding_idx"] for part in split.parts(2)] == [3, -2]


def test_a_count_of_arrivals_would_count_masked_ones():
    def scaled(index, g):
        return lambda v, j: collect(index, g)(v, j) / Sum(lambda p: where(equal(v, index[p]), 1, 0))

    assert "v" not in find_splits(scaled, *SHAPES)


def test_a_zero_is_no_mask_where_it_is_not_neutral():
    def largest(index, g):
        return lambda v, j: Max(lambda p: where(equal(v, index[p]), g[p, j], -1))

    def squared(index, g):
        return lambda v, j: Sum(lambda p: where(equal(v, index[p]), g[p, j] + 1, 0))

    assert "v" not in find_splits(largest, *SHAPES)
    assert "v" not in find_splits(squared, *SHAPES)


def test_a_source_that_is_read_elsewhere_cannot_be_masked():
    def twice(index, g):
        return lambda v, j: collect(index, g)(v, j) + Sum(lambda q: g[q, j])

    assert "v" not in find_splits(twice, *SHAPES)


def test_an_index_that_is_read_elsewhere_cannot_be_moved():
    def twice(index, g):
        return lambda v, j: collect(index, g)(v, j) + Sum(lambda q: index[q])

    assert "v" not in find_splits(twice, *SHAPES)
