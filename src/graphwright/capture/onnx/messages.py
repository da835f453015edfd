"""The messages of an ONNX file that inference needs, read from their bytes.

Numbers of fields are those of onnx.proto. What is not listed here (documentation, training) is left
out. Values of tensors are read when they are needed (`tensors`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from graphwright.capture.onnx.wire import DamagedMessage, Value, fields, numbers, signed


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """A tensor as it is written in the file, or beside it (`external`)."""

    name: str
    dims: tuple[int, ...]
    kind: int
    raw: memoryview | None
    values: tuple[int | float, ...]
    external: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A tensor's name, its kind (0 where unknown) and dims: a size, a name, or None."""

    name: str
    kind: int
    dims: tuple[int | str | None, ...] | None


Attribute: TypeAlias = (
    "int | float | str | StoredTensor | GraphMessage | tuple[int | float | str, ...] | None"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMessage:
    """A node: `references` are attributes that stand for those of the function around it."""

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Attribute]
    references: Mapping[str, str] = field(default_factory=dict)
    raw: bytes = b""

    def __str__(self) -> str:
        op = f"{self.domain}.{self.op}" if self.domain else self.op
        called = self.name or next((f"of {name}" for name in self.outputs if name), "")
        return f"{op} {called!r}" if called else op


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphMessage:
    """A graph: nodes in order, and initialisers, which are its weights."""

    nodes: tuple[NodeMessage, ...]
    weights: Mapping[str, StoredTensor]
    inputs: tuple[Declared, ...]
    outputs: tuple[Declared, ...]
    known: Mapping[str, Declared]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionMessage:
    """An operator that the file defines by others; `opsets` are the versions of these."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[NodeMessage, ...]
    defaults: Mapping[str, Attribute]
    opsets: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMessage:
    """A whole file: `opsets` are the versions of operators by their domain."""

    graph: GraphMessage
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], FunctionMessage]
    ir_version: int


class _Message:
    """The fields of a message by their numbers."""

    def __init__(self, data: memoryview) -> None:
        self.by_number: dict[int, list[tuple[int, Value]]] = {}
        for number, kind, value in fields(data):
            self.by_number.setdefault(number, []).append((kind, value))

    def data(self, number: int) -> list[memoryview]:
        made = []
        for _, value in self.by_number.get(number, ()):
            if isinstance(value, int):
                raise DamagedMessage(f"field {number} holds a number where bytes belong")
            made.append(value)
        return made

    def messages(self, number: int) -> list[_Message]:
        return [_Message(value) for value in self.data(number)]

    def texts(self, number: int) -> tuple[str, ...]:
        try:
            return tuple(bytes(value).decode() for value in self.data(number))
        except UnicodeDecodeError as error:
            raise DamagedMessage(f"field {number} is no text: {error}") from None

    def text(self, number: int) -> str:
        return ("", *self.texts(number))[-1]

    def whole(self, number: int, default: int = 0) -> int:
        _, value = self.by_number.get(number, [(0, default)])[-1]
        if not isinstance(value, int):
            raise DamagedMessage(f"field {number} holds bytes where a number belongs")
        return signed(value)

    def numbers(self, number: int, form: str) -> tuple[int | float, ...]:
        made: list[int | float] = []
        for kind, value in self.by_number.get(number, ()):
            made += numbers(kind, value, form)
        return tuple(made)


def _opsets(messages: Sequence[_Message]) -> dict[str, int]:
    """The versions of operators by their domain; the name of the standard one is empty."""
    made = {m.text(1): m.whole(2) for m in messages}
    return {"": made["ai.onnx"], **made} if "ai.onnx" in made else made


def read_model(data: memoryview) -> ModelMessage:
    """Read the bytes of an ONNX file."""
    model = _Message(data)
    graphs = model.data(7)
    if not graphs:
        raise DamagedMessage("it holds no graph")
    opsets = _opsets(model.messages(8))
    if not opsets:
        raise DamagedMessage("it does not say which versions of operators it uses")
    functions = {
        (m.text(10), m.text(1)): FunctionMessage(
            inputs=m.texts(4),
            outputs=m.texts(5),
            nodes=tuple(map(read_node, m.data(7))),
            defaults=dict(_attribute(each)[:2] for each in m.messages(11)),
            opsets=_opsets(m.messages(9)),
        )
        for m in model.messages(25)
    }
    opsets.setdefault("", 1)
    return ModelMessage(
        graph=_graph(graphs[-1]), opsets=opsets, functions=functions, ir_version=model.whole(1)
    )


def _graph(data: memoryview) -> GraphMessage:
    graph = _Message(data)
    if graph.data(15):
        raise DamagedMessage("it holds sparse weights, which are not read")
    weights = [_tensor(m) for m in graph.messages(5)]
    return GraphMessage(
        nodes=tuple(map(read_node, graph.data(1))),
        weights={tensor.name: tensor for tensor in weights},
        inputs=tuple(map(_declared, graph.messages(11))),
        outputs=tuple(map(_declared, graph.messages(12))),
        known={d.name: d for d in map(_declared, graph.messages(13))},
    )


def read_node(data: memoryview) -> NodeMessage:
    """Read the bytes of a node."""
    node = _Message(data)
    attrs = [_attribute(m) for m in node.messages(5)]
    domain = node.text(7)
    return NodeMessage(
        op=node.text(4),
        domain="" if domain == "ai.onnx" else domain,
        name=node.text(3),
        inputs=node.texts(1),
        outputs=node.texts(2),
        attrs={name: value for name, value, of in attrs if not of},
        references={name: of for name, _, of in attrs if of},
        raw=bytes(data),
    )


def _attribute(m: _Message) -> tuple[str, Attribute, str]:
    """Its name, value and, in a function, the name of the attribute that it stands for."""
    name, of = m.text(1), m.text(21)
    kind = m.whole(20) or next((n - 1 for n in range(2, 10) if n in m.by_number), 0)
    value: Attribute = None
    match kind:
        case 1:
            value = float((*m.numbers(2, "f"), 0.0)[0])
        case 2:
            value = m.whole(3)
        case 3:
            value = bytes((*m.data(4), b"")[0]).decode(errors="replace")
        case 4:
            value = _tensor(_Message((*m.data(5), memoryview(b""))[0]))
        case 5:
            value = _graph((*m.data(6), memoryview(b""))[0])
        case 6:
            value = m.numbers(7, "f")
        case 7:
            value = m.numbers(8, "q")
        case 8:
            value = tuple(bytes(v).decode(errors="replace") for v in m.data(9))
    return name, value, of


def _tensor(m: _Message) -> StoredTensor:
    raw = m.data(9)
    values = (
        *m.numbers(4, "f"),
        *m.numbers(5, "q"),
        *m.numbers(7, "q"),
        *m.numbers(10, "d"),
        *m.numbers(11, "Q"),
    )
    external = {each.text(1): each.text(2) for each in m.messages(13)} if m.whole(14) else {}
    return StoredTensor(
        name=m.text(8),
        dims=tuple(int(n) for n in m.numbers(1, "q")),
        kind=m.whole(2),
        raw=raw[-1] if raw else None,
        values=values,
        external=external,
    )


def _declared(m: _Message) -> Declared:
    kind, dims = 0, None
    for type in m.messages(2):
        for tensor in type.messages(1):
            kind = tensor.whole(1)
            for shape in tensor.messages(2):
                dims = tuple(map(_dim, shape.messages(1)))
    return Declared(name=m.text(1), kind=kind, dims=dims)


def _dim(m: _Message) -> int | str | None:
    if 1 in m.by_number:
        size = m.whole(1)
        return size if size > 0 else None
    return m.text(2) or None
