"""Nothing is computed before it is needed, nothing twice, and nothing is kept that nobody can ask for."""

import weakref

import numpy as np
import pytest

import graphwright.arrays as ga
from graphwright.arrays.errors import (
    ArrayError,
    InvalidAxis,
    InvalidIndex,
    ShapeMismatch,
    UnsupportedDtype,
)


def counting():
    calls = []

    def function(x):
        calls.append(x.shape)
        return x + 1

    return function, calls


def test_a_function_runs_when_its_value_is_asked_for_and_once():
    function, calls = counting()
    x = ga.map(function, ga.arange(5), dtype=np.int64)
    y = x * 2
    assert not calls
    assert y.tolist() == [2, 4, 6, 8, 10]
    assert (x + y).tolist() == [3, 6, 9, 12, 15]
    assert calls == [(5,)]


def test_equal_expressions_are_one():
    x = ga.asarray(np.arange(100.0))
    assert (x.sum() + 1)._output == (x.sum() + 1)._output
    assert (x + 1)._output != (x + 2)._output


def test_a_value_goes_with_the_last_array_that_shows_it():
    x = ga.asarray(np.arange(100.0))
    y = x * 2
    expression = y._output.expression
    y.compute()
    z = x * 2
    del y
    assert expression.values
    del z
    assert not expression.values


def test_a_long_chain_does_not_exhaust_the_stack():
    x = ga.asarray(0.0)
    for _ in range(5000):
        x = x + 1
    assert float(x) == 5000


def test_views_share_memory():
    x = ga.from_array(np.arange(12.0).reshape(3, 4))
    shown = x.T[1:, ::2].compute()
    assert np.shares_memory(shown, x.compute())


def test_what_is_given_is_not_changed_behind_an_arrays_back():
    given, few = np.arange(100), np.arange(4)
    x, y, z = ga.asarray(given), ga.from_array(given), ga.from_array(few)
    given[0] = few[0] = 9
    assert int(x[0]) == 0
    assert int(y[0]) == 9  # without a copy, as it says
    assert z.tolist() == [0, 1, 2, 3]  # but arrays of a few numbers are what these are
    with pytest.raises(ValueError, match="read-only"):
        x.compute()[0] = 1


def test_numpy_functions_of_arrays_are_lazy():
    function, calls = counting()
    x = ga.map(function, ga.arange(6.0), dtype=np.float64)
    made = [
        np.add(x, 1),
        np.sum(x),
        np.mean(x, axis=0),
        np.concatenate([x, x]),
        np.linalg.norm(x),
        np.exp(x),
    ]
    assert all(isinstance(m, ga.Array) for m in made)
    assert not calls
    assert np.median(np.arange(6.0) + x).dtype == np.float64
    assert isinstance(np.arange(3) + ga.arange(3), ga.Array)


def test_what_is_still_to_be_read_is_kept_until_then():
    """A loop that asks for something of every step computes each step once."""
    calls = []

    def step(block):
        calls.append(block.shape)
        return block + 1

    x = ga.asarray(np.zeros(10))
    for _ in range(5):
        x = ga.map(step, x, dtype=np.float64)
        assert float(x.sum()) == 10 * len(calls)
    before = weakref.ref(x._output.expression)
    y = x * 2
    del x
    assert before().values  # y reads it
    y.compute()
    assert not before().values


def test_conversions():
    x = ga.asarray(2.5)
    assert (float(x), int(x), bool(x), complex(x), x.item()) == (2.5, 2, True, 2.5 + 0j, 2.5)
    assert [1, 2, 3][ga.asarray(1)] == 2
    assert f"{x:.2f}" == "2.50"
    assert repr(ga.arange(3)) == "Array([0, 1, 2], dtype=int64)"
    assert np.from_dlpack(ga.arange(3)).tolist() == [0, 1, 2]
    assert 2 in ga.arange(3) and 5 not in ga.arange(3)
    assert [int(n) for n in ga.arange(3)] == [0, 1, 2]
    assert ga.arange(3).__array_namespace__() is ga
    assert ga.arange(3).__array_namespace__(api_version="2024.12") is ga


@pytest.mark.parametrize(
    ("what", "error", "says"),
    [
        (lambda: ga.ones((2, 3)) + ga.ones((2, 4)), ShapeMismatch, r"\(2, 3\) and \(2, 4\) do not broadcast"),
        (lambda: ga.sum(ga.ones((2, 3)), axis=2), InvalidAxis, "axis 2 of an array of 2 dims"),
        (lambda: ga.ones((2, 3))[5], InvalidIndex, "index 5 is out of bounds for dim 0 of size 2"),
        (lambda: ga.ones((2, 3))[0, 0, 0], InvalidIndex, "3 indices for an array of 2 dims"),
        (lambda: ga.ones((2, 3))["a"], InvalidIndex, "'a' indexes nothing"),
        (lambda: ga.ones((2, 3)) @ ga.ones((2, 3)), ShapeMismatch, "the inner sizes differ"),
        (lambda: ga.reshape(ga.ones(6), (4, 2)), ShapeMismatch, "has 6 elements"),
        (lambda: ga.asarray(["text"]), UnsupportedDtype, "numbers and truth values"),
        (lambda: ga.concat([ga.ones((2, 3)), ga.ones((2, 4))]), ShapeMismatch, "differ in other dims"),
        (lambda: ga.squeeze(ga.ones((2, 3)), axis=0), ShapeMismatch, "not of size 1"),
        (lambda: ga.linalg.inv(ga.ones((2, 3))), ShapeMismatch, "square matrices"),
        (lambda: ga.max(ga.ones((0, 3)), axis=0), ShapeMismatch, "no greatest or least"),
        (lambda: ga.arange(3).__array_namespace__(api_version="1999.01"), ArrayError, "one of"),
    ],
)  # fmt: skip
def test_mistakes_are_told(what, error, says):
    with pytest.raises(error, match=says):
        what()


def test_a_function_that_cannot_be_tried_says_what_to_do():
    with pytest.raises(ArrayError, match="give dtype="):
        ga.map(lambda x: x.shape[9], ga.arange(3))
