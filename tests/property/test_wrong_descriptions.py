"""Descriptions that are wrong on purpose: the check that guards the library has to catch each one.

The first is wrong in its values. The other two have right values, so only running their splits can tell.
"""

import pytest
import torch

from graphwright.describe import make_description
from graphwright.describe.language.syntax import Sum
from graphwright.errors import WrongDescription
from graphwright.run import check_operator


def real(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_a_wrong_index_is_caught_by_its_values():
    def mm_with_b_transposed(a, b):
        return lambda i, j: Sum(lambda k: a[i, k] * b[j, k])

    with pytest.raises(WrongDescription, match="output 0 by its description differs"):
        check_operator(
            "aten.mm", {}, [real(4, 4), real(4, 4)],
            description=make_description("aten.mm", mm_with_b_transposed),
        )  # fmt: skip


def test_a_mean_without_its_size_is_caught_by_its_split():
    def mean_of_twelve(x):
        return lambda: Sum(lambda i, j: x[i, j] / 12)

    with pytest.raises(WrongDescription, match="from parts along i cut at"):
        check_operator(
            "aten.mean", {"dtype": None}, [real(3, 4)],
            description=make_description("aten.mean", mean_of_twelve),
        )  # fmt: skip


def test_a_part_that_the_kernel_refuses_is_caught():
    def expand_without_its_size(x):
        return lambda i, j: x[i, 0]

    with pytest.raises(WrongDescription, match="the kernel refuses a part along"):
        check_operator(
            "aten.expand", {"size": (4, 3), "implicit": False}, [real(4, 1)],
            description=make_description("aten.expand", expand_without_its_size),
        )  # fmt: skip
