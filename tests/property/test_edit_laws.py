"""Laws of editing: whatever a pass does to nodes, the graph it builds is valid and keeps its
interface.
"""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.ir import Edit, Graph, Phase, Role, verify
from strategies import graphs

few = settings(deadline=None, max_examples=60)


def edited(graph: Graph, rng: Random, renumber: bool) -> Graph:
    """The graph with some nodes replaced, some written otherwise and some new ones between them."""
    edit = Edit(graph)
    for node in graph.nodes:
        alike = [
            [name for name in edit.tensors if edit.type(name) == graph.tensors[old].type]
            for old in node.outputs
        ]
        kind = rng.choice(["keep", "keep", "replace", "attrs", "op", "after", "copy"])
        if kind == "replace" and all(alike):
            for old, names in zip(node.outputs, alike, strict=True):
                edit.replace(old, rng.choice(names))
        elif kind == "copy" and all(alike):
            for old, names in zip(node.outputs, alike, strict=True):
                type = graph.tensors[old].type
                new = edit.add("aten.clone", [rng.choice(names)], {}, type, beside=node)
                edit.replace(old, new)
        elif kind == "attrs":
            edit.keep(node, attrs={"dim": (rng.randrange(9),)})
        elif kind == "op":
            edit.keep(node, op="aten.other", inputs=node.inputs[::-1])
        else:
            edit.keep(node)
            if kind == "after":
                old = rng.choice(node.outputs)
                new = edit.add("aten.relu", [old], {}, edit.type(old), beside=node)
                if rng.random() < 0.5:
                    edit.move(node.name, new)
    return edit.build(renumber=renumber)


@few
@given(graphs(), st.booleans())
def test_an_edit_that_keeps_everything_gives_an_equal_graph(graph: Graph, renumber: bool) -> None:
    edit = Edit(graph)
    for node in graph.nodes:
        edit.keep(node)
    same = edit.build(renumber=renumber)
    assert (same.hash, same.program_hash) == (graph.hash, graph.program_hash)
    if not renumber:
        assert same == graph


@few
@given(graphs(), st.integers(0, 2**20), st.booleans())
def test_random_edits_keep_the_interface(graph: Graph, seed: int, renumber: bool) -> None:
    made = edited(graph, Random(seed), renumber)
    verify(made)
    assert made.inputs == graph.inputs
    assert [made.tensors[n] for n in made.inputs] == [graph.tensors[n] for n in graph.inputs]
    assert made.updates.keys() == graph.updates.keys()
    assert len(made.outputs) == len(graph.outputs)
    for node in made.nodes:  # a backward node stands where its partner does
        if node.partner is not None and node.name not in graph.tensors:
            assert made.node(node.partner).phase is Phase.FORWARD
    for tensor in made.tensors.values():
        assert (
            tensor.of is not None
            or tensor.role not in (Role.PARAMETER, Role.BUFFER)
            or (tensor.name in made.inputs)
        )


@few
@given(graphs(), st.integers(0, 2**20))
def test_outputs_keep_their_names_whatever_makes_them(graph: Graph, seed: int) -> None:
    assert edited(graph, Random(seed), renumber=False).outputs == graph.outputs
    assert edited(graph, Random(seed), renumber=True).outputs == graph.outputs
