"""Every description is true: its reference equals the kernel, and so does every split that is derived from it.

No operator is left out: a description without a case fails `test_every_description_has_a_case`.
"""

import pytest
from cases import complete, load_cases
from hypothesis import given
from hypothesis import strategies as st

from graphwright.describe import descriptions, find
from graphwright.run import check_operator

CASES = load_cases()
OPERATORS = sorted(
    d.op for d in descriptions() if not d.op.startswith("array.")
)  # those: test_array_tilings


def test_every_description_has_a_case():
    assert not set(OPERATORS) - set(CASES)


@pytest.mark.parametrize("op", OPERATORS)
@given(data=st.data())
def test_description_is_true(op, data):
    attrs, inputs = CASES[op](data.draw)
    check_operator(op, complete(op, attrs), inputs)


def test_cases_are_for_described_operators():
    assert all(find(op) for op in CASES)
