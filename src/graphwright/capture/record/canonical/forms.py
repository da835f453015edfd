"""One spelling for each operator: what the recorder writes for an ATen call.

PyTorch has many names for the same thing (`t`, `transpose`, `permute`; `zeros`, `new_zeros`,
`zeros_like`) and many ways to give the same argument (`dim=-1`, `size=[-1, 8]`). After this file
there is one:

    _unsafe_view, reshape, view        aten.view(size = the whole shape)
    t, transpose, permute              aten.permute(dims >= 0)
    zeros, ones, full, empty, *_like   aten.full(size, fill_value, dtype)
    arange (three overloads)           aten.arange.start_step
    split, chunk, unbind               one aten.slice.Tensor or aten.select.int for each result
    squeeze (four overloads)           aten.squeeze.dims
    sum                                aten.sum.dim_IntList with all dims named
    detach, alias, clone, lift_fresh   nothing: tensors are values here, so a copy is its original

A rule takes the call's arguments by schema name and its result, and emits nodes; it never computes.
Calls without a rule are written as they are, with dims made non-negative where all of a call's
tensors have the same rank or it is known which one's dims they are, and sorted where their order
means nothing. Layout (strides, memory formats, devices) is no part of a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from graphwright.aten import Arguments, aten, dtype_name, split_arguments
from graphwright.capture.record.tape import Entry, Value
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
    rule = RULES.get(overload)
    if rule is not None:
        rule(emit, arguments, result)
        return
    overload, arguments = _scalar_overload(overload, arguments)
    inputs, attrs = split_arguments(overload, arguments)
    outputs = [item for item in _flatten(result) if isinstance(item, Tensor)]
    _normalise_dims(overload, inputs, attrs, outputs)
    for argument in overload._schema.arguments:  # one number where two or three are meant
        given, count = attrs.get(argument.name), getattr(argument, "N", None)
        if count and isinstance(given, tuple) and len(given) == 1:
            attrs[argument.name] = given * count
    if attrs.get("stride") == () and "kernel_size" in attrs:
        attrs["stride"] = attrs["kernel_size"]
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


_DIM_ARGUMENTS = ("dim", "dims", "dim0", "dim1", "dim2", "dimension")

_COMMUTING_DIMS = {
    aten.sum.dim_IntList, aten.nansum.default, aten.mean.dim, aten.amax.default, aten.amin.default,
    aten.logsumexp.default, aten.any.dims, aten.all.dims, aten.count_nonzero.dim_IntList,
    aten.norm.ScalarOpt_dim, aten.norm.ScalarOpt_dim_dtype, aten.linalg_vector_norm.default,
    aten.var.correction, aten.std.correction, aten.var_mean.correction, aten.std_mean.correction,
}  # fmt: skip
"""Reductions over a set of dims: their order means nothing, so it is sorted."""

_DIMS_OF_INPUT = _COMMUTING_DIMS | {
    aten.argmax.default, aten.argmin.default, aten.max.dim, aten.min.dim, aten.aminmax.default,
    aten.prod.dim_int, aten.any.dim, aten.all.dim, aten.median.dim, aten.nanmedian.dim,
    aten.mode.default, aten.kthvalue.default, aten.index_select.default, aten.index_add.default,
    aten.index_copy.default, aten.index_fill.int_Scalar, aten.index_fill.int_Tensor,
    aten.index_reduce.default, aten.diagonal.default, aten.diagonal_scatter.default,
    aten.unfold.default,
}  # fmt: skip
"""Operators whose dims are those of their first input, though other tensors differ in rank."""

_DIMS_OF_OUTPUT = {aten.unsqueeze.default, aten.diag_embed.default, aten.cat.default}

_ALL_DIMS = {aten.sum.dim_IntList, aten.amax.default, aten.amin.default, aten.logsumexp.default}
"""Reductions for which no dims mean all."""


def _normalise_dims(
    overload: torch._ops.OpOverload,
    inputs: Sequence[Tensor | None],
    attrs: dict[str, Attr],
    outputs: Sequence[Tensor],
) -> None:
    """Make dims non-negative where it is certain which tensor's dims they are."""
    rank = _rank_of_dims(overload, inputs, attrs, outputs)
    if rank is None:
        return
    if overload in _ALL_DIMS and not attrs["dim"]:
        attrs["dim"] = tuple(range(rank))
    for name in _DIM_ARGUMENTS:
        value = attrs.get(name)
        if type(value) is int:
            attrs[name] = value % rank if rank else 0
        elif isinstance(value, tuple) and all(type(item) is int for item in value):
            dims = [item % rank if rank else 0 for item in value]  # type: ignore[operator]
            attrs[name] = tuple(sorted(dims) if overload in _COMMUTING_DIMS else dims)


def _rank_of_dims(
    overload: torch._ops.OpOverload,
    inputs: Sequence[Tensor | None],
    attrs: dict[str, Attr],
    outputs: Sequence[Tensor],
) -> int | None:
    """Return the rank that dims count in, None where it is not known: then they stay as given."""
    sizes = attrs.get("input_sizes")
    if isinstance(sizes, tuple):
        return len(sizes)
    given = [x.dim() for x in inputs if isinstance(x, Tensor)]  # or a number
    if overload in _DIMS_OF_OUTPUT:
        return outputs[0].dim()
    if overload in _DIMS_OF_INPUT:
        return given[0]
    ranks = {*given, *(out.dim() for out in outputs)}
    return ranks.pop() if given and len(ranks) == 1 else None
