"""Which calls give the same when their two inputs change places."""

import pytest

from graphwright.describe import Types, is_commutative
from graphwright.ir import TensorType

X = TensorType((3, 4), "float32")


@pytest.mark.parametrize(
    ("op", "attrs", "same"),
    [
        ("aten.add.Tensor", {"alpha": 1}, True),
        ("aten.add.Tensor", {"alpha": 2}, False),
        ("aten.sub.Tensor", {"alpha": 1}, False),
        ("aten.mul.Tensor", {}, True),
        ("aten.div.Tensor", {}, False),
        ("aten.maximum", {}, True),
    ],
)
def test_the_description_tells(op, attrs, same):
    assert is_commutative(op, attrs, Types((X, X), (X,))) is same


def test_without_a_description_or_with_other_types_the_answer_is_no():
    row = TensorType((4,), "float32")
    assert not is_commutative("aten.add.Tensor", {"alpha": 1}, Types((X, row), (X,)))
    assert not is_commutative("mine.op", {}, Types((X, X), (X,)))
