"""How each operator is computed: on NumPy arrays, whole ones or parts.

A part's call has the attributes that its description derives for it, so the kernels know nothing of
tilings. Views are views: transposing, slicing, reshaping and broadcasting copy nothing that NumPy
does not copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphwright.arrays.errors import FunctionFailed
from graphwright.arrays.operators.functions import ELEMENTWISE, Functions, find_function
from graphwright.arrays.operators.random_numbers import draw_box
from graphwright.ir import Attr

Block = NDArray[Any]
Attrs = Mapping[str, Any]
Kernel = Callable[[Sequence[Block], Attrs, Functions], Any]

KERNELS: dict[str, Kernel] = {}


def run_kernel(
    op: str, inputs: Sequence[Block], attrs: Mapping[str, Attr], functions: Functions
) -> tuple[Block, ...]:
    """Run an operator; one array for each of its outputs."""
    with np.errstate(all="ignore"):
        made = KERNELS[op](inputs, attrs, functions)
    return tuple(map(np.asarray, made)) if isinstance(made, tuple | list) else (np.asarray(made),)


def _kernel(*ops: str) -> Callable[[Kernel], Kernel]:
    def register(kernel: Kernel) -> Kernel:
        KERNELS.update(dict.fromkeys(ops, kernel))
        return kernel

    return register


def _of_ufunc(function: Callable[..., Any]) -> Kernel:
    return lambda x, attrs, functions: function(*x)


UFUNCS: dict[str, Callable[..., Any]] = {
    op: getattr(np, name) for name, (op, _) in ELEMENTWISE.items()
}
KERNELS.update({op: _of_ufunc(function) for op, function in UFUNCS.items()})


# -- one function for many -------------------------------------------------------------------------


@_kernel("array.map")
def _map(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    made = find_function(attrs["function"], functions)(*x)
    expected = np.broadcast_shapes(*(block.shape for block in x))
    if np.shape(made) != expected:
        raise FunctionFailed(
            f"{attrs['function']} was given blocks of {[block.shape for block in x]} and returned "
            f"{np.shape(made)}, not {expected}; a function of map or filter returns a block with "
            "an element for each of its operands'"
        )
    return np.asarray(made, dtype=attrs["dtype"]) if "dtype" in attrs else made


@_kernel("array.batch")
def _batch(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    options = dict(attrs["options"])
    made = find_function(attrs["function"], functions)(*x, **options)
    return tuple(made) if isinstance(made, tuple | list) else made


@_kernel("array.einsum")
def _einsum(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    return np.einsum(attrs["subscripts"], *x, optimize=len(x) > 1)


@_kernel("array.random")
def _random(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    shape, box = attrs["whole"], attrs.get("box")
    return draw_box(attrs["distribution"], attrs["seed"], shape, box, attrs["dtype"])


@_kernel("array.fold")
def _fold(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    join = find_function(attrs["reducer_name"], functions)
    rows = list(x[0])
    while len(rows) > 1:  # pairs: a user's sum of floats rounds no worse than NumPy's
        paired = [np.asarray(join(a, b)) for a, b in zip(rows[::2], rows[1::2], strict=False)]
        rows = [*paired, rows[-1]] if len(rows) % 2 else paired
    return np.array(rows[0])


# -- reductions and scans --------------------------------------------------------------------------


REDUCTIONS: dict[str, np.ufunc] = {
    "aten.sum.dim_IntList": np.add,
    "aten.prod.dim_int": np.multiply,
    "aten.amax": np.maximum,
    "aten.amin": np.minimum,
    "aten.any.dims": np.logical_or,
    "aten.all.dims": np.logical_and,
}


def _of_reduction(function: np.ufunc) -> Kernel:
    def kernel(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
        dtype = x[0].dtype if function in (np.add, np.multiply) else None
        dims = tuple(attrs["dim"])
        return function.reduce(x[0], axis=dims, dtype=dtype, keepdims=attrs["keepdim"])

    return kernel


KERNELS.update({op: _of_reduction(function) for op, function in REDUCTIONS.items()})


@_kernel("aten.argmax")
def _argmax(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    return np.argmax(x[0], axis=attrs["dim"], keepdims=attrs["keepdim"])


@_kernel("aten.argmin")
def _argmin(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    return np.argmin(x[0], axis=attrs["dim"], keepdims=attrs["keepdim"])


@_kernel("aten.cumsum")
def _cumsum(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    return np.cumsum(x[0], axis=attrs["dim"], dtype=x[0].dtype)


@_kernel("aten.cumprod")
def _cumprod(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    return np.cumprod(x[0], axis=attrs["dim"], dtype=x[0].dtype)


# -- shapes ----------------------------------------------------------------------------------------


@_kernel("aten._to_copy")
def _cast(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    return x[0].astype(attrs["dtype"])


@_kernel("aten.reshape")
def _reshape(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    return x[0].reshape(attrs["shape"])


@_kernel("aten.expand")
def _expand(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    return np.broadcast_to(x[0], attrs["size"])


@_kernel("aten.permute")
def _permute(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    return x[0].transpose(attrs["dims"])


@_kernel("aten.slice.Tensor")
def _slice(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    index = slice(attrs["start"], attrs["end"], attrs["step"])
    return x[0][(slice(None),) * attrs["dim"] + (index,)]


@_kernel("aten.select.int")
def _select(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    return x[0][(slice(None),) * attrs["dim"] + (attrs["index"],)]


@_kernel("aten.flip")
def _flip(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    return np.flip(x[0], attrs["dims"])


@_kernel("aten.cat")
def _concat(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    return np.concatenate(x, axis=attrs["dim"])


@_kernel("array.join")
def _join(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    d, starts, size = attrs["dim"], attrs["starts"], attrs["size"]
    cuts = [0, *(min(max(edge, 0), size) for edge in attrs["edges"]), size]
    lead = (slice(None),) * d
    parts = [
        block[(*lead, slice(low - start, high - start))]
        for block, start, (low, high) in zip(x, starts, pairwise(cuts), strict=True)
        if low < high
    ]
    return np.concatenate(parts or [x[0][(*lead, slice(0))]], axis=d)


@_kernel("aten.repeat")
def _tile(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    return np.tile(x[0], attrs["repeats"])


@_kernel("aten.constant_pad_nd")
def _pad(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    pads = attrs["pad"]
    pairs = [(pads[2 * d], pads[2 * d + 1]) for d in range(len(pads) // 2)][::-1]
    pairs = [(0, 0)] * (x[0].ndim - len(pairs)) + pairs
    inner = tuple(
        slice(max(0, -low), size - max(0, -high))
        for (low, high), size in zip(pairs, x[0].shape, strict=True)
    )
    outer = [(max(0, low), max(0, high)) for low, high in pairs]
    return np.pad(x[0][inner], outer, constant_values=attrs["value"])


@_kernel("aten.arange.start")
def _count(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    return np.arange(attrs["start"], attrs["end"], dtype=np.int64)


@_kernel("aten.roll")
def _roll(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    return np.roll(x[0], attrs["shifts"], attrs["dims"])


# -- lookups ---------------------------------------------------------------------------------------


@_kernel("aten.index_select")
def _take(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    return np.take(x[0], x[1], axis=attrs["dim"])


@_kernel("aten.gather")
def _gather(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    return np.take_along_axis(x[0], x[1], axis=attrs["dim"])


@_kernel("aten.index.Tensor")
def _index(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    places: Sequence[Block | None] = x[1:]
    return x[0][tuple(slice(None) if place is None else place for place in places)]


@_kernel("aten.index_add")
def _index_add(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    made = np.array(x[0])
    np.add.at(made, (slice(None),) * attrs["dim"] + (x[1],), x[2])
    return made


# -- products --------------------------------------------------------------------------------------


@_kernel("aten.matmul")
def _matmul(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    return np.matmul(x[0], x[1])


@_kernel("aten.tensordot")
def _tensordot(x: Sequence[Block], attrs: Attrs, functions: Functions) -> Any:
    return np.tensordot(x[0], x[1], axes=(attrs["dims_self"], attrs["dims_other"]))
