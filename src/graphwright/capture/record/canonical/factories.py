"""Canonical forms of ranges, sums and filled tensors (see `canonical`)."""

from __future__ import annotations

import torch
from torch import Tensor

from graphwright.aten import Arguments, aten, dtype_name
from graphwright.capture.record.canonical.forms import Emit, rule
from graphwright.ir import Attr

# Ranges.


@rule(aten.arange.default, aten.arange.start, aten.arange.start_step)
def _arange(emit: Emit, a: Arguments, out: Tensor) -> None:
    attrs: dict[str, Attr] = {
        "start": a.get("start", 0),
        "end": a["end"],
        "step": a.get("step", 1),
        "dtype": dtype_name(out.dtype),
    }
    emit("aten.arange.start_step", [], attrs, [out])


# Sums.


@rule(aten.sum.default)
def _sum(emit: Emit, a: Arguments, out: Tensor) -> None:
    attrs: dict[str, Attr] = {
        "dim": tuple(range(a["self"].dim())), "keepdim": False, "dtype": _given_dtype(a),
    }  # fmt: skip
    emit("aten.sum.dim_IntList", [a["self"]], attrs, [out])


def _given_dtype(a: Arguments) -> str | None:
    return None if a["dtype"] is None else dtype_name(a["dtype"])


# Filled tensors.


def _emit_full(emit: Emit, value: float, out: Tensor) -> None:
    if out.dtype.is_floating_point:
        value = float(value)
    elif out.dtype == torch.bool:
        value = bool(value)
    else:
        value = int(value)
    attrs: dict[str, Attr] = {
        "size": tuple(out.shape), "fill_value": value, "dtype": dtype_name(out.dtype),
    }  # fmt: skip
    emit("aten.full", [], attrs, [out])


@rule(
    aten.zeros.default,
    aten.zeros_like.default,
    aten.new_zeros.default,
    aten.zero.default,
    aten._efficientzerotensor.default,
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.empty_strided.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
)
def _zeros(emit: Emit, a: Arguments, out: Tensor) -> None:
    _emit_full(emit, 0, out)


@rule(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
def _ones(emit: Emit, a: Arguments, out: Tensor) -> None:
    _emit_full(emit, 1, out)


@rule(aten.full.default, aten.full_like.default, aten.new_full.default)
def _full(emit: Emit, a: Arguments, out: Tensor) -> None:
    _emit_full(emit, a["fill_value"], out)


@rule(aten.fill.Scalar)
def _fill(emit: Emit, a: Arguments, out: Tensor) -> None:
    _emit_full(emit, a["value"], out)


@rule(aten.scalar_tensor.default)
def _scalar_tensor(emit: Emit, a: Arguments, out: Tensor) -> None:
    _emit_full(emit, a["s"], out)
