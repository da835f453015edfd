"""The JSON form of a graph: for programs, as the text form is for people.

    {"format": "graphwright.graph", "version": 1,
     "inputs": [{"name": "x", "type": "float32[8, 5]", "role": "input"}, ...],
     "nodes": [{"op": "aten.mm", "inputs": ["x", null], "attrs": {"dim": [0, 1]},
                "outputs": [{"name": "mm", "type": "float32[8, 3]"}], "phase": "forward"}, ...],
     "outputs": ["mm"],
     "updates": {"w": "w.new"},
     "passes": [{"name": "unmerge", "options": {}}],
     "options": {"clip_norm": 1.0},
     "composites": [{"op": "aten.addmm", "inputs": ["b", "x", "w"], "attrs": {...},
                     "outputs": ["add"], "types": ["float32[8, 3]"], "digest": "..."}]}

Fields with their default value are left out; that of `passes` is what is shown here, as every graph
was made so before there was the field, those of `options` and `composites` are none. Tuples are
lists; a float that JSON cannot say is `{"float": "nan"}`. One node per line, so that version
control shows what changed. Reading checks every field and refuses what it does not know: nothing in
a file is executed, nothing is guessed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, TypeAlias, cast

from graphwright.errors import GraphFileError, GraphFormatError, InvalidGraph
from graphwright.files import read_whole, write_atomically
from graphwright.ir.attrs import Attrs
from graphwright.ir.bulk import collection_paused
from graphwright.ir.graph import UNMERGED, Graph, PassRecord
from graphwright.ir.node import Composite, Node, Tensor
from graphwright.ir.spelling import MAX_ATTR_DEPTH, OP_NAME, Attr
from graphwright.ir.types import INPUT_ROLES, Phase, Role, TensorType
from graphwright.ir.verify import verify

FORMAT = "graphwright.graph"
SCHEMA_VERSION = 1
SUFFIXES = (".json", ".json.gz")

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_TYPE = re.compile(r"([a-z][a-z0-9_]*)\[((?:[0-9]+(?:, [0-9]+)*)?)\]")
_ROLES = {role.value: role for role in Role}
_PHASES = {phase.value: phase for phase in Phase}
_PROVENANCE_FIELDS = frozenset({"phase", "partner", "module", "layer", "step", "parameter"})
_NODE_FIELDS = frozenset({"op", "inputs", "attrs", "outputs"}) | _PROVENANCE_FIELDS
_TENSOR_FIELDS = frozenset({"name", "type", "role", "of"})
_PASS_FIELDS = frozenset({"name", "options"})
_GRAPH_FIELDS = frozenset(
    {
        *("format", "version", "inputs", "nodes", "outputs", "updates", "passes", "options"),
        "composites",
    }
)


_COMPOSITE_FIELDS = frozenset({"op", "inputs", "attrs", "outputs", "types", "digest"})


def save(graph: Graph, path: str | Path) -> None:
    """Write the JSON form to a `.json` or `.json.gz` file: all of it, or nothing."""
    if not isinstance(graph, Graph):
        raise GraphFileError(
            f"{type(graph).__name__} is no graph; gw.save writes what gw.capture returns; "
            "plans and frontiers have a method save of their own"
        )
    _check_suffix(path)
    write_atomically(path, to_json(graph).encode())


def load(path: str | Path) -> Graph:
    """Read and verify what `save` wrote."""
    _check_suffix(path)
    try:
        return from_json(read_whole(path))
    except GraphFileError:
        raise
    except InvalidGraph as error:
        raise InvalidGraph(f"{path}: {error}", rule=error.rule, node=error.node) from None
    except GraphFormatError as error:
        raise GraphFormatError(f"{path}: {error}") from None


def to_json(graph: Graph) -> str:
    """Return the JSON form, one input or node to a line."""
    encode = cast(
        "Callable[[object], str]",
        json.JSONEncoder(allow_nan=False, check_circular=False).encode,
    )
    types: dict[TensorType, str] = {}

    def tensor_data(name: str, default: Role | None) -> dict[str, Json]:
        tensor = graph.tensors[name]
        spelled = types.get(tensor.type)
        if spelled is None:
            spelled = types[tensor.type] = repr(tensor.type)
        data: dict[str, Json] = {"name": name, "type": spelled}
        if tensor.role is not default:
            data["role"] = tensor.role.value
        if tensor.of is not None:
            data["of"] = tensor.of
        return data

    inputs = [encode(tensor_data(name, None)) for name in graph.inputs]
    nodes: list[str] = []
    for node in graph.nodes:
        data: dict[str, Json] = {"op": node.op, "inputs": list(node.inputs)}
        if node.attrs:
            data["attrs"] = {name: _attr_to_json(value) for name, value in node.attrs.items()}
        data["outputs"] = [tensor_data(name, Role.ACTIVATION) for name in node.outputs]
        data["phase"] = node.phase.value
        if node.module:
            data["module"] = node.module
        for field, value in (
            ("layer", node.layer),
            ("step", node.step),
            ("partner", node.partner),
            ("parameter", node.parameter),
        ):
            if value is not None:
                data[field] = value
        nodes.append(encode(data))
    passes = ""
    if graph.passes != UNMERGED:
        passes = f',\n"passes": {encode(passes_to_json(graph.passes))}'
    if graph.options:
        passes += f',\n"options": {encode(_options_to_json(graph.options))}'
    if graph.composites:
        composites = [encode(_composite_to_json(c)) for c in graph.composites]
        passes += f',\n"composites": {_lines(composites)}'
    return (
        f'{{"format": "{FORMAT}", "version": {SCHEMA_VERSION},\n'
        f'"inputs": {_lines(inputs)},\n"nodes": {_lines(nodes)},\n'
        f'"outputs": {encode(list(graph.outputs))},\n"updates": {encode(dict(graph.updates))}'
        f"{passes}}}\n"
    )


def from_json(text: str | bytes) -> Graph:
    """Read the JSON form and verify it; GraphFormatError says which field is wrong."""
    with collection_paused():
        graph = _Reader().graph(_parse(text))
    verify(graph)
    return graph


def _composite_to_json(composite: Composite) -> dict[str, Json]:
    return {
        "op": composite.op,
        "inputs": list(composite.inputs),
        "attrs": _options_to_json(composite.attrs),
        "outputs": list(composite.outputs),
        "types": [repr(type) for type in composite.types],
        "digest": composite.digest,
    }


def passes_to_json(passes: Sequence[PassRecord]) -> list[dict[str, Json]]:
    """What a document holds of the passes that made its graph."""
    return [{"name": p.name, "options": _options_to_json(p.options)} for p in passes]


def _options_to_json(options: Mapping[str, Attr]) -> dict[str, Json]:
    return {name: _attr_to_json(value) for name, value in options.items()}


def passes_from_json(data: Json) -> tuple[PassRecord, ...]:
    """Read what `passes_to_json` wrote; GraphFormatError says which field is wrong."""
    if not isinstance(data, list):
        _fail("passes", "expected a list")
    return tuple([_pass(item, f"passes[{i}]") for i, item in enumerate(data)])


def _pass(data: Json, path: str) -> PassRecord:
    if not isinstance(data, dict):
        _fail(path, "expected an object with name and options")
    _check_fields(data, _PASS_FIELDS, path)
    name = _name(data.get("name"), f"{path}.name", "a pass's name")
    return PassRecord(name, _options_from_json(data.get("options"), f"{path}.options"))


def _options_from_json(data: Json, path: str) -> Attrs:
    if not isinstance(data, dict):
        _fail(path, "expected an object")
    try:
        return Attrs({k: _attr_from_json(v, f"{path}.{k}", 0) for k, v in data.items()})
    except InvalidGraph as error:
        _fail(path, str(error))


def _parse(text: str | bytes) -> Json:
    try:
        return cast("Json", json.loads(text, parse_constant=_refuse_constant))
    except RecursionError:
        raise GraphFormatError("the JSON is nested too deeply to be a graph") from None
    except ValueError as error:  # also what is not UTF-8, and integers beyond any tensor's size
        raise GraphFormatError(
            f"this is not whole JSON ({error}); was the file cut off? Save the graph again"
        ) from None


class _Reader:
    """Turns parsed JSON into a graph; every complaint names the path of the field."""

    def __init__(self) -> None:
        self.types: dict[str, TensorType] = {}
        self.tensors: dict[str, Tensor] = {}

    def graph(self, data: Json) -> Graph:
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            _fail("format", f"this is not a graph: expected an object with format {FORMAT!r}")
        version = data.get("version")
        if type(version) is not int or version != SCHEMA_VERSION:
            _fail(
                "version",
                f"schema version {version!r} is not the one this Graphwright reads, "
                f"{SCHEMA_VERSION}; upgrade Graphwright, or save the graph again with this one",
            )
        _check_fields(data, _GRAPH_FIELDS, "")
        inputs = [
            self.tensor(item, f"inputs[{i}]", given=True)
            for i, item in enumerate(_list(data, "inputs", ""))
        ]
        nodes = [self.node(item, f"nodes[{i}]") for i, item in enumerate(_list(data, "nodes", ""))]
        outputs = [
            _name(item, f"outputs[{i}]") for i, item in enumerate(_list(data, "outputs", ""))
        ]
        updates = data.get("updates")
        if not isinstance(updates, dict):
            _fail("updates", "expected an object of names")
        replaced = {old: _name(new, f"updates.{old}") for old, new in updates.items()}
        passes = passes_from_json(data["passes"]) if "passes" in data else UNMERGED
        options = _options_from_json(data.get("options", {}), "options")
        composites = [
            self.composite(item, f"composites[{i}]")
            for i, item in enumerate(_list(data, "composites", "") if "composites" in data else [])
        ]
        return Graph(
            tuple(nodes), self.tensors, tuple(inputs), tuple(outputs), replaced, passes, options,
            tuple(composites),
        )  # fmt: skip

    def composite(self, data: Json, path: str) -> Composite:
        if not isinstance(data, dict):
            _fail(path, "expected an object with op, inputs, outputs, types and digest")
        _check_fields(data, _COMPOSITE_FIELDS, path)
        op, digest = data.get("op"), data.get("digest")
        if not isinstance(op, str) or not OP_NAME.fullmatch(op) or not isinstance(digest, str):
            _fail(path, f"op and digest have to be text, found {op!r} and {digest!r}")
        names: dict[str, tuple[str | None, ...]] = {}
        for field in ("inputs", "outputs"):
            items = _list(data, field, path)
            names[field] = tuple(
                [
                    None if item is None else _name(item, f"{path}.{field}[{i}]")
                    for i, item in enumerate(items)
                ]
            )
            for name in names[field]:
                if name is not None and name not in self.tensors:
                    _fail(f"{path}.{field}", f"there is no tensor {name!r}")
        types = [
            self.type(t, f"{path}.types[{i}]") for i, t in enumerate(_list(data, "types", path))
        ]
        if len(types) != len(names["outputs"]) or not any(names["outputs"]):
            _fail(f"{path}.types", "expected one for each output, of which there is one at least")
        attrs = _options_from_json(data.get("attrs", {}), f"{path}.attrs")
        return Composite(op, names["inputs"], attrs, names["outputs"], tuple(types), digest)

    def tensor(self, data: Json, path: str, *, given: bool) -> str:
        if not isinstance(data, dict):
            _fail(path, "expected an object with name and type")
        if not data.keys() <= _TENSOR_FIELDS:
            _check_fields(data, _TENSOR_FIELDS, path)
        name = _name(data.get("name"), f"{path}.name")
        role = data.get("role", Role.ACTIVATION.value)
        if not isinstance(role, str) or role not in (INPUT_ROLES if given else _ROLES):
            _fail(f"{path}.role", f"unexpected role {role!r}")
        of = data.get("of")
        if of is not None:
            of = _name(of, f"{path}.of")
        self.tensors[name] = Tensor(name, self.type(data.get("type"), path), _ROLES[role], of)
        return name

    def type(self, spelled: Json, path: str) -> TensorType:
        if not isinstance(spelled, str):
            _fail(f"{path}.type", f"expected text such as 'float32[8, 5]', found {spelled!r}")
        known = self.types.get(spelled)
        if known is None:
            match = _TYPE.fullmatch(spelled)
            if match is None:
                _fail(f"{path}.type", f"expected text such as 'float32[8, 5]', found {spelled!r}")
            try:
                shape = tuple([int(size) for size in match[2].split(", ")]) if match[2] else ()
                known = self.types[spelled] = TensorType(shape, match[1])
            except (ValueError, InvalidGraph) as error:
                _fail(f"{path}.type", str(error))
        return known

    def node(self, data: Json, path: str) -> Node:
        if not isinstance(data, dict):
            _fail(path, "expected an object with op, inputs and outputs")
        if not data.keys() <= _NODE_FIELDS:
            _check_fields(data, _NODE_FIELDS, path)
        op, module, phase = data.get("op"), data.get("module", ""), data.get("phase")
        if not isinstance(op, str) or not isinstance(module, str):
            _fail(path, f"op and module have to be text, found {op!r} and {module!r}")
        if not isinstance(phase, str) or phase not in _PHASES:
            _fail(f"{path}.phase", f"unknown phase {phase!r}; one of {', '.join(Phase)}")
        inputs = tuple(
            [
                None if item is None else _name(item, f"{path}.inputs[{i}]")
                for i, item in enumerate(_list(data, "inputs", path))
            ]
        )
        outputs = tuple(
            [
                self.tensor(item, f"{path}.outputs[{i}]", given=False)
                for i, item in enumerate(_list(data, "outputs", path))
            ]
        )
        attrs = data.get("attrs", {})
        if not isinstance(attrs, dict):
            _fail(f"{path}.attrs", "expected an object")
        try:
            return Node(
                op,
                inputs,
                {k: _attr_from_json(v, f"{path}.attrs.{k}", 0) for k, v in attrs.items()},
                outputs,
                phase=_PHASES[phase],
                module=module,
                layer=_place(data, "layer", path),
                step=_place(data, "step", path),
                partner=_link(data, "partner", path),
                parameter=_link(data, "parameter", path),
            )
        except InvalidGraph as error:
            _fail(path, str(error))


def _attr_to_json(value: Attr) -> Json:
    if isinstance(value, tuple):
        return [_attr_to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    return value


def _attr_from_json(value: Json, path: str, depth: int) -> Attr:
    if isinstance(value, list):
        if depth >= MAX_ATTR_DEPTH:
            _fail(path, f"nested deeper than {MAX_ATTR_DEPTH} lists")
        return tuple([_attr_from_json(item, path, depth + 1) for item in value])
    if isinstance(value, dict):
        spelled = value.get("float")
        if len(value) != 1 or spelled not in ("inf", "-inf", "nan"):
            _fail(path, 'an object here has to be {"float": "inf"}, "-inf" or "nan"')
        return float(str(spelled))
    if isinstance(value, float) and not math.isfinite(value):  # 1e999 is valid JSON
        _fail(path, "the number is too large for a float")
    return value


def _list(data: Mapping[str, Json], field: str, path: str) -> list[Json]:
    value = data.get(field)
    if not isinstance(value, list):
        _fail(f"{path}.{field}".lstrip("."), "expected a list")
    return value


def _name(value: Json, path: str, what: str = "a tensor's name") -> str:
    if not isinstance(value, str) or not value:
        _fail(path, f"expected {what}, found {value!r}")
    return value


def _place(data: Mapping[str, Json], field: str, path: str) -> int | None:
    value = data.get(field)
    if value is not None and type(value) is not int:
        _fail(f"{path}.{field}", f"expected a whole number, found {value!r}")
    return value


def _link(data: Mapping[str, Json], field: str, path: str) -> str | None:
    value = data.get(field)
    return None if value is None else _name(value, f"{path}.{field}")


def _check_fields(data: Mapping[str, Json], known: frozenset[str], path: str) -> None:
    unknown = sorted(data.keys() - known)
    if unknown:
        _fail(
            f"{path}.{unknown[0]}".lstrip("."),
            f"unknown field; known are {', '.join(sorted(known))}",
        )


def _check_suffix(path: str | Path) -> None:
    if not str(path).endswith(SUFFIXES):
        raise GraphFileError(f"{path}: a graph's file ends in {' or '.join(SUFFIXES)}")


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _lines(items: list[str]) -> str:
    return "[\n " + ",\n ".join(items) + "\n]" if items else "[]"


def _fail(path: str, what: str) -> NoReturn:
    raise GraphFormatError(f"{path}: {what}")
