"""Content hashes: which graphs are the same, which tensors hold the same value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphwright.errors import InvalidGraph
from graphwright.ir import Graph, GraphBuilder, Role, TensorType, parse_text, to_text, verify

T = TensorType((4,), "float32")


def test_hash_is_stable_and_hexadecimal(training_step: Graph):
    # A change of this value makes every saved cache key stale: say so in the change log.
    assert training_step.hash == "620da1fe9a0de1d9b1f0e23495024cfa"
    assert training_step.hash == training_step.hash != training_step.program_hash


def test_names_of_inputs_count_and_those_of_intermediates_do_not(training_step: Graph):
    text = to_text(training_step)
    assert parse_text(text.replace("%mm", "%product")).hash == training_step.hash
    assert parse_text(text.replace("inputs.0", "inputs.x")).hash != training_step.hash


def test_order_of_independent_nodes_counts_for_the_program_only(training_step: Graph):
    nodes = list(training_step.nodes)
    nodes[2], nodes[3] = nodes[3], nodes[2]  # %expand and %t
    other = replace(training_step, nodes=tuple(nodes))
    verify(other)
    assert other.hash == training_step.hash
    assert other.program_hash != training_step.program_hash


def test_equal_values_have_equal_digests():
    build = GraphBuilder()
    x = build.add_input("x", T)
    (a,) = build.add("aten.neg", [x], {}, T)
    (b,) = build.add("aten.neg", [x], {}, T, role=Role.GRADIENT, of=x, module="elsewhere")
    (c,) = build.add("aten.exp", [a], {}, T)
    (d,) = build.add("aten.exp", [b], {}, T)
    values, _ = build.add("aten.topk", [x], {}, [T, T])
    digests = build.build([]).tensor_hashes()
    assert digests[a] == digests[b] != digests[c]
    assert digests[c] == digests[d]
    assert digests[values] != digests[f"{values}:1"]


def test_it_counts_which_of_two_equal_nodes_is_read():
    def graph(first: int, second: int) -> Graph:
        build = GraphBuilder()
        x = build.add_input("x", T)
        twins = [build.add("aten.neg", [x], {}, T)[0] for _ in range(2)]
        (a,) = build.add("aten.exp", [twins[first]], {}, T)
        (b,) = build.add("aten.log", [twins[second]], {}, T)
        return build.build([a, b])

    assert graph(0, 0).hash != graph(0, 1).hash
    assert graph(0, 1).hash == graph(0, 1).hash


def test_a_deep_chain_needs_no_recursion():
    build = GraphBuilder()
    x = build.add_input("x", T)
    for _ in range(20_000):
        (x,) = build.add("aten.neg", [x], {}, T)
    graph = build.build([x])
    assert len(graph.hash) == 32
    assert parse_text(to_text(graph)).hash == graph.hash


def test_a_graph_out_of_order_has_no_hash(training_step: Graph):
    broken = replace(training_step, nodes=training_step.nodes[::-1])
    with pytest.raises(InvalidGraph, match="is not defined before"):
        broken.hash  # noqa: B018
    with pytest.raises(InvalidGraph, match="cannot hash"):
        replace(training_step, outputs=("nowhere",)).hash  # noqa: B018


def test_the_value_hash_leaves_out_what_changes_no_value(training_step: Graph):
    def graph(first: int, second: int, names: str = "xy") -> Graph:
        build = GraphBuilder()
        x, y = (build.add_input(name, T) for name in names)
        x, y = sorted([x, y])
        twins = [build.add("aten.neg", [x], {}, T)[0] for _ in range(2)]
        (a,) = build.add("aten.exp", [twins[first]], {}, T)
        (b,) = build.add("aten.mul", [twins[second], y], {}, T)
        return build.build([a, b])

    assert graph(0, 1).hash != graph(1, 0).hash
    assert graph(0, 1, "yx").hash != graph(0, 1).hash
    assert graph(0, 1).value_hash() == graph(1, 0).value_hash() == graph(0, 1, "yx").value_hash()
    other = replace(graph(0, 1), outputs=graph(0, 1).outputs[::-1])
    assert other.value_hash() != graph(0, 1).value_hash()
    text = to_text(training_step)
    assert parse_text(text.replace("inputs.0", "inputs.x")).value_hash() != (
        training_step.value_hash()
    )
