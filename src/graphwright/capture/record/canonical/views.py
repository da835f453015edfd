"""Canonical forms of views, copies and splits (see `canonical`)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from graphwright.aten import Arguments, aten, dtype_name
from graphwright.capture.record.canonical.forms import Emit, rule
from graphwright.capture.record.tape import Value
from graphwright.ir import Attr

# Copies and other names for the same value.


@rule(
    aten.detach.default,
    aten.alias.default,
    aten.clone.default,
    aten.lift_fresh.default,
    aten.lift_fresh_copy.default,
    aten.lift.default,
    aten.contiguous.default,
    aten.detach_copy.default,
    aten.alias_copy.default,
)
def _copy(emit: Emit, a: Arguments, out: Tensor) -> None:
    emit.alias(out, a["self"])


@rule(aten._to_copy.default)
def _to_copy(emit: Emit, a: Arguments, out: Tensor) -> None:
    if out.dtype == a["self"].dtype:
        emit.alias(out, a["self"])
    else:
        emit("aten._to_copy", [a["self"]], {"dtype": dtype_name(out.dtype)}, [out])


# Views.


@rule(
    aten.view.default,
    aten._unsafe_view.default,
    aten.reshape.default,
    aten._reshape_alias.default,
    aten.view_copy.default,
)
def _view(emit: Emit, a: Arguments, out: Tensor) -> None:
    source: Tensor | Value = a["self"]
    shape = tuple(a["self"].shape)
    inner = emit.producer(a["self"])
    if inner is not None and inner.op == "aten.view":  # a view of a view is a view
        assert inner.inputs[0] is not None
        source, shape = inner.inputs[0], inner.inputs[0].type.shape
    if tuple(out.shape) == shape:
        emit.alias(out, source)
    else:
        emit("aten.view", [source], {"size": tuple(out.shape)}, [out])


@rule(aten.expand.default, aten.expand_copy.default)
def _expand(emit: Emit, a: Arguments, out: Tensor) -> None:
    if out.shape == a["self"].shape:
        emit.alias(out, a["self"])
    else:
        emit("aten.expand", [a["self"]], {"size": tuple(out.shape), "implicit": False}, [out])


def _emit_permute(emit: Emit, x: Tensor, dims: Sequence[int], out: Tensor) -> None:
    source: Tensor | Value = x
    inner = emit.producer(x)
    if inner is not None and inner.op == "aten.permute":  # two permutations are one
        assert inner.inputs[0] is not None
        source, order = inner.inputs[0], inner.attrs["dims"]
        dims = [order[d] for d in dims]  # type: ignore[index, misc]
    if list(dims) == list(range(x.dim())):
        emit.alias(out, source)
    else:
        emit("aten.permute", [source], {"dims": tuple(dims)}, [out])


@rule(aten.permute.default)
def _permute(emit: Emit, a: Arguments, out: Tensor) -> None:
    _emit_permute(emit, a["self"], [dim % out.dim() for dim in a["dims"]], out)


@rule(aten.t.default)
def _t(emit: Emit, a: Arguments, out: Tensor) -> None:
    _emit_permute(emit, a["self"], list(range(out.dim()))[::-1], out)


@rule(aten.transpose.int)
def _transpose(emit: Emit, a: Arguments, out: Tensor) -> None:
    dims = list(range(out.dim()))
    if dims:
        one, other = a["dim0"] % out.dim(), a["dim1"] % out.dim()
        dims[one], dims[other] = dims[other], dims[one]
    _emit_permute(emit, a["self"], dims, out)


@rule(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
def _squeeze(emit: Emit, a: Arguments, out: Tensor) -> None:
    x: Tensor = a["self"]
    asked = a.get("dim", range(x.dim()))
    dims = {d % max(x.dim(), 1) for d in ([asked] if isinstance(asked, int) else asked)}
    gone = tuple(d for d in range(x.dim()) if d in dims and x.shape[d] == 1)
    if gone:
        emit("aten.squeeze.dims", [x], {"dim": gone}, [out])
    else:
        emit.alias(out, x)


@rule(aten.slice.Tensor)
def _slice(emit: Emit, a: Arguments, out: Tensor) -> None:
    x: Tensor = a["self"]
    dim = a["dim"] % x.dim()
    start, end = clamp_range(a["start"], a["end"], x.shape[dim])
    _emit_slice(emit, x, dim, start, end, a["step"], out)


def _emit_slice(
    emit: Emit, x: Tensor, dim: int, start: int, end: int, step: int, out: Tensor
) -> None:
    if out.shape == x.shape and step == 1:
        emit.alias(out, x)
    else:
        attrs: dict[str, Attr] = {"dim": dim, "start": start, "end": end, "step": step}
        emit("aten.slice.Tensor", [x], attrs, [out])


@rule(aten.select.int)
def _select(emit: Emit, a: Arguments, out: Tensor) -> None:
    x: Tensor = a["self"]
    dim = a["dim"] % x.dim()
    emit("aten.select.int", [x], {"dim": dim, "index": a["index"] % x.shape[dim]}, [out])


def clamp_range(start: int | None, end: int | None, size: int) -> tuple[int, int]:
    """Return a slice's bounds as Python means them, within [0, size]."""
    low, high, _ = slice(start, end).indices(size)
    return low, max(low, high)


