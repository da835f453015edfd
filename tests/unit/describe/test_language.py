"""The language itself: reducers of one's own, guards, broadcasting, scans, positions, opaque functions, randomness."""

import numpy as np
import pytest
import torch

from calls import find_refusals, find_splits, types
from graphwright.describe import (
    Combine,
    define_reducer,
    find,
    make_description,
    reference_of,
    splits_of,
    trace,
)
from graphwright.describe.language.scalar import REDUCERS
from graphwright.describe.language.syntax import (
    ArgMax,
    Opaque,
    Sum,
    fixed,
    instead,
    random,
    reducer,
    where,
)
from graphwright.run import check_operator


def test_a_reducer_of_ones_own_combines_partial_results():
    def fold(values, axis, keepdims):
        return np.logaddexp.reduce(values, axis=axis[0], keepdims=keepdims)

    define_reducer("logaddexp", fold, np.logaddexp)
    try:
        description = make_description(
            "aten.logsumexp", lambda x: lambda i: reducer("logaddexp")(lambda k: x[i, k])
        )
        x = torch.randn(5, 7, dtype=torch.float64)
        found = check_operator(
            "aten.logsumexp", {"dim": (1,), "keepdim": False}, [x], description=description
        )
        assert {s.index: s.joins[0] for s in found}["k"] == Combine("logaddexp")
    finally:
        del REDUCERS["logaddexp"]


def test_a_decision_in_python_is_kept_as_a_guard():
    def maybe(x, *, scale):
        factor = 2 if scale == 3 else 1
        return lambda i: x[i] * factor

    description = make_description("test.maybe", maybe)
    traces = [trace(description, {"scale": s}, types([(4,)], [(4,)])) for s in (3, 4, 5)]
    assert traces[0] is not traces[1]
    assert traces[1] is traces[2]
    assert "scale - 3" in repr(traces[0].guards)


def test_sizes_in_arithmetic_need_no_guard():
    description = make_description("test.flip", lambda x: lambda i: x[x.shape[0] - 1 - i])
    assert trace(description, {}, types([(4,)], [(4,)])) is trace(
        description, {}, types([(9,)], [(9,)])
    )


def test_broadcasting_reads_dims_of_size_one_at_zero():
    description = make_description("test.add", lambda a, b: lambda *i: a[i] + b[i])
    a, b = np.arange(12.0).reshape(3, 4), np.arange(3.0).reshape(3, 1)
    (found,) = reference_of(description, {}, [a, b], types([(3, 4), (3, 1)], [(3, 4)]))
    np.testing.assert_array_equal(found, a + b)
    cut = {
        s.index: s.cut_dims for s in splits_of(description, {}, types([(3, 4), (3, 1)], [(3, 4)]))
    }
    assert cut == {"i0": {(0, 0), (1, 0)}, "i1": {(0, 1)}}


def scan(x):
    return lambda b, i: Sum(lambda k: where(k <= i, x[b, k], 0))


def test_a_cumulative_scan_splits_over_the_other_dims():
    description = make_description("test.scan", scan)
    x = np.random.default_rng(0).random((3, 5))
    (found,) = reference_of(description, {}, [x], types([(3, 5)], [(3, 5)]))
    np.testing.assert_allclose(found, np.cumsum(x, axis=1))
    assert list(find_splits(scan, [(3, 5)], [(3, 5)])) == ["b"]


def test_a_position_is_not_split_along_what_it_counts():
    def position(x):
        return lambda b: ArgMax(lambda k: x[b, k])

    assert list(find_splits(position, [(3, 5)], [(3,)])) == ["b"]
    assert "needs the complete result" in find_refusals(position, [(3, 5)], [(3,)])["k"]


def test_an_opaque_function_is_evaluated_slice_by_slice():
    description = make_description(
        "test.sort", lambda x: lambda b, i: Opaque("sort", np.sort)(x[b, :])[i]
    )
    x = np.random.default_rng(0).random((3, 5))
    (found,) = reference_of(description, {}, [x], types([(3, 5)], [(3, 5)]))
    np.testing.assert_array_equal(found, np.sort(x, axis=1))


def test_random_values_split_like_a_function_of_the_position():
    def noise(x):
        return lambda *i: x[i] * random("uniform")

    assert find_splits(noise, [(4, 5)], [(4, 5)]).keys() == {"i0", "i1"}


def test_a_reduced_index_sees_one_random_number():
    def noise(x):
        return lambda i: Sum(lambda k: x[i, k] * random("uniform"))

    assert find_splits(noise, [(4, 5)], [(4,)]).keys() == {"i", "k"}


def test_what_does_not_read_a_tensor_does_not_cut_it():
    def refilled(x):
        return lambda *i: random("number")

    assert find_splits(refilled, [(4, 5)], [(4, 5)]) == {}  # its kernel would fill all of x
    assert find_splits(
        lambda x: lambda *i: instead(random("number"), x[i]), [(4, 5)], [(4, 5)]
    ).keys() == {"i0", "i1"}


def test_random_numbers_that_depend_on_each_other_are_not_split():
    def permutation(x):
        return lambda b, i: Opaque("permutation")(x[b, :], random("order"))[i]

    assert find_splits(permutation, [(4, 5)], [(4, 5)]).keys() == {"b"}


def test_a_fixed_quantity_is_named_once():
    def grouped(x, *, groups):
        a, b = fixed(x.shape[0] // groups), fixed(x.shape[0] // groups)
        assert repr(a) == repr(b)
        return lambda i: x[i // a * b]

    assert find_splits(grouped, [(6,)], [(6,)], {"groups": 2}) is not None


def test_sources_are_kept_for_showing():
    description = find("aten.mm")
    assert description is not None
    assert "Sum(lambda k: a[i, k] * b[k, j])" in description.source


@pytest.mark.parametrize("name", ["aten.mm", "aten.convolution", "aten.view"])
def test_descriptions_are_found_by_name(name):
    assert find(name) is not None
