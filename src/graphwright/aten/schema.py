"""Between a call of an ATen operator and a node: which arguments are tensors, which are attributes.

    call     aten.convolution(x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    bound    {"input": x, "weight": w, "bias": None, "stride": [1, 1], ...}        bind_arguments
    node     inputs (x, w, None)   attrs {"stride": (1, 1), ...}                   split_arguments
    call     the same again, from a node                                           join_arguments

Tensor arguments keep the order of the schema; a list of tensors is spliced in place, and where an
operator has several lists, as a recurrence, the attribute `lengths` tells them apart. Every other
argument is an attribute, also where it has its default, except those that choose a layout or place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import torch

from graphwright.aten.types import dtype_name, numbered_dtype, to_dtype
from graphwright.ir import Attr

Arguments: TypeAlias = dict[str, Any]
"""A call's arguments by schema name."""

LAYOUT_ARGUMENTS = frozenset({"device", "layout", "pin_memory", "memory_format", "non_blocking"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operator's schema; `kind` is tensor, tensors, dtype, layout or plain."""

    name: str
    kind: str
    keyword: bool
    default: object
    required: bool


@cache
def parameters(overload: torch._ops.OpOverload) -> tuple[Parameter, ...]:
    """Return an operator's parameters."""
    return tuple(
        Parameter(
            name=argument.name,
            kind=_kind(argument.name, str(argument.real_type)),
            keyword=argument.kwarg_only,
            default=_default(argument),
            required=not argument.has_default_value(),
        )
        for argument in overload._schema.arguments
    )


def _default(argument: torch.Argument) -> object:
    """Return a parameter's default; a schema gives that of a dtype as a number."""
    value = argument.default_value
    if "ScalarType" in str(argument.real_type) and isinstance(value, int):
        return numbered_dtype(value)
    return value


def _kind(name: str, type_name: str) -> str:
    if name in LAYOUT_ARGUMENTS:
        return "layout"
    if "Tensor" in type_name:
        return "tensors" if "List[" in type_name else "tensor"
    return "dtype" if "ScalarType" in type_name else "plain"


def bind_arguments(
    overload: torch._ops.OpOverload, args: Sequence[object], kwargs: Mapping[str, object]
) -> Arguments:
    """Return a call's arguments by name, defaults included."""
    bound: Arguments = {}
    for index, parameter in enumerate(parameters(overload)):
        name = parameter.name
        if index < len(args) and not parameter.keyword:
            bound[name] = args[index]
        else:
            bound[name] = kwargs.get(name, parameter.default)
    return bound


def split_arguments(
    overload: torch._ops.OpOverload, arguments: Arguments
) -> tuple[list[torch.Tensor | None], dict[str, Attr]]:
    """Return a node's inputs and attributes for a call."""
    inputs: list[torch.Tensor | None] = []
    attrs: dict[str, Attr] = {}
    lengths: list[int] = []
    for parameter in parameters(overload):
        value = arguments.get(parameter.name, parameter.default)
        match parameter.kind:
            case "tensor":
                inputs.append(value)
            case "tensors":
                inputs.extend(value or ())
                lengths.append(len(value or ()))
            case "plain" | "dtype":
                attrs[parameter.name] = to_attr(value)
            case _:
                pass
    if len(lengths) > 1:
        attrs["lengths"] = tuple(lengths)
    return inputs, attrs


def to_attr(value: object) -> Attr:
    """Return an argument as plain data."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return int(value)
        case float():
            return float(value)
        case list() | tuple():
            return tuple(to_attr(item) for item in value)
        case torch.dtype():
            return dtype_name(value)
        case torch.SymInt() | torch.SymBool() | torch.SymFloat():
            return to_attr(value.node.maybe_as_int())
        case _:
            raise TypeError(
                f"an argument of type {type(value).__name__} cannot be written in a graph"
            )


def join_arguments(
    overload: torch._ops.OpOverload, num_inputs: int, attrs: Mapping[str, Attr]
) -> Callable[[Sequence[Any], torch.device], tuple[list[Any], dict[str, Any]]]:
    """Return a function from a node's inputs to an operator's positional and named arguments."""
    declared = parameters(overload)
    singles = sum(parameter.kind == "tensor" for parameter in declared)
    lengths = iter(_whole(attrs.get("lengths", (num_inputs - singles,))))
    takes: list[tuple[str, int]] = []  # (kind, how many inputs) or a fixed value by position
    fixed: dict[int, object] = {}
    names: list[str | None] = []
    for index, parameter in enumerate(declared):
        names.append(parameter.name if parameter.keyword else None)
        match parameter.kind:
            case "tensor":
                takes.append(("one", 1))
            case "tensors":
                takes.append(("list", next(lengths)))
            case "layout":
                takes.append(("device" if parameter.name == "device" else "layout", 0))
                fixed[index] = parameter.default
            case _:
                takes.append(("fixed", 0))
                value = attrs[parameter.name]
                fixed[index] = to_dtype(value) if parameter.kind == "dtype" else _to_list(value)

    def arrange(inputs: Sequence[Any], device: torch.device) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        at = 0
        for index, (kind, count) in enumerate(takes):
            match kind:
                case "one":
                    value: Any = inputs[at]
                case "list":
                    value = list(inputs[at : at + count])
                case "device":
                    value = device
                case _:
                    value = fixed[index]
            at += count
            name = names[index]
            if name is None:
                args.append(value)
            elif kind != "layout":
                kwargs[name] = value
        return args, kwargs

    return arrange


def _whole(value: Attr) -> list[int]:
    assert isinstance(value, tuple)
    return [n for n in value if isinstance(n, int)]


def _to_list(value: Attr) -> object:
    return list(map(_to_list, value)) if isinstance(value, tuple) else value
