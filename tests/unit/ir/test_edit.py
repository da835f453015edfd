"""Rewriting a graph node by node: what is kept, what goes, and what points to what is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphwright.errors import InvalidGraph
from graphwright.ir import UNMERGED, Edit, Graph, GraphBuilder, Phase, Role, TensorType, parse_text
from graphwright.ir.build import is_made_name

STEP = """
graph 1

parameter:
  %w: float32[5, 3]

input:
  %x: float32[8, 5]

forward:
  %clone: float32[8, 5] = aten.clone(%x) @a layer=0 step=1
  %mm: float32[8, 3] = aten.mm(%clone, %w) @b layer=1 step=2
  %view: float32[8, 3] = aten.view(%mm; size=(8, 3)) @c layer=2
  %loss: float32[] = aten.sum.dim_IntList(%view; dim=(0, 1), dtype=None, keepdim=False)

backward:
  %full: float32[8, 3] gradient of %view = aten.full(; fill_value=1.0) @c layer=2 partner=%view
  %permute: float32[5, 8] = aten.permute(%clone; dims=(1, 0)) @a layer=0 step=1 partner=%clone
  %w.grad: float32[5, 3] gradient of %w = aten.mm(%permute, %full) @b layer=1 step=2 partner=%mm

outputs:
  %loss
  %w.grad
end
"""


def step() -> Graph:
    return parse_text(STEP.lstrip())


def without(graph: Graph, *names: str) -> Graph:
    """The graph with these nodes' inputs in the place of their results."""
    edit = Edit(graph)
    for node in graph.nodes:
        if node.name in names:
            assert node.inputs[0] is not None
            edit.replace(node.name, node.inputs[0])
        else:
            edit.keep(node)
    return edit.build()


@pytest.mark.parametrize("renumber", [False, True])
def test_keeping_everything_gives_the_same_graph(renumber):
    graph = step()
    edit = Edit(graph)
    for node in graph.nodes:
        edit.keep(node)
    same = edit.build(renumber=renumber)
    assert same == graph
    assert (same.hash, same.program_hash) == (graph.hash, graph.program_hash)


def test_readers_read_what_replaces_a_tensor():
    graph = without(step(), "view")
    assert graph.node("loss").inputs == ("mm",)
    assert "view" not in graph.tensors


def test_a_gradient_is_that_of_what_replaces_its_tensor():
    assert without(step(), "view").tensors["full"].of == "mm"


def test_a_gradient_of_what_is_gone_is_an_activation():
    graph = step()
    edit = Edit(graph)
    for node in graph.nodes:
        if node.name == "view":
            flat = edit.add(
                "aten.view", ["mm"], {"size": (24,)}, TensorType((24,), "float32"), beside=node
            )
            edit.replace("view", flat)
        elif node.name == "loss":
            edit.keep(node, attrs={**node.attrs, "dim": (0,)})
        else:
            edit.keep(node)
    made = edit.build().tensors["full"]
    assert (made.role, made.of) == (Role.ACTIVATION, None)


def test_a_partner_is_the_node_that_does_its_work():
    graph = without(step(), "view")
    full = graph.node("full")
    assert (full.partner, full.module, full.layer, full.step) == ("mm", "b", 1, 2)


def test_a_partner_without_successor_is_the_nearest_forward_node_before_it():
    permute = without(step(), "clone").node("permute")
    assert permute.inputs == ("x",)
    assert (permute.partner, permute.module) == ("mm", "b")  # the first one: none is before it


def test_what_stands_beside_a_node_has_its_provenance():
    graph = step()
    edit = Edit(graph)
    for node in graph.nodes:
        edit.keep(node)
        if node.name == "mm":
            relu = edit.add("aten.relu", ["mm"], {}, edit.type("mm"), beside=node)
            edit.replace("view", relu)
    # the view is kept all the same, and its readers read the new node
    made = edit.build()
    node = made.node("relu")
    assert (node.module, node.layer, node.step, node.phase) == ("b", 1, 2, Phase.FORWARD)
    assert made.node("loss").inputs == ("relu",)


def test_dead_nodes_go_and_unread_ones_stay():
    build = GraphBuilder()
    type = TensorType((4,), "float32")
    x = build.add_input("x", type)
    (a,) = build.add("aten.neg", [x], {}, type, names="a")
    (b,) = build.add("aten.exp", [a], {}, type, names="b")
    build.add("aten.sin", [x], {}, type, names="unread")
    graph = build.build([b])
    edit = Edit(graph)
    edit.keep(graph.nodes[0])
    edit.keep(graph.nodes[1], inputs=("x",))
    edit.keep(graph.nodes[2])
    assert [node.name for node in edit.build().nodes] == ["b", "unread"]


