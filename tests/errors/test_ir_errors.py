"""Graphs broken on purpose, one rule at a time, and files that are not what they should be.

Each case says which rule is broken and what the message has to name.
"""

from __future__ import annotations

import gzip
import json
import os
import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from graphwright.errors import (
    GraphFileError,
    GraphFormatError,
    GraphSyntaxError,
    GraphwrightError,
    InvalidGraph,
)
from graphwright.ir import (
    Attrs,
    Graph,
    GraphBuilder,
    Node,
    Phase,
    Role,
    Tensor,
    TensorType,
    from_json,
    load,
    parse_text,
    save,
    to_json,
    to_text,
    verify,
)

T = TensorType((4, 2), "float32")
OTHER = TensorType((3,), "float32")


def make_step() -> Graph:
    build = GraphBuilder()
    x = build.add_input("x", T)
    w = build.add_input("w", T, Role.PARAMETER)
    m = build.add_input("w.m", T, Role.OPTIMIZER_STATE, of=w)
    (y,) = build.add("aten.mul.Tensor", [x, w], {}, T, names="y", module="fc")
    (g,) = build.add(
        "aten.mul.Tensor",
        [x, y],
        {"alpha": 0.5},
        T,
        names="w.grad",
        phase=Phase.BACKWARD,
        role=Role.GRADIENT,
        of=w,
        partner=y,
    )
    (new,) = build.add(
        "aten.add.Tensor",
        [w, g, m],
        {},
        T,
        names="w.new",
        phase=Phase.UPDATE,
        role=Role.PARAMETER,
        of=w,
        parameter=w,
    )
    return build.build([y, new], {w: new})


STEP = make_step()


def with_node(index: int, **changes: object) -> Graph:
    nodes = list(STEP.nodes)
    nodes[index] = replace(nodes[index], **changes)
    return replace(STEP, nodes=tuple(nodes))


def with_tensor(name: str, /, **changes: object) -> Graph:
    changed = replace(STEP.tensors[name], **changes)
    return replace(STEP, tensors={**STEP.tensors, name: changed})


def with_extra(tensor: Tensor) -> Graph:
    return replace(STEP, tensors={**STEP.tensors, tensor.name: tensor})


def without(name: str) -> Graph:
    return replace(STEP, tensors={k: v for k, v in STEP.tensors.items() if k != name})


