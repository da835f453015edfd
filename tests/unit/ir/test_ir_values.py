"""Types, attributes, nodes and graphs as values: equal by content, fixed once made, readable."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from graphwright.errors import InvalidGraph
from graphwright.ir import Attrs, FrozenDict, Graph, Node, Phase, Role, Tensor, TensorType

NAN = float("nan")


@pytest.mark.parametrize(
    ("shape", "dtype", "numel", "nbytes", "spelled"),
    [
        ((64, 3, 224, 224), "float32", 9633792, 38535168, "float32[64, 3, 224, 224]"),
        ((), "int64", 1, 8, "int64[]"),
        ((0, 7), "bfloat16", 0, 0, "bfloat16[0, 7]"),
        ((3,), "complex128", 3, 48, "complex128[3]"),
        ((5,), "float8_e4m3fn", 5, 5, "float8_e4m3fn[5]"),
    ],
)
def test_tensor_type(shape: tuple[int, ...], dtype: str, numel: int, nbytes: int, spelled: str):
    kind = TensorType(shape, dtype)
    assert (kind.rank, kind.numel, kind.nbytes) == (len(shape), numel, nbytes)
    assert repr(kind) == spelled
    assert kind == TensorType(list(shape), dtype)
    assert hash(kind) == hash(TensorType(shape, dtype))


def test_values_cannot_be_changed(training_step: Graph):
    node = training_step.nodes[0]
    with pytest.raises(FrozenInstanceError):
        node.op = "aten.add"
    with pytest.raises(FrozenInstanceError):
        training_step.outputs = ()
    with pytest.raises(FrozenInstanceError):
        training_step.tensors["loss"].role = Role.INPUT
    for mapping in (node.attrs, training_step.tensors, training_step.updates):
        with pytest.raises(TypeError):
            mapping["new"] = 1
        with pytest.raises(TypeError):
            del mapping["loss"]
        with pytest.raises(AttributeError, match="immutable"):
            mapping._data = {}
        with pytest.raises(AttributeError, match="immutable"):
            del mapping._data


def test_a_graph_does_not_follow_the_containers_it_was_made_from():
    tensors = {"x": Tensor("x", TensorType((2,), "float32"), Role.INPUT)}
    attrs: dict[str, int] = {"dim": 1}
    graph = Graph((), tensors, ("x",), ("x",))
    node = Node("aten.relu", ("x",), attrs, ("y",))
    tensors.clear()
    attrs["dim"] = 2
    assert list(graph.tensors) == ["x"]
    assert node.attrs["dim"] == 1


def test_attributes_are_sorted_and_compared_by_kind():
    attrs = Attrs({"b": 1, "a": (NAN, -0.0)})
    assert list(attrs) == ["a", "b"]
    assert attrs == Attrs({"a": (float("nan"), -0.0), "b": 1})
    assert attrs == {"b": 1, "a": (NAN, -0.0)}
    assert repr(attrs) == "Attrs(a=(nan, -0.0), b=1)"
    for other in ({"a": (NAN, 0.0), "b": 1}, {"a": (NAN, -0.0), "b": True}, {"b": 1}, {"b": []}):
        assert attrs != other
    assert Attrs({"b": 1}) != Attrs({"b": 1.0})
    assert Attrs() != 3
    assert attrs.get("b") == 1
    assert attrs.get("c", 5) == 5


def test_frozen_dict_is_a_hashable_mapping():
    mapping = FrozenDict({"a": 1, "b": 2})
    assert mapping == {"b": 2, "a": 1} == mapping
    assert hash(mapping) == hash(FrozenDict({"b": 2, "a": 1}))
    assert list(mapping.items()) == [("a", 1), ("b", 2)]
    assert list(mapping.values()) == [1, 2]
    assert "a" in mapping
    assert mapping != [("a", 1)]
    assert repr(mapping) == "FrozenDict({'a': 1, 'b': 2})"


def test_reprs_read_like_the_text_form(training_step: Graph):
    assert repr(training_step) == (
        "Graph(7 nodes: 2 forward, 3 backward, 2 update; 3 inputs, 3 outputs, 2 updates)"
    )
    assert repr(training_step.node("loss")) == (
        "%loss = aten.sum.dim_IntList(%mm; dim=(0, 1), dtype=None, keepdim=False)"
    )
    assert repr(training_step.node("fc.weight.grad")) == (
        "%fc.weight.grad = aten.mm(%t, %expand) @fc layer=0 partner=%mm"
    )
    assert repr(training_step.tensors["fc.weight.grad"]) == (
        "%fc.weight.grad: float32[5, 3] gradient of %fc.weight"
    )
    assert repr(Graph((), {}, (), ())) == "Graph(0 nodes; 0 inputs, 0 outputs, 0 updates)"


def test_roles_and_phases_may_be_given_by_name():
    assert Tensor("x", TensorType((), "bool"), "buffer").role is Role.BUFFER
    assert Node("aten.neg", ["x"], {}, ["y"], phase="update").phase is Phase.UPDATE


def test_lookups(training_step: Graph):
    assert training_step.producer("inputs.0") is None
    assert training_step.producer("mm") is training_step.nodes[0]
    assert [node.name for node in training_step.consumers("mm")] == ["loss"]
    assert [node.name for node in training_step.consumers("inputs.0")] == ["mm", "t"]
    assert training_step.consumers("fc.weight.new") == ()
    assert len(training_step) == 7
    twice = Node("aten.mul.Tensor", ("x", "x"), {}, ("y",))
    kind = TensorType((2,), "float32")
    tensors = {"x": Tensor("x", kind, Role.INPUT), "y": Tensor("y", kind)}
    assert Graph((twice,), tensors, ("x",), ("y",)).consumers("x") == (twice,)


def test_lookups_of_unknown_names_say_so(training_step: Graph):
    with pytest.raises(InvalidGraph, match="no tensor %nowhere"):
        training_step.producer("nowhere")
    with pytest.raises(InvalidGraph, match="no tensor %nowhere"):
        training_step.consumers("nowhere")
    with pytest.raises(InvalidGraph, match="it is an input"):
        training_step.node("inputs.0")
    with pytest.raises(InvalidGraph, match="no node %nowhere"):
        training_step.node("nowhere")


def test_equality_is_of_every_part(training_step: Graph):
    same = replace(training_step)
    assert same == training_step
    assert hash(same) == hash(training_step)
    node = replace(training_step.nodes[0], module="elsewhere")
    moved = replace(training_step, nodes=(node, *training_step.nodes[1:]))
    assert moved != training_step
    assert moved.hash == training_step.hash
