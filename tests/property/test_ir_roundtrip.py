"""Laws of the graph: both written forms give it back; its hash sees content and nothing else."""

from __future__ import annotations

import copy
import json
import pickle
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from graphwright.errors import GraphwrightError
from graphwright.ir import (
    Attrs,
    FrozenDict,
    Graph,
    Node,
    Role,
    Tensor,
    from_json,
    load,
    parse_text,
    save,
    summarize,
    to_json,
    to_text,
    verify,
)
from strategies import OPS, attr_values, attributes, graphs, tensor_types

ir = settings(deadline=None, max_examples=100)


@ir
@given(graphs())
def test_text_round_trip(graph: Graph) -> None:
    text = to_text(graph)
    again = parse_text(text)
    assert again == graph
    assert again.hash == graph.hash
    assert again.program_hash == graph.program_hash
    assert to_text(again) == text


@ir
@given(graphs())
def test_json_round_trip(graph: Graph) -> None:
    text = to_json(graph)
    again = from_json(text)
    assert again == graph
    assert again.hash == graph.hash
    assert to_json(again) == text
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


@settings(ir, max_examples=15)
@given(graphs(), st.sampled_from([".json", ".json.gz"]))
def test_file_round_trip(
    tmp_path_factory: pytest.TempPathFactory, graph: Graph, suffix: str
) -> None:
    path = tmp_path_factory.mktemp("graphs") / f"graph{suffix}"
    save(graph, path)
    assert load(path) == graph
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@settings(ir, max_examples=30)
@given(graphs())
def test_copies_are_equal(graph: Graph) -> None:
    assert pickle.loads(pickle.dumps(graph)) == graph
    assert copy.deepcopy(graph) == graph
    assert hash(copy.deepcopy(graph)) == hash(graph)


@ir
@given(attributes)
def test_attributes_equal_themselves_whatever_they_hold(attrs: dict[str, object]) -> None:
    assert Attrs(attrs) == Attrs(dict(reversed(attrs.items())))
    assert hash(Attrs(attrs)) == hash(Attrs(dict(attrs)))


@ir
@given(attr_values, attr_values)
def test_attributes_have_one_spelling_for_one_value(left: object, right: object) -> None:
    same = _identical(left, right)
    assert (Attrs({"a": left}) == Attrs({"a": right})) is same


def _identical(left: object, right: object) -> bool:
    """Sameness of attribute values said another way than by their spelling."""
    if type(left) is not type(right):
        return False
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(_identical, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return left.hex() == right.hex()
    return left == right


@ir
@given(graphs())
def test_hash_ignores_names_of_intermediates_and_provenance(graph: Graph) -> None:
    inputs = set(graph.inputs)
    new = {name: name if name in inputs else f"renamed {i}" for i, name in enumerate(graph.tensors)}
    assume(not any(name.startswith("renamed ") for name in inputs))

    def rename(name: str | None) -> str | None:
        return None if name is None else new[name]

    other = Graph(
        tuple(
            replace(
                node,
                inputs=tuple(map(rename, node.inputs)),
                outputs=tuple(map(new.__getitem__, node.outputs)),
                partner=rename(node.partner),
                module="elsewhere",
                layer=7,
                step=None,
            )
            for node in graph.nodes
        ),
        {
            new[name]: replace(tensor, name=new[name], of=rename(tensor.of))
            for name, tensor in graph.tensors.items()
        },
        graph.inputs,
        tuple(map(new.__getitem__, graph.outputs)),
        {old: new[name] for old, name in graph.updates.items()},
    )
    verify(other)
    assert other.hash == graph.hash
    assert other.program_hash == graph.program_hash


@ir
@given(st.data(), graphs())
def test_hash_sees_every_change_of_a_node(data: st.DataObject, graph: Graph) -> None:
    assume(graph.nodes)
    place = data.draw(st.integers(0, len(graph.nodes) - 1))
    node = graph.nodes[place]
    before = [*graph.inputs, *(name for n in graph.nodes[:place] for name in n.outputs)]
    changed: Node
    match data.draw(st.sampled_from(["op", "attrs", "drop", "rewire", "extend"])):
        case "op":
            changed = replace(node, op=data.draw(st.sampled_from(OPS)))
        case "attrs":
            changed = replace(node, attrs=data.draw(attributes))
        case "drop":
            changed = replace(node, inputs=node.inputs[1:])
        case "rewire":
            wiring = [data.draw(st.sampled_from([None, *before])) for _ in node.inputs]
            changed = replace(node, inputs=tuple(wiring))
        case _:
            changed = replace(node, inputs=(*node.inputs, None))
    assume(changed != node)
    nodes = (*graph.nodes[:place], changed, *graph.nodes[place + 1 :])
    assert replace(graph, nodes=nodes).hash != graph.hash


@ir
@given(st.data(), graphs())
def test_hash_sees_every_change_of_a_tensor(data: st.DataObject, graph: Graph) -> None:
    assume(graph.tensors)
    name = data.draw(st.sampled_from(list(graph.tensors)))
    tensor = graph.tensors[name]
    changed: Tensor
    if data.draw(st.booleans()):
        changed = replace(tensor, type=data.draw(tensor_types))
    else:
        changed = replace(tensor, role=data.draw(st.sampled_from(list(Role))))
    assume(changed != tensor)
    other = replace(graph, tensors=FrozenDict({**graph.tensors, name: changed}))
    assert other.hash != graph.hash


@ir
@given(st.data(), graphs())
def test_hash_sees_outputs_and_updates(data: st.DataObject, graph: Graph) -> None:
    assume(graph.tensors)
    extra = data.draw(st.sampled_from(list(graph.tensors)))
    assert replace(graph, outputs=(*graph.outputs, extra)).hash != graph.hash
    if graph.updates:
        assert replace(graph, updates={}).hash != graph.hash


@ir
@given(st.data(), graphs(max_nodes=3))
def test_damaged_text_is_refused_or_read_but_never_a_crash(
    data: st.DataObject, graph: Graph
) -> None:
    damaged = _damage(data, to_text(graph))
    with suppress(GraphwrightError):
        verify(parse_text(damaged))


@ir
@given(st.data(), graphs(max_nodes=3))
def test_damaged_json_is_refused_or_read_but_never_a_crash(
    data: st.DataObject, graph: Graph
) -> None:
    damaged = _damage(data, to_json(graph))
    with suppress(GraphwrightError):
        verify(from_json(damaged))


@ir
@given(st.data(), graphs())
def test_cut_off_text_is_always_refused(data: st.DataObject, graph: Graph) -> None:
    text = to_text(graph).rstrip("\n")
    cut = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(GraphwrightError):
        parse_text(text[:cut])


def _damage(data: st.DataObject, text: str) -> str:
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 5)))
    inserted = data.draw(
        st.one_of(
            st.sampled_from(
                ["", "%", "(", ")", ":", '"', "\\", "\n", "_", "null", "[", "-1", ";", "#", "@"]
            ),
            st.text(max_size=3),
        )
    )
    return text[:start] + inserted + text[stop:]


@ir
@given(graphs())
def test_peak_lies_between_what_is_given_and_everything(graph: Graph) -> None:
    summary = summarize(graph)
    everything = sum(tensor.type.nbytes for tensor in graph.tensors.values())
    given_bytes = sum(graph.tensors[name].type.nbytes for name in graph.inputs)
    assert given_bytes <= summary.peak_bytes <= everything
    assert sum(summary.nodes_per_phase.values()) == summary.num_nodes == len(graph)
    assert sum(size * count for size, count in summary.distinct_sizes.items()) == everything
