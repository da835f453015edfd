"""Is this a call that the operator takes? Its own schema and kernel say so.

    attributes, inputs  --complete_call-->  the whole call  --infer_types-->  output types

Attributes that are left out take the schema's defaults, optional tensors at the end are absent.
Whatever the operator would refuse is an `InvalidCall` that names what is missing or wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TypeVar
from unittest.mock import patch

import torch

from graphwright.aten.invoke import call_kernel, overload_of
from graphwright.aten.schema import Parameter, parameters, to_attr
from graphwright.aten.types import tensor_type, to_dtype
from graphwright.describe import Types
from graphwright.errors import GraphwrightError, InvalidCall, InvalidGraph, UnknownOperator
from graphwright.ir import CONSTANT_OP, Attr, Graph, TensorType

Value = TypeVar("Value")


def complete_call(
    op: str, attrs: Mapping[str, object], inputs: Sequence[Value | None]
) -> tuple[dict[str, Attr], list[Value | None]]:
    """The attributes and inputs of a call with everything that the schema knows filled in."""
    return _complete_attrs(op, attrs), _complete_inputs(op, inputs)


def _complete_attrs(op: str, attrs: Mapping[str, object]) -> dict[str, Attr]:
    taken = {p.name: p for p in parameters(overload_of(op)) if p.kind in ("plain", "dtype")}
    unknown = [name for name in attrs if name not in taken]
    if unknown:
        raise InvalidCall(
            f"{op} has no attribute {unknown[0]!r}; it has {', '.join(taken) or 'none'}. "
            f"{_schema(op)}"
        )
    missing = [name for name, p in taken.items() if p.required and name not in attrs]
    if missing:
        raise InvalidCall(f"{op} needs the attribute {', '.join(missing)}. {_schema(op)}")
    complete: dict[str, Attr] = {}
    for name, parameter in taken.items():
        try:
            complete[name] = _repeated(op, name, to_attr(attrs.get(name, parameter.default)))
            if parameter.kind == "dtype":
                to_dtype(complete[name])
        except TypeError as error:
            raise InvalidCall(f"{op}, attribute {name}: {error}. {_schema(op)}") from None
    return complete


def _repeated(op: str, name: str, value: Attr) -> Attr:
    """One number where the schema says ``int[2]`` stands for two."""
    argument = next(a for a in overload_of(op)._schema.arguments if a.name == name)
    count = getattr(argument, "N", None)
    alone = isinstance(value, int | float) and not isinstance(value, bool)
    return (value,) * count if count and alone else value


def _complete_inputs(op: str, inputs: Sequence[Value | None]) -> list[Value | None]:
    taken = [p for p in parameters(overload_of(op)) if p.kind in ("tensor", "tensors")]
    complete = list(inputs)
    names = ", ".join(p.name for p in taken) or "none"
    if any(p.kind == "tensors" for p in taken):
        if len(complete) < len(taken) - 1:
            raise InvalidCall(
                f"{op} takes the tensors {names}; {len(complete)} given. {_schema(op)}"
            )
        return complete
    if len(complete) > len(taken):
        raise InvalidCall(
            f"{op} takes {len(taken)} tensors ({names}); {len(complete)} given. {_schema(op)}"
        )
    complete += [None] * (len(taken) - len(complete))
    absent = [
        f"{p.name} (tensor {number})"
        for number, (p, value) in enumerate(zip(taken, complete, strict=True))
        if value is None and not _optional(op, p)
    ]
    if absent:
        raise InvalidCall(
            f"{op} needs {' and '.join(absent)}; {sum(v is not None for v in inputs)} of "
            f"{len(taken)} tensors given. {_schema(op)}"
        )
    return complete


def _optional(op: str, parameter: Parameter) -> bool:
    argument = next(a for a in overload_of(op)._schema.arguments if a.name == parameter.name)
    return isinstance(argument.type, torch.OptionalType)


def call_checked(
    op: str, inputs: Sequence[torch.Tensor | None], attrs: Mapping[str, Attr]
) -> tuple[torch.Tensor, ...]:
    """The kernel's outputs; what the kernel refuses is an `InvalidCall` with PyTorch's reason."""
    for number, tensor in enumerate(inputs):
        if tensor is not None and not isinstance(tensor, torch.Tensor):
            raise InvalidCall(
                f"{op}: input {number} is a {type(tensor).__module__}.{type(tensor).__name__}, "
                "not a torch.Tensor; torch.as_tensor makes one"
            )
    try:
        return call_kernel(op, inputs, attrs)
    except GraphwrightError:
        raise
    except Exception as error:
        given = ", ".join("absent" if t is None else str(tensor_type(t)) for t in inputs)
        raise InvalidCall(
            f"PyTorch refuses {op}({given or 'no tensors'}; {_show(attrs)}): {_reason(error)}. "
            f"{_schema(op)}"
        ) from error


def infer_types(op: str, inputs: Sequence[TensorType | None], attrs: Mapping[str, Attr]) -> Types:
    """The types of a call, those of its outputs from a run on tensors without storage."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    # PyTorch logs the traceback of what it refuses; the user gets the reason as an error.
    log = logging.getLogger("torch._subclasses.fake_tensor")
    with patch.object(log, "disabled", True), FakeTensorMode():
        tensors = [
            None if t is None else torch.empty(t.shape, dtype=to_dtype(t.dtype)) for t in inputs
        ]
        made = call_checked(op, tensors, attrs)
    return Types(tuple(inputs), tuple(map(tensor_type, made)))


def check_calls(graph: Graph) -> None:
    """Raise InvalidGraph where PyTorch refuses a node's call or makes other types of its inputs.

    A graph from a file obeys the rules of graphs, which know nothing of operators. What this
    PyTorch does not have is left alone.
    """
    seen = set()
    for node in graph.nodes:
        inputs = tuple(None if name is None else graph.tensors[name].type for name in node.inputs)
        outputs = tuple(graph.tensors[name].type for name in node.outputs)
        call = (node.op, node.attrs, inputs, outputs)
        if node.op == CONSTANT_OP or call in seen:
            continue
        seen.add(call)
        try:
            made = infer_types(node.op, inputs, node.attrs).outputs
        except UnknownOperator:
            continue
        except (GraphwrightError, TypeError) as error:
            raise InvalidGraph(f"node {node.name}: {error}", rule="call", node=node.name) from None
        if made != outputs:
            raise InvalidGraph(
                f"node {node.name}: {node.op} makes {', '.join(map(str, made)) or 'nothing'} of "
                f"these inputs, not {', '.join(map(str, outputs))}",
                rule="call",
                node=node.name,
            )


def _schema(op: str) -> str:
    return f"Its schema: {overload_of(op)._schema}"


def _show(attrs: Mapping[str, Attr]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in attrs.items()) or "no attributes"


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0].rstrip(".") if lines else "") or type(error).__name__