@rule(aten.slice_backward.default)
def _slice_backward(emit: Emit, a: Arguments, out: Tensor) -> None:
    dim = a["dim"] % out.dim()
    start, end = clamp_range(a["start"], a["end"], out.shape[dim])
    attrs: dict[str, Attr] = {
        "input_sizes": tuple(out.shape), "dim": dim, "start": start, "end": end, "step": a["step"],
    }  # fmt: skip
    emit("aten.slice_backward", [a["grad_output"]], attrs, [out])


@rule(aten.slice_scatter.default)
def _slice_scatter(emit: Emit, a: Arguments, out: Tensor) -> None:
    dim = a["dim"] % out.dim()
    start, end = clamp_range(a["start"], a["end"], out.shape[dim])
    attrs: dict[str, Attr] = {"dim": dim, "start": start, "end": end, "step": a["step"]}
    emit("aten.slice_scatter", [a["self"], a["src"]], attrs, [out])


@rule(aten.select_backward.default)
def _select_backward(emit: Emit, a: Arguments, out: Tensor) -> None:
    dim = a["dim"] % out.dim()
    attrs: dict[str, Attr] = {
        "input_sizes": tuple(out.shape), "dim": dim, "index": a["index"] % out.shape[dim],
    }  # fmt: skip
    emit("aten.select_backward", [a["grad_output"]], attrs, [out])


@rule(aten.select_scatter.default)
def _select_scatter(emit: Emit, a: Arguments, out: Tensor) -> None:
    dim = a["dim"] % out.dim()
    attrs: dict[str, Attr] = {"dim": dim, "index": a["index"] % out.shape[dim]}
    emit("aten.select_scatter", [a["self"], a["src"]], attrs, [out])


# Several results.


@rule(
    aten.split.Tensor,
    aten.unsafe_split.Tensor,
    aten.split_with_sizes.default,
    aten.unsafe_split_with_sizes.default,
    aten.chunk.default,
)
def _split(emit: Emit, a: Arguments, out: Sequence[Tensor]) -> None:
    x: Tensor = a["self"]
    dim = a["dim"] % x.dim()
    start = 0
    for part in out:
        end = start + part.shape[dim]
        _emit_slice(emit, x, dim, start, end, 1, part)
        start = end


@rule(aten.unbind.int)
def _unbind(emit: Emit, a: Arguments, out: Sequence[Tensor]) -> None:
    x: Tensor = a["self"]
    dim = a["dim"] % x.dim()
    for index, part in enumerate(out):
        emit("aten.select.int", [x], {"dim": dim, "index": index}, [part])
