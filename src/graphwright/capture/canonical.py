"""One spelling for each operator: what the recorder writes for an ATen call.

PyTorch has many names for the same thing (`t`, `transpose`, `permute`; `zeros`, `new_zeros`, `zeros_like`)
and many ways to give the same argument (`dim=-1`, `size=[-1, 8]`). After this file there is one:

    _unsafe_view, reshape, view        aten.view(size = the whole shape)
    t, transpose, permute              aten.permute(dims >= 0)
    zeros, ones, full, empty, *_like   aten.full(size, fill_value, dtype)
    arange (three overloads)           aten.arange.start_step
    split, chunk, unbind               one aten.slice.Tensor or aten.select.int for each result
    squeeze (four overloads)           aten.squeeze.dims
    sum                                aten.sum.dim_IntList with all dims named
    detach, alias, clone, lift_fresh   nothing: tensors are values here, so a copy is its original

A rule takes the call's arguments by schema name and its result, and emits nodes; it never computes. Calls
without a rule are written as they are, with dims made non-negative. Layout (strides, memory formats, devices)
is no part of a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from graphwright.capture.aten import aten
from graphwright.capture.schema import Arguments, split_arguments
from graphwright.capture.tape import Entry, Value, dtype_name
from graphwright.ir import Attr

Inputs = Sequence[Tensor | Value | None]


class Emit(Protocol):
    """Writes one node; `alias` gives a tensor the value of another instead."""

    def __call__(
        self, op: str, inputs: Inputs, attrs: dict[str, Attr], outputs: Sequence[Tensor]
    ) -> None: ...

    def alias(self, result: Tensor, source: Tensor | Value) -> None: ...

    def producer(self, x: Tensor) -> Entry | None: ...


Rule = Callable[[Emit, Arguments, Any], None]

RULES: dict[object, Rule] = {}


def rule(*overloads: object) -> Callable[[Rule], Rule]:
    """Register a rule for operators."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(overloads, function))
        return function

    return register


def write(
    emit: Emit, overload: torch._ops.OpOverload, arguments: Arguments, result: object
) -> None:
    """Write the canonical form of one call."""
    found = RULES.get(overload)
    if found is not None:
        found(emit, arguments, result)
        return
    overload, arguments = _scalar_overload(overload, arguments)
    inputs, attrs = split_arguments(overload, arguments)
    _normalise_dims(overload, inputs, attrs)
    if attrs.get("stride") == () and "kernel_size" in attrs:
        attrs["stride"] = attrs["kernel_size"]
    outputs = [item for item in _flatten(result) if isinstance(item, Tensor)]
    if "dtype" in attrs and not any(x is not None for x in inputs):
        attrs["dtype"] = dtype_name(outputs[0].dtype)  # a factory: no argument says it otherwise
    emit(operator_name(overload), inputs, attrs, outputs)


def operator_name(overload: torch._ops.OpOverload) -> str:
    """Return an operator's name in a graph: `aten.mm`, `aten.sum.dim_IntList`."""
    name = str(overload)
    return name.removesuffix(".default")


def _flatten(result: object) -> list[object]:
    if isinstance(result, (tuple, list)):
        return [leaf for item in result for leaf in _flatten(item)]
    return [result]


def _scalar_overload(
    overload: torch._ops.OpOverload, arguments: Arguments
) -> tuple[torch._ops.OpOverload, Arguments]:
    """`add.Tensor(x, 1)` is `add.Scalar(x, 1)`: numbers belong in attributes."""
    if "Tensor" not in overload._overloadname or not isinstance(
        arguments.get("other"), (bool, int, float)
    ):
        return overload, arguments
    name = overload._overloadname.replace("Tensor", "Scalar")
    packet = overload.overloadpacket
    if name not in packet.overloads():
        return overload, arguments
    scalar = getattr(packet, name)
    known = {argument.name for argument in scalar._schema.arguments}
    if not arguments.keys() <= known:
        return overload, arguments
    return scalar, arguments


_UNSORTED_DIMS = {aten.roll.default, aten.permute.default, aten.flip.default}


def _normalise_dims(
    overload: torch._ops.OpOverload, inputs: Sequence[Tensor | None], attrs: dict[str, Attr]
) -> None:
    first = next((x for x in inputs if x is not None), None)
    if first is None:
        return
    sizes = attrs.get("input_sizes")
    rank = len(sizes) if isinstance(sizes, tuple) else first.dim()
    if overload is aten.unsqueeze.default:
        rank += 1
    for name in ("dim", "dims", "dim0", "dim1", "dim2", "dimension"):
        value = attrs.get(name)
        if type(value) is int:
            attrs[name] = value % rank if rank else 0
        elif isinstance(value, tuple) and all(type(item) is int for item in value):
            dims = [item % rank if rank else 0 for item in value]  # type: ignore[operator]
            attrs[name] = tuple(dims if overload in _UNSORTED_DIMS else sorted(dims))
    if overload in _ALL_DIMS and not attrs["dim"]:
        attrs["dim"] = tuple(range(rank))


_ALL_DIMS = {aten.sum.dim_IntList, aten.amax.default, aten.amin.default, aten.logsumexp.default}
