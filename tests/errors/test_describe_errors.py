"""Bad descriptions and unknown operators say what is wrong and what to try."""

import pytest

from calls import find_splits
from graphwright.describe import require
from graphwright.describe.language.syntax import Sum, equal
from graphwright.errors import DescriptionError, NonAffineIndex, UnknownOperator


def test_an_unknown_operator_suggests_its_neighbours():
    with pytest.raises(UnknownOperator, match=r"did you mean .*aten\.convolution"):
        require("aten.convolutions")


def test_a_lambda_of_the_wrong_arity():
    with pytest.raises(DescriptionError, match="takes 1 indices where 2 are needed"):
        find_splits(lambda a: lambda i: a[i, i], [(4, 4)], [(4, 4)])


def test_a_tensor_indexed_with_too_few_indices():
    with pytest.raises(DescriptionError, match="a has 2 dims, indexed with 1"):
        find_splits(lambda a: lambda i: a[i], [(4, 4)], [(4,)])


def test_a_reduced_index_without_extent():
    with pytest.raises(DescriptionError, match="give its extent with over="):
        find_splits(lambda a: lambda i: Sum(lambda k: a[i + k]), [(4,)], [(3,)])


def test_wrong_number_of_outputs():
    with pytest.raises(DescriptionError, match="described with 1 outputs, but has 2"):
        find_splits(lambda a: lambda i: a[i], [(4,)], [(4,), (4,)])


def test_comparing_indices_with_python_equality():
    with pytest.raises(DescriptionError, match="compare indices with equal"):
        find_splits(lambda a: lambda i, j: a[i, j] * (i == j), [(4, 4)], [(4, 4)])


def test_indices_multiplied_with_each_other_are_refused_along_them_only():
    def squares(a):
        return lambda b, i: a[b, i * i]

    assert list(find_splits(squares, [(4, 9)], [(4, 3)])) == ["b"]


def test_non_affine_is_a_description_error():
    assert issubclass(NonAffineIndex, DescriptionError)


def test_equal_is_a_value():
    assert find_splits(lambda a: lambda i, j: a[i, j] * equal(i, j), [(4, 4)], [(4, 4)]) == {}