BROKEN: dict[str, tuple[Graph, str, str]] = {
    "undefined tensor": (with_node(0, inputs=("x", "nowhere")), "undefined tensor", "%nowhere is"),
    "entry of an input": (without("x"), "undefined tensor", "%x has no entry"),
    "entry of an output": (without("w.grad"), "undefined tensor", "%w.grad has no entry"),
    "used before made": (
        replace(STEP, nodes=(STEP.nodes[1], STEP.nodes[0], STEP.nodes[2])),
        "use before definition",
        "%y is read before it is made",
    ),
    "cycle of one": (with_node(0, inputs=("x", "y")), "use before definition", "in a cycle"),
    "cycle of two": (with_node(0, inputs=("x", "w.grad")), "use before definition", "in a cycle"),
    "made twice": (with_node(1, outputs=("y",)), "duplicate definition", "%y is defined twice"),
    "made twice by one": (
        with_node(0, outputs=("y", "y")),
        "duplicate definition",
        "%y is defined twice",
    ),
    "input made by a node": (with_node(0, outputs=("x",)), "duplicate definition", "%x is"),
    "input given twice": (
        replace(STEP, inputs=(*STEP.inputs, "x")),
        "duplicate definition",
        "%x is defined twice",
    ),
    "left over": (with_extra(Tensor("z", T)), "duplicate definition", "%z is listed but neither"),
    "filed wrongly": (with_tensor("x", name="other"), "name", "'other'"),
    "input as activation": (with_tensor("x", role=Role.ACTIVATION), "role", "%x is an input with"),
    "input as gradient": (with_tensor("x", role=Role.GRADIENT), "role", "role gradient"),
    "node makes an input": (with_tensor("y", role=Role.INPUT), "role", "cannot be input"),
    "node makes a parameter": (with_tensor("y", role=Role.PARAMETER), "role", "it is of nothing"),
    "new value of another role": (with_tensor("w.new", of="w.m"), "role", "%w.m: float32[4, 2]"),
    "new value of an unknown": (with_tensor("w.new", of="nowhere"), "role", "it is of %nowhere"),
    "new value of another type": (with_tensor("w.new", type=OTHER), "role", "type float32[3]"),
    "gradient of an unknown": (with_tensor("w.grad", of="nowhere"), "of", "not in the graph"),
    "gradient of a later": (with_tensor("w.grad", of="w.new"), "of", "which is defined later"),
    "gradient of itself": (with_tensor("w.grad", of="w.grad"), "of", "which is defined later"),
    "gradient of another shape": (with_tensor("w.grad", type=OTHER), "of", "shape of its tensor"),
    "activation of something": (with_tensor("y", of="x"), "of", "only gradients and new values"),
    "state of an unknown": (with_tensor("w.m", of="nowhere"), "of", "which is not an input"),
    "state of a node's": (with_tensor("w.m", of="y"), "of", "%y, which is not an input"),
    "state of the batch": (with_tensor("w.m", of="x"), "of", "%x (input)"),
    "batch of a parameter": (with_tensor("x", of="w"), "of", "only optimizer_state has an 'of'"),
    "unknown partner": (with_node(1, partner="nowhere"), "partner", "has partner %nowhere"),
    "partner is an input": (with_node(1, partner="x"), "partner", "has partner %x"),
    "partner is itself": (with_node(1, partner="w.grad"), "partner", "earlier forward node"),
    "partner is backward": (
        with_node(2, phase=Phase.BACKWARD, partner="w.grad", parameter=None),
        "partner",
        "has partner %w.grad, which is not the name of an earlier forward node",
    ),
    "forward with a partner": (with_node(0, partner="y"), "partner", "in phase forward"),
    "update with a partner": (with_node(2, partner="y"), "partner", "in phase update"),
    "unknown parameter": (with_node(2, parameter="nowhere"), "parameter", "updates %nowhere"),
    "parameter is the batch": (with_node(2, parameter="x"), "parameter", "updates %x"),
    "forward with a parameter": (with_node(0, parameter="w"), "parameter", "in phase forward"),
    "unknown output": (replace(STEP, outputs=("nowhere",)), "output", "%nowhere is an output"),
    "update of an unknown": (replace(STEP, updates={"n": "w.new"}), "update", "%n is updated"),
    "update of the batch": (replace(STEP, updates={"x": "y"}), "update", "%x is updated"),
    "update of a node's": (replace(STEP, updates={"y": "w.new"}), "update", "%y is updated"),
    "update by no output": (replace(STEP, updates={"w": "w.grad"}), "update", "not an output"),
    "update of another type": (
        replace(with_tensor("y", type=OTHER), updates={"w": "y"}),
        "update",
        "has type float32[4, 2], its new value is %y: float32[3]",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_each_rule_is_checked(case: str):
    graph, rule, message = BROKEN[case]
    with pytest.raises(InvalidGraph) as caught:
        verify(graph)
    assert caught.value.rule == rule
    assert message in str(caught.value)
    assert caught.value.node is not None


def test_the_step_itself_is_valid():
    verify(STEP)


def test_every_rule_of_the_table_is_broken_above():
    table = [line.split("|")[1].strip() for line in verify_table()]
    assert set(filter(None, table)) == {rule for _, rule, _ in BROKEN.values()}


def verify_table() -> list[str]:
    doc = sys.modules[verify.__module__].__doc__ or ""
    return [line for line in doc.splitlines() if line.startswith("|")][2:]


def test_a_message_shows_the_node_and_what_it_reads():
    with pytest.raises(InvalidGraph) as caught:
        verify(with_node(2, inputs=("w", "w.grad", "nowhere")))
    lines = str(caught.value).splitlines()
    assert lines == [
        "undefined tensor: %nowhere is read, but is no input and nothing makes it",
        "  at  %w.new = aten.add.Tensor(%w, %w.grad, %nowhere) parameter=%w",
        "  reads  %w: float32[4, 2] parameter",
        "  reads  %w.grad = aten.mul.Tensor(%x, %y; alpha=0.5) partner=%y",
    ]
    assert caught.value.node == "w.new"


class Celsius(float):
    """A number, but not plain data."""


def nested(depth: int) -> tuple[object, ...]:
    value: tuple[object, ...] = ()
    for _ in range(depth):
        value = (value,)
    return value


WRONG_VALUES: dict[str, tuple[Callable[[], object], str, str]] = {
    "list attr": (lambda: Attrs({"dim": [0]}), "attribute kind", "attribute dim"),
    "list inside": (lambda: Attrs({"dim": (0, [1])}), "attribute kind", "builtins.list"),
    "dict attr": (lambda: Attrs({"a": {}}), "attribute kind", "builtins.dict"),
    "set attr": (lambda: Attrs({"a": {1}}), "attribute kind", "not plain data"),
    "bytes attr": (lambda: Attrs({"a": b"x"}), "attribute kind", "builtins.bytes"),
    "complex attr": (lambda: Attrs({"a": 1j}), "attribute kind", "builtins.complex"),
    "enum attr": (lambda: Attrs({"a": Role.INPUT}), "attribute kind", "Role"),
    "float subclass": (lambda: Attrs({"a": Celsius(1)}), "attribute kind", "Celsius"),
    "type attr": (lambda: Attrs({"a": T}), "attribute kind", "TensorType"),
    "large int": (lambda: Attrs({"a": 2**64}), "attribute kind", "64 bits"),
    "huge int": (lambda: Attrs({"a": 10**5000}), "attribute kind", "64 bits"),
    "deep attr": (lambda: Attrs({"a": nested(40)}), "attribute kind", "deeper than 32"),
    "attr name": (lambda: Attrs({"a b": 1}), "attribute name", "'a b'"),
    "attr name kind": (lambda: Attrs({1: 1}), "attribute name", "1 is not"),
    "attr of node": (
        lambda: Node("aten.sum", ("x",), {"dim": [0]}, ("y",)),
        "attribute kind",
        "aten.sum (making %y): attribute dim",
    ),
    "negative shape": (lambda: TensorType((4, -1), "float32"), "shape", "holds -1"),
    "float shape": (lambda: TensorType((4.0,), "float32"), "shape", "holds 4.0"),
    "bool shape": (lambda: TensorType((True,), "float32"), "shape", "holds True"),
    "huge shape": (lambda: TensorType((2**63,), "float32"), "shape", "whole numbers"),
    "unknown dtype": (lambda: TensorType((4,), "float31"), "dtype", "'float31'"),
    "torch dtype": (lambda: TensorType((4,), "torch.float32"), "dtype", "without 'torch.'"),
    "empty name": (lambda: Tensor("", T), "name", "''"),
    "name of another kind": (lambda: Tensor(3, T), "name", "not 3"),
    "type of another kind": (lambda: Tensor("x", "float32[2]"), "type", "give a TensorType"),
    "unknown role": (lambda: Tensor("x", T, "weight"), "role", "'weight'"),
    "unknown phase": (lambda: Node("aten.a", (), {}, ("y",), phase="later"), "phase", "'later'"),
    "op name": (lambda: Node("aten mm", (), {}, ("y",)), "operator name", "'aten mm'"),
    "no outputs": (lambda: Node("aten.mm", (), {}, ()), "outputs", "has no outputs"),
    "layer kind": (lambda: Node("a.b", (), {}, ("y",), layer=1.5), "provenance", "1.5"),
    "module kind": (lambda: Node("a.b", (), {}, ("y",), module=None), "provenance", "None"),
}


@pytest.mark.parametrize("case", WRONG_VALUES)
def test_values_are_checked_when_made(case: str):
    make, rule, message = WRONG_VALUES[case]
    with pytest.raises(InvalidGraph) as caught:
        make()
    assert caught.value.rule == rule
    assert message in str(caught.value)


TEXT = to_text(STEP)
# What to replace in the text, by what (| marks where reading has to stop), and the complaint.
WRONG_TEXT: dict[str, tuple[str, str, str]] = {
    "not a graph": ("graph 1", "|digraph {", "expected 'graph'; found 'digraph'"),
    "another version": ("graph 1", "graph |2", "text version 1; found '2'"),
    "unknown heading": ("forward:", "|sideways:", "the heading of a role"),
    "heading without colon": ("forward:", "forward|", "a heading such as"),
    "inputs after nodes": ("backward:", "|input:", "before all nodes"),
    "no heading": ("input:\n  %x", "\n  |%x", "a heading such as 'input:'"),
    "unknown dtype": ("%x: float32", "%x: |float31", "unknown dtype 'float31'"),
    "negative size": ("%x: float32[4", "%x: |float32[-4", "a type such as"),
    "size left out": ("%x: float32[4, 2]", "%x: |float32[4, ]", "a type such as"),
    "no type": ("%x: float32[4, 2]", "%x|", "expected ':'; the line ends"),
    "no name": ("%x: float32[4, 2]", "|%: float32[4, 2]", "a tensor's name such as %x"),
    "empty name": ("%x: float32[4, 2]", '|%"": float32[4, 2]', "a name that is not empty"),
    "unknown role": ("gradient of %w =", "|slope of %w =", "a role, 'of', ',' or '='"),
    "no call": ("= aten.mul.Tensor(%x, %w) @fc", "=|", "an operator's name; the line ends"),
    "call left open": ("%x, %w) @fc", "%x, %w |@fc", "expected ')'; found '@fc'"),
    "bad argument": ("(%x, %w)", "(%x, |7)", "a tensor's name such as %x; found '7'"),
    "bad value": ("alpha=0.5", "alpha=|half", "a value: None"),
    "code as value": ("alpha=0.5", "alpha=|__import__('os')", "a value: None"),
    "no value": ("alpha=0.5", "alpha=|", "a value: None"),
    "value left open": ("alpha=0.5) p", "alpha=(1, 2) |p", "',' or ')'; found 'partner'"),
    "attr twice": ("alpha=0.5", "alpha=1, |alpha=2", "each attribute once"),
    "attr name": ("; alpha=0.5", "|; a.b=1", "'a.b' is not an identifier"),
    "large int": ("; alpha=0.5", f"|; alpha={2**64}", "64 bits"),
    "huge int": ("alpha=0.5", f"alpha=|{'9' * 5000}", "a value: None"),
    "deep value": ("alpha=0.5", f"alpha={'(' * 32}|{'(' * 5000}", "at most 32 nested"),
    "open string": ("alpha=0.5", 'alpha=|"half', "a value: None"),
    "bad escape": ("alpha=0.5", 'alpha=|"\\x"', "a value: None"),
    "unknown annotation": ("@fc", "@fc |speed=3", "@module, layer="),
    "annotation twice": ("@fc", "@fc |@fc", "each annotation once"),
    "layer in words": ("@fc", "@fc layer=|two", "a whole number"),
    "output without a name": ("  %y\n", "  |y\n", "a tensor's name"),
    "replaced twice": ("  %y\n  %w.new replaces ", "  %y replaces %w\n  %w.new replaces |", "once"),
    "more after the end": ("end\n", "end\n|%x\n", "nothing after 'end'"),
    "more beside the end": ("end\n", "end |%x\n", "the end of the line"),
    "cut off": ("end\n", "|", "the text is cut off before 'end'"),
}


@pytest.mark.parametrize("case", WRONG_TEXT)
def test_text_says_where_it_breaks(case: str):
    old, new, message = WRONG_TEXT[case]
    assert TEXT.count(old) >= 1
    marked = TEXT.replace(old, new, 1)
    before, after = marked.split("|")
    with pytest.raises(GraphSyntaxError) as caught:
        parse_text(before + after)
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).startswith(f"line {line}, column {column}: expected ")


def test_a_caret_points_at_the_place():
    with pytest.raises(GraphSyntaxError) as caught:
        parse_text(TEXT.replace("%x: float32[4, 2]", "%x; float32[4, 2]"))
    assert str(caught.value).splitlines() == [
        "line 4, column 5: expected ':'; found ';'",
        "      %x; float32[4, 2]",
        "        ^",
    ]
    assert pickle.loads(pickle.dumps(caught.value)).column == 5


def test_a_long_line_is_shown_around_the_place():
    with pytest.raises(GraphSyntaxError) as caught:
        parse_text(TEXT.replace("alpha=0.5", f"alpha=half, b=({'1, ' * 3000})"))
    assert max(map(len, str(caught.value).splitlines())) < 120


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_empty_text_is_refused(text: str):
    with pytest.raises(GraphSyntaxError, match="cut off"):
        parse_text(text)


def test_text_that_reads_well_but_breaks_a_rule_names_the_rule():
    with pytest.raises(InvalidGraph) as caught:
        parse_text(TEXT.replace("(%x, %w)", "(%x, %v)"))
    assert caught.value.rule == "undefined tensor"
    twice = TEXT.replace("%w.new: ", "%y: ")
    with pytest.raises(InvalidGraph) as caught:
        parse_text(twice)
    assert caught.value.rule == "duplicate definition"


def edited(path: list[str | int], value: object) -> str:
    data = json.loads(to_json(STEP))
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(data)


WRONG_JSON: dict[str, tuple[str, str]] = {
    "empty": ("", "not whole JSON"),
    "cut off": (to_json(STEP)[:-40], "was the file cut off?"),
    "another document": ('{"plan": 1}', "format: this is not a graph"),
    "a list": ("[]", "format: this is not a graph"),
    "newer version": (edited(["version"], 2), "schema version 2 is not the one"),
    "version of another kind": (edited(["version"], True), "schema version True"),
    "unknown field": (edited(["code"], "x"), "code: unknown field"),
    "nodes of another kind": (edited(["nodes"], {}), "nodes: expected a list"),
    "node of another kind": (edited(["nodes", 1], 5), "nodes[1]: expected an object"),
    "unknown node field": (edited(["nodes", 1, "eval"], 5), "nodes[1].eval: unknown field"),
    "op kind": (edited(["nodes", 1, "op"], 5), "nodes[1]: op and module have to be text"),
    "op name": (edited(["nodes", 1, "op"], "a b"), "nodes[1]: operator name 'a b'"),
    "phase": (edited(["nodes", 1, "phase"], "late"), "nodes[1].phase: unknown phase 'late'"),
    "phase kind": (edited(["nodes", 1, "phase"], []), "nodes[1].phase: unknown phase []"),
    "inputs kind": (edited(["nodes", 1, "inputs"], "x"), "nodes[1].inputs: expected a list"),
    "input kind": (edited(["nodes", 1, "inputs", 0], 3), "nodes[1].inputs[0]: expected a tensor"),
    "outputs kind": (edited(["nodes", 1, "outputs"], None), "nodes[1].outputs: expected a list"),
    "no outputs": (edited(["nodes", 1, "outputs"], []), "nodes[1]: aten.mul.Tensor has no outputs"),
    "attrs kind": (edited(["nodes", 1, "attrs"], []), "nodes[1].attrs: expected an object"),
    "attr kind": (edited(["nodes", 1, "attrs", "alpha"], {"a": 1}), "nodes[1].attrs.alpha: an obj"),
    "attr float": (edited(["nodes", 1, "attrs", "alpha"], {"float": "1"}), '{"float": "inf"}'),
    "attr deep": (edited(["nodes", 1, "attrs", "alpha"], nested(50)), "nested deeper than 32"),
    "attr large": (edited(["nodes", 1, "attrs", "alpha"], 2**70), "64 bits"),
    "attr name": (edited(["nodes", 1, "attrs", "a b"], 1), "'a b' is not an identifier"),
    "layer kind": (edited(["nodes", 1, "layer"], "1"), "nodes[1].layer: expected a whole number"),
    "partner kind": (edited(["nodes", 1, "partner"], 1), "nodes[1].partner: expected a tensor's"),
    "tensor kind": (edited(["inputs", 0], "x"), "inputs[0]: expected an object"),
    "tensor field": (edited(["inputs", 0, "x"], 1), "inputs[0].x: unknown field"),
    "tensor name": (edited(["inputs", 0, "name"], ""), "inputs[0].name: expected a tensor's name"),
    "type kind": (edited(["inputs", 0, "type"], 4), "inputs[0].type: expected text such as"),
    "type spelling": (edited(["inputs", 0, "type"], "float32[-1]"), "found 'float32[-1]'"),
    "type dtype": (edited(["inputs", 0, "type"], "float31[1]"), "unknown dtype 'float31'"),
    "type size": (edited(["inputs", 0, "type"], f"int8[{2**63}]"), "inputs[0].type: shape"),
    "role": (edited(["inputs", 0, "role"], "gradient"), "inputs[0].role: unexpected role"),
    "role kind": (edited(["inputs", 0, "role"], ["input"]), "inputs[0].role: unexpected role"),
    "of kind": (edited(["inputs", 0, "of"], 3), "inputs[0].of: expected a tensor's name"),
    "output kind": (edited(["outputs", 0], 3), "outputs[0]: expected a tensor's name"),
    "updates kind": (edited(["updates"], []), "updates: expected an object"),
    "update kind": (edited(["updates", "w"], 3), "updates.w: expected a tensor's name"),
    "NaN as Python writes it": (to_json(STEP).replace("0.5", "NaN"), "NaN is not JSON"),
    "too large a float": (to_json(STEP).replace("0.5", "1e999"), "too large for a float"),
    "too large an int": (to_json(STEP).replace("0.5", "9" * 5000), "not whole JSON"),
    "nested without end": ("[" * 100_000, "nested too deeply"),
}


@pytest.mark.parametrize("case", WRONG_JSON)
def test_json_says_which_field_is_wrong(case: str):
    text, message = WRONG_JSON[case]
    with pytest.raises(GraphFormatError) as caught:
        from_json(text)
    assert message in str(caught.value)


def test_json_that_breaks_a_rule_names_the_rule():
    with pytest.raises(InvalidGraph) as caught:
        from_json(edited(["nodes", 0, "inputs", 0], "nowhere"))
    assert caught.value.rule == "undefined tensor"


def test_files_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(GraphFileError, match=r"missing\.json: No such file"):
        load(tmp_path / "missing.json")
    with pytest.raises(GraphFileError, match=r"ends in \.json or \.json\.gz"):
        load(tmp_path / "graph.pickle")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(GraphFileError, match="cannot read"):
        load(tmp_path / "folder.json")
    (tmp_path / "latin.json").write_bytes(b'{"format": "\xff"}')
    with pytest.raises(GraphFormatError, match=r"latin\.json: this is not whole JSON"):
        load(tmp_path / "latin.json")
    packed = gzip.compress(to_json(STEP).encode())
    for damaged in (packed[:-20], packed[:5], b"", b"plain", packed[:30] + b"x" + packed[31:]):
        (tmp_path / "cut.json.gz").write_bytes(damaged)
        with pytest.raises(GraphFormatError, match=r"cut\.json\.gz"):
            load(tmp_path / "cut.json.gz")
    (tmp_path / "rule.json").write_text(edited(["outputs"], ["nowhere"]))
    with pytest.raises(InvalidGraph, match=r"rule\.json: output: %nowhere") as caught:
        load(tmp_path / "rule.json")
    assert caught.value.rule == "output"


@pytest.mark.parametrize("fails", ["fsync", "replace"])
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_nothing_is_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, suffix: str
):
    path = tmp_path / f"graph{suffix}"
    save(STEP, path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    if fails == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(GraphFileError, match=r"cannot write .*No space left on device"):
        save(replace(STEP, outputs=()), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(STEP, tmp_path / "graph.json")
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written(tmp_path: Path):
    with pytest.raises(GraphFileError, match="check that its folder exists"):
        save(STEP, tmp_path / "nowhere" / "graph.json")
    with pytest.raises(GraphFileError, match="ends in"):
        save(STEP, tmp_path / "graph.txt")
    assert list(tmp_path.iterdir()) == []


def test_each_error_is_ours_and_explains_itself():
    for kind in (InvalidGraph, GraphSyntaxError, GraphFormatError, GraphFileError):
        assert issubclass(kind, GraphwrightError)
        assert len((kind.__doc__ or "").split()) > 25
