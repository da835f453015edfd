"""The text and JSON forms, as a reader of one sees them."""

from __future__ import annotations

import gc
import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from graphwright.errors import GraphFormatError
from graphwright.ir import (
    Graph,
    GraphBuilder,
    Role,
    TensorType,
    from_json,
    load,
    parse_text,
    save,
    to_json,
    to_text,
)

TEXT = """\
graph 1

input:
  %inputs.0: float32[8, 5]

parameter:
  %fc.weight: float32[5, 3]

optimizer_state:
  %fc.weight.momentum: float32[5, 3] of %fc.weight

forward:
  %mm: float32[8, 3] = aten.mm(%inputs.0, %fc.weight) @fc layer=0
  %loss: float32[] = aten.sum.dim_IntList(%mm; dim=(0, 1), dtype=None, keepdim=False)

backward:
  %expand: float32[8, 3] gradient of %mm = aten.expand(%loss; implicit=False, size=(8, 3)) partner=%loss
  %t: float32[5, 8] = aten.t(%inputs.0) partner=%mm
  %fc.weight.grad: float32[5, 3] gradient of %fc.weight = aten.mm(%t, %expand) @fc layer=0 partner=%mm

update:
  %fc.weight.momentum.new: float32[5, 3] optimizer_state of %fc.weight.momentum = aten.add.Tensor(%fc.weight.momentum, %fc.weight.grad; alpha=1) parameter=%fc.weight
  %fc.weight.new: float32[5, 3] parameter of %fc.weight = aten.add.Tensor(%fc.weight, %fc.weight.momentum.new; alpha=-0.1) parameter=%fc.weight

outputs:
  %loss
  %fc.weight.new replaces %fc.weight
  %fc.weight.momentum.new replaces %fc.weight.momentum
end
"""

T = TensorType((2,), "float32")


def test_text_prints_like_a_program(training_step: Graph):
    assert to_text(training_step) == TEXT
    assert parse_text(TEXT) == training_step


def test_text_may_be_written_by_hand(training_step: Graph):
    loose = TEXT.replace(", ", " ,  ").replace("\n\n", "\n# a comment\n\t\n").replace("\n", "\r\n")
    loose = loose.replace("aten.mm(%inputs.0", "aten.mm( %inputs.0").replace("end", "end # done")
    assert parse_text(loose) == training_step


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("layer1.0/conv:2", "%layer1.0/conv:2"),
        ("a::b", "%a::b"),
        ("0", "%0"),
        ("ends:", '%"ends:"'),
        ("two words", '%"two words"'),
        ("%", '%"%"'),
        ('quo"te\\', '%"quo\\"te\\\\"'),
        ("größe", '%"gr\\u00f6\\u00dfe"'),
        ("new\nline # no comment", '%"new\\nline # no comment"'),
    ],
)
def test_names(name: str, spelled: str):
    build = GraphBuilder()
    build.add_input(name, T)
    (made,) = build.add("aten.neg", [name], {}, T, names=f"{name}'s", module=name)
    graph = build.build([made])
    assert f"\n  {spelled}: float32[2]\n" in to_text(graph)
    assert f"@{spelled[1:]}" in to_text(graph)
    assert parse_text(to_text(graph)) == graph
    assert from_json(to_json(graph)) == graph


@pytest.mark.parametrize(
    ("value", "spelled", "in_json"),
    [
        (float("inf"), "inf", '{"float": "inf"}'),
        (float("-inf"), "-inf", '{"float": "-inf"}'),
        (float("nan"), "nan", '{"float": "nan"}'),
        (-0.0, "-0.0", "-0.0"),
        (1.0, "1.0", "1.0"),
        (1, "1", "1"),
        (True, "True", "true"),
        (1e22, "1e+22", "1e+22"),
        (0.1, "0.1", "0.1"),
        (2**64 - 1, "18446744073709551615", "18446744073709551615"),
        ("", '""', '""'),
        ("inf", '"inf"', '"inf"'),
        ('a)"; b', '"a)\\"; b"', '"a)\\"; b"'),
        ((), "()", "[]"),
        ((1,), "(1,)", "[1]"),
        (((1.5, None), (False, "x")), '((1.5, None), (False, "x"))', '[[1.5, null], [false, "x"]]'),
    ],
)
def test_attribute_values(value: object, spelled: str, in_json: str):
    build = GraphBuilder()
    (made,) = build.add("aten.full", [], {"value": value, "other": 0}, T, module="m")
    graph = build.build([made])
    assert f"aten.full(; other=0, value={spelled}) @m" in to_text(graph)
    assert f'"value": {in_json}' in to_json(graph)
    for again in (parse_text(to_text(graph)), from_json(to_json(graph))):
        assert again == graph
        assert again.hash == graph.hash
        assert repr(again.nodes[0].attrs["value"]) == repr(value)


def test_one_output_may_replace_several_inputs():
    build = GraphBuilder()
    for name in ("a", "b", "c"):
        build.add_input(name, T, Role.BUFFER)
    (made,) = build.add("aten.neg", ["a"], {}, T, names="new")
    graph = build.build([made, made, "c"], {"b": made, "a": made, "c": "c"})
    assert "  %new replaces %b, %a\n  %new\n  %c replaces %c\nend" in to_text(graph)
    assert parse_text(to_text(graph)) == graph == from_json(to_json(graph))


def test_an_invalid_graph_prints(training_step: Graph):
    broken = Graph(training_step.nodes, {}, ("x",), ("nowhere",))
    text = to_text(broken)
    assert "  %x: ?\n" in text
    assert "%mm: ? = aten.mm(%inputs.0, %fc.weight) @fc layer=0" in text


def test_json_names_its_format_and_has_a_node_to_a_line(training_step: Graph):
    text = to_json(training_step)
    data = json.loads(text)
    assert (data["format"], data["version"]) == ("graphwright.graph", 1)
    assert data["nodes"][0] == {
        "op": "aten.mm",
        "inputs": ["inputs.0", "fc.weight"],
        "outputs": [{"name": "mm", "type": "float32[8, 3]"}],
        "phase": "forward",
        "module": "fc",
        "layer": 0,
    }
    assert sum(line.startswith(' {"op"') for line in text.splitlines()) == len(training_step)


def test_files_by_suffix(training_step: Graph, tmp_path: Path):
    plain, packed = tmp_path / "step.gwt.json", tmp_path / "step.json.gz"
    save(training_step, plain)
    save(training_step, str(packed))
    assert plain.read_text() == to_json(training_step)
    assert gzip.decompress(packed.read_bytes()).decode() == to_json(training_step)
    assert load(plain) == load(str(packed)) == training_step
    first = packed.read_bytes()
    save(training_step, packed)
    assert packed.read_bytes() == first
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["step.gwt.json", "step.json.gz"]


@pytest.mark.parametrize("was_on", [True, False])
def test_reading_leaves_garbage_collection_as_it_was(training_step: Graph, was_on: bool):
    try:
        (gc.enable if was_on else gc.disable)()
        parse_text(to_text(training_step))
        assert gc.isenabled() is was_on
        with pytest.raises(GraphFormatError):
            from_json("{}")
        assert gc.isenabled() is was_on
    finally:
        gc.enable()


def test_the_graph_needs_no_torch():
    code = "import sys, graphwright.ir; print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
    )
    assert done.stdout.split() == ["False", "False"]
