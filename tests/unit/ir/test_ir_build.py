"""GraphBuilder: names, several outputs, constants, and refusals at the call that is wrong."""

from __future__ import annotations

import pytest

from graphwright.errors import InvalidGraph
from graphwright.ir import CONSTANT_OP, GraphBuilder, Role, TensorType, parse_text, to_text

T = TensorType((4,), "float32")


def test_names_come_from_operators_and_are_unique():
    build = GraphBuilder()
    x = build.add_input("x", T)
    names = [build.add("aten.add.Tensor", [x, x], {}, T)[0] for _ in range(3)]
    assert names == ["add", "add_1", "add_2"]
    assert build.add("aten._softmax", [x], {}, T) == ("softmax",)
    assert build.add("relu", [x], {}, T) == ("relu",)
    assert build.add("aten.neg", [x], {}, T, names="x") == ("x_1",)
    assert build.add("aten.neg", [x], {}, T, names="add_3") == ("add_3",)
    assert build.add("aten.add.Tensor", [x, x], {}, T) == ("add_4",)


def test_many_nodes_of_one_name_stay_linear():
    build = GraphBuilder()
    (x,) = build.add("aten.rand", [], {}, T, names="x")
    for _ in range(20_000):  # a search from 1 for each would take minutes
        (x,) = build.add("aten.neg", [x], {}, T)
    assert x == "neg_19999"


def test_several_outputs():
    build = GraphBuilder()
    x = build.add_input("x", T)
    assert build.add("aten.topk", [x], {"k": 1}, [T, T]) == ("topk", "topk:1")
    assert build.add("aten.topk", [x], {"k": 1}, [T, T]) == ("topk_1", "topk_1:1")
    named = build.add("aten.topk", [x], {"k": 1}, [T, T], names=["values", "values"])
    assert named == ("values", "values_1")
    made = build.add(
        "aten.both", [x], {}, [T, T], role=[Role.GRADIENT, Role.ACTIVATION], of=[x, None]
    )
    assert [build.tensor(name).role for name in made] == [Role.GRADIENT, Role.ACTIVATION]
    assert build.tensor(made[0]).of == x
    graph = build.build(made)
    assert graph.producer("topk:1") is graph.node("topk")
    with pytest.raises(InvalidGraph, match="another output of %topk"):
        graph.node("topk:1")
    assert parse_text(to_text(graph)) == graph


def test_constants_hold_their_elements():
    build = GraphBuilder()
    two, value = TensorType((2,), "float32"), {"value": (1.0, float("inf"))}
    (name,) = build.add(CONSTANT_OP, (), value, two, role=Role.CONSTANT, module="mask")
    graph = build.build([name])
    node = graph.node(name)
    assert (node.op, node.inputs, node.attrs["value"]) == (CONSTANT_OP, (), (1.0, float("inf")))
    assert graph.tensors[name].role is Role.CONSTANT
    assert parse_text(to_text(graph)) == graph


def test_what_is_wrong_is_refused_where_it_is_added():
    build = GraphBuilder()
    x = build.add_input("x", T)
    with pytest.raises(InvalidGraph, match="%x is defined already"):
        build.add_input("x", T)
    with pytest.raises(InvalidGraph, match=r"aten\.neg reads %y"):
        build.add("aten.neg", ["y"], {}, T)
    with pytest.raises(InvalidGraph, match="2 outputs but 1 roles"):
        build.add("aten.topk", [x], {}, [T, T], role=[Role.ACTIVATION])
    with pytest.raises(InvalidGraph, match="no tensor %y"):
        build.type("y")
    with pytest.raises(InvalidGraph, match="no outputs"):
        build.add("aten.nothing", [x], {}, [])
    with pytest.raises(InvalidGraph, match="attribute dim"):
        build.add("aten.sum", [x], {"dim": [0]}, T)
    assert build.type(x) == T
    assert repr(build) == "GraphBuilder(1 inputs, 0 nodes so far)"


def test_a_builder_goes_on_after_building():
    build = GraphBuilder()
    x = build.add_input("x", T)
    first = build.build([x])
    (y,) = build.add("aten.neg", [x], {}, T)
    second = build.build([y])
    assert (len(first), len(second)) == (0, 1)
    assert list(first.tensors) == ["x"]