def test_outputs_keep_their_names():
    graph = without(step(), "view", "clone")
    assert graph.outputs == ("loss", "w.grad")
    build = GraphBuilder()
    type = TensorType((4,), "float32")
    x = build.add_input("x", type)
    (neg,) = build.add("aten.neg", [x], {}, type)
    (y,) = build.add("aten.clone", [neg], {}, type, names="y")
    (z,) = build.add("aten.clone", [neg], {}, type, names="z")
    (v,) = build.add("aten.clone", [x], {}, type, names="v")
    made = without(build.build([y, z, v]), "y", "z", "v")
    assert made.outputs == ("y", "z", "v")
    assert [(node.op, node.inputs) for node in made.nodes] == [
        ("aten.neg", ("x",)),
        ("aten.clone", ("y",)),
        ("aten.clone", ("x",)),
    ]


def test_an_inner_tensor_with_a_name_of_its_own_gives_it_to_its_successor():
    text = STEP.replace("outputs:\n  %loss\n  %w.grad", "outputs:\n  %loss\n  %scaled")
    text = text.replace(
        "\noutputs:",
        "  %scaled: float32[5, 3] = aten.mul.Scalar(%w.grad; other=2) partner=%mm\n\noutputs:",
    )
    graph = parse_text(text.lstrip())
    edit = Edit(graph)
    for node in graph.nodes:
        if node.name == "w.grad":
            new = edit.add(
                "aten.matmul", node.inputs, {}, edit.graph.tensors["w.grad"].type, beside=node
            )
            edit.replace("w.grad", new)
        else:
            edit.keep(node)
    made = edit.build()
    assert made.producer("w.grad").op == "aten.matmul"
    assert made.tensors["w.grad"].of == "w"


def test_the_updates_of_a_step_keep_their_names():
    build = GraphBuilder()
    type = TensorType((4,), "float32")
    w = build.add_input("w", type, Role.PARAMETER)
    (neg,) = build.add("aten.neg", [w], {}, type, phase=Phase.UPDATE, parameter="w")
    (new,) = build.add(
        "aten.clone", [neg], {}, type, names="w.new",
        phase=Phase.UPDATE, role=Role.PARAMETER, of="w", parameter="w",
    )  # fmt: skip
    made = without(build.build([new], {"w": new}), "w.new")
    assert made.updates == {"w": "w.new"}
    assert (made.tensors["w.new"].role, made.producer("w.new").op) == (Role.PARAMETER, "aten.neg")


def test_numbering_anew_closes_gaps_and_follows_operators():
    graph = step()
    edit = Edit(graph)
    for node in graph.nodes:
        if node.name == "mm":
            edit.keep(node, op="aten.matmul")
        else:
            edit.keep(node)
    made = edit.build(renumber=True)
    assert [node.name for node in made.nodes][:4] == ["clone", "matmul", "view", "loss"]
    assert made.node("w.grad").partner == "matmul"


def test_a_pass_that_forgets_a_node_is_told_so():
    graph = step()
    edit = Edit(graph)
    with pytest.raises(InvalidGraph, match="%mm reads %clone, which was neither kept nor replaced"):
        edit.keep(graph.nodes[1])
    with pytest.raises(InvalidGraph, match="the graph returns %loss, which was neither"):
        edit.build()


def test_the_record_of_passes_stays():
    graph = step()
    assert graph.passes == ()
    assert without(replace(graph, passes=UNMERGED), "view").passes == UNMERGED


@pytest.mark.parametrize(
    ("name", "op", "is_made"),
    [
        ("mm", "aten.mm", True),
        ("mm_12", "aten.mm", True),
        ("mm_a", "aten.mm", False),
        ("softmax", "aten._softmax", True),
        ("sort:1", "aten.sort", True),
        ("sort_2:1", "aten.sort", True),
        ("sort:1_2", "aten.sort", True),
        ("w.grad", "aten.mm", False),
        ("mm", "aten.add.Tensor", False),
    ],
)
def test_names_that_say_no_more_than_the_operator(name, op, is_made):
    assert is_made_name(name, op) is is_made
