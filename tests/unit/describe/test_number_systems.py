"""One description over numbers of several kinds, and many calls at once."""

from fractions import Fraction

import numpy as np

from graphwright.describe import NumberSystem, Types, evaluate_stacked, reference, require
from graphwright.ir import TensorType

MM = Types(
    (TensorType((2, 3), "float64"), TensorType((3, 2), "float64")),
    (TensorType((2, 2), "float64"),),
)


def test_many_calls_at_once_are_the_same_as_one_by_one():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(5, 2, 3)), rng.normal(size=(5, 3, 2))
    stacked = evaluate_stacked(require("aten.mm"), {}, [a, b], MM, NumberSystem())
    for n in range(5):
        np.testing.assert_array_equal(stacked[n], reference("aten.mm", {}, [a[n], b[n]], MM)[0])


def test_functions_and_reducers_may_mean_something_else():
    """Shortest paths of two edges: sums for products, the least for the sum."""
    tropical = NumberSystem(
        functions={"mul": np.add}, folds={"sum": lambda v, axis, keepdims: v.min(axis, keepdims=keepdims)}
    )  # fmt: skip
    a = np.array([[[1.0, 5.0, 9.0], [2.0, 0.0, 4.0]]])
    b = np.array([[[3.0, 1.0], [1.0, 7.0], [0.0, 2.0]]])
    made = evaluate_stacked(require("aten.mm"), {}, [a, b], MM, tropical)
    np.testing.assert_array_equal(made, [[[4, 2], [1, 3]]])


def test_numbers_may_be_objects():
    rows = np.array([[[Fraction(1, 3)] * 3] * 2], object)
    columns = np.array([[[Fraction(1, 2)] * 2] * 3], object)
    made = evaluate_stacked(require("aten.mm"), {}, [rows, columns], MM, NumberSystem())
    assert {*made.flat} == {Fraction(1, 2)}


def test_what_lies_outside_is_a_constant_of_the_arithmetic():
    types = Types((TensorType((2,), "float64"),), (TensorType((4,), "float64"),))
    attrs = {"pad": (1, 1), "value": 0.0}
    made = evaluate_stacked(
        require("aten.constant_pad_nd"), attrs, [np.array([[7, 8]])], types,
        NumberSystem(constant=lambda value: -1 if value == 0 else value),
    )  # fmt: skip
    assert made.tolist() == [[-1, 7, 8, -1]]
