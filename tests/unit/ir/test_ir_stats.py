"""Sizes of a graph, against sums done by hand."""

from __future__ import annotations

import pytest

from graphwright.ir import Graph, GraphBuilder, Phase, Role, TensorType, format_bytes, summarize


def test_summary_of_a_training_step(training_step: Graph):
    summary = summarize(training_step)
    assert (summary.num_nodes, summary.num_tensors, summary.num_parameters) == (7, 10, 15)
    assert summary.nodes_per_phase == {Phase.FORWARD: 2, Phase.BACKWARD: 3, Phase.UPDATE: 2}
    assert summary.nodes_per_op["aten.add.Tensor"] == 2
    assert summary.parameter_bytes == summary.optimizer_state_bytes == 60
    assert summary.input_bytes == 160
    assert summary.activation_bytes == 96 + 4 + 160  # mm, loss, t
    assert summary.gradient_bytes == 96 + 60  # of mm, of the weight
    assert summary.parameter_gradient_bytes == 60
    assert summary.new_value_bytes == 120
    assert summary.distinct_sizes == {4: 1, 60: 5, 96: 2, 160: 2}
    assert summary.buffer_bytes == summary.constant_bytes == 0


def test_peak_follows_the_program(training_step: Graph):
    # Held: x 160, w 60, momentum 60. At fc.weight.grad also: loss 4, t 160, expand 96, itself 60.
    summary = summarize(training_step)
    assert summary.peak_bytes == 280 + 4 + 160 + 96 + 60
    assert summary.peak_node == "fc.weight.grad"


def test_peak_frees_after_the_last_reader_and_keeps_outputs():
    build = GraphBuilder()
    big, small = TensorType((100,), "uint8"), TensorType((10,), "uint8")
    x = build.add_input("x", small)
    (a,) = build.add("aten.a", [x], {}, big)
    (b,) = build.add("aten.b", [a], {}, big)  # a and b are live together: 210
    (c,) = build.add("aten.c", [b], {}, small)
    build.add("aten.unread", [c], {}, big)  # gone at once
    (d,) = build.add("aten.d", [c], {}, big)
    assert summarize(build.build([d])).peak_bytes == 210
    assert summarize(build.build([d, a])).peak_bytes == 220  # a stays: x, a, b and c


def test_what_is_replaced_goes_after_its_last_reader():
    build = GraphBuilder()
    kind = TensorType((100,), "uint8")
    w = build.add_input("w", kind, Role.PARAMETER)
    (new,) = build.add("aten.a", [w], {}, kind, role=Role.PARAMETER, of=w)
    (y,) = build.add("aten.b", [new], {}, kind)
    assert summarize(build.build([new, y], {w: new})).peak_bytes == 200
    assert summarize(build.build([new, y])).peak_bytes == 300


def test_an_empty_graph_has_a_summary():
    summary = summarize(Graph((), {}, (), ()))
    assert (summary.num_nodes, summary.peak_bytes, summary.peak_node) == (0, 0, None)
    assert "operators                none" in repr(summary)


def test_the_report_reads_well(training_step: Graph):
    report = repr(summarize(training_step)).splitlines()
    assert report[0] == "nodes                    7 (2 forward, 3 backward, 2 update)"
    assert report[3] == "parameters               15, 60 B"
    assert report[-1] == "peak                     600 B at fc.weight.grad"


@pytest.mark.parametrize(
    ("count", "spelled"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (38_535_168, "38.5 MB"),
        (999_900_000, "1 GB"),
        (3 * 10**15, "3,000 TB"),
    ],
)
def test_bytes_in_words(count: int, spelled: str):
    assert format_bytes(count) == spelled
