"""The pattern of Spartan's figure 3.3, where the greedy search pays twice what it has to.

    C = A + B        D = transpose(A) + transpose(B)        E = C + D

The best tiling has D by columns and everything else by rows, and moves D. Maximum connectivity decides C and D before A
and B, both by rows at no cost; then A and B have to be there by rows and by columns.
"""

import pytest

from graphwright.ir import GraphBuilder, TensorType
from graphwright.partition.tiling import plan_tilings

SIZE = 4096
ARRAY = 4 * SIZE * SIZE


@pytest.fixture(scope="module")
def graph():
    made, type = GraphBuilder(), TensorType((SIZE, SIZE), "float32")
    a, b = (made.add_input(name, type) for name in "AB")
    turned = [made.add("aten.permute", [x], {"dims": (1, 0)}, type)[0] for x in (a, b)]
    (c,) = made.add("aten.add.Tensor", [a, b], {"alpha": 1}, type, names="C")
    (d,) = made.add("aten.add.Tensor", turned, {"alpha": 1}, type, names="D")
    (e,) = made.add("aten.add.Tensor", [c, d], {"alpha": 1}, type, names="E")
    return made.build([e])


def test_the_greedy_search_moves_two_arrays(graph):
    plan = plan_tilings(graph, 2, algorithm="greedy")
    assert plan.nbytes == 2 * ARRAY // 2
    assert [str(plan.shardings[name]) for name in "CDE"] == ["[S0]", "[S0]", "[S0]"]
    assert not plan.exact


def test_the_exact_search_moves_one(graph):
    plan = plan_tilings(graph, 2)
    assert plan.nbytes == ARRAY // 2
    assert plan.exact
    assert plan.shardings["A"] == plan.shardings["B"] == plan.shardings["C"]
    assert plan.shardings["D"] != plan.shardings["C"]


def test_blocks_move_less_than_rows_and_columns(graph):
    """On four workers a block and its transpose share half of their elements on the diagonal; a row and a column a quarter."""
    plan = plan_tilings(graph, 4)
    assert plan.nbytes == ARRAY // 2
    assert str(plan.shardings["A"]) in ("[S0 S1]", "[S1 S0]")
    assert plan_tilings(graph, 4, algorithm="greedy").nbytes == 2 * 3 * ARRAY // 4
