"""Which kernel computes a sum or an extreme: the fastest for device, operator and shapes.

On a CPU (1M edges, 20k nodes, 128 floats, side by side; docs/gnn.md has the figures):

    a feature copied to the other end, or times one number per edge     embedding_bag over CSR
    a feature copied to its edges                                       index_select
    a few numbers of each edge from those of its ends                   a loop in the order of edges
    everything else                                                     loops by row

Numbers of 16 bits are widened for the loops, and the result is rounded once. On a GPU Triton's
kernels do, elsewhere PyTorch's general operators.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode

from graphwright.gnn.kernels import cpu, eager
from graphwright.gnn.kernels.broadcast import Shape
from graphwright.gnn.storage import Relation

_Kernel = TypeVar("_Kernel", bound=Callable[..., Any])
_HALF = (torch.float16, torch.bfloat16)
_NARROW = 16
_BAGS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def as_one(kernel: _Kernel) -> _Kernel:
    """A kernel that shows itself whole to a dispatch mode that has `run_kernel`.

    PyTorch would show it what a kernel calls inside, and nothing of compiled loops.
    """

    @wraps(kernel)
    def call(*args: Any) -> Any:
        mode: Any = _get_current_dispatch_mode()
        if mode is None:
            return kernel(*args)
        if hasattr(mode, "run_kernel"):
            return mode.run_kernel(kernel.__name__, kernel, args)
        if isinstance(mode, (FakeTensorMode, FunctionalTensorMode)):  # of constants alone
            with _disable_current_modes():
                return kernel(*args)
        return kernel(*args)

    return cast(_Kernel, call)


@as_one
def contract(
    relation: Relation, op: str, a: Tensor, a_end: str, b: Tensor | None, b_end: str,
    out_end: str, out_shape: Shape,
) -> Tensor:  # fmt: skip
    """Sum over edges at a node, or one result for each edge."""
    if a.device.type != "cpu":
        made: Tensor = _elsewhere(a).contract(relation, op, a, a_end, b, b_end, out_end, out_shape)
        return made
    if relation.num_edges:
        if op == "copy" and tuple(a.shape[1:]) == out_shape and a_end != out_end:
            if out_end == "e":
                return a.index_select(0, relation.coo[0 if a_end == "u" else 1])
            if a.dtype in _BAGS and a.numel():
                return _bag(relation, a, a_end, None, out_end)
        if b is not None and out_end == "e" and _is_narrow(op, a, b, out_shape):
            x, y = _numpy(_widened(a)), _numpy(_widened(b))
            values = cpu.edge_values(relation, op, x, a_end, y, b_end)
            return torch.from_numpy(values).to(a.dtype)
        if _is_weighted(op, a, a_end, b, b_end, out_end, out_shape):
            assert b is not None
            return _bag(relation, a, a_end, b, out_end)
        if (
            b is not None
            and op == "mul"
            and _is_weighted(op, b, b_end, a, a_end, out_end, out_shape)
        ):
            return _bag(relation, b, b_end, a, out_end)
    wide_a, wide_b = _widened(a), None if b is None else _widened(b)
    array = None if wide_b is None else _numpy(wide_b)
    out = cpu.contract(relation, op, _numpy(wide_a), a_end, array, b_end, out_end, out_shape)
    return torch.from_numpy(out).to(a.dtype)


@as_one
def extreme(
    relation: Relation, op: str, a: Tensor, a_end: str, b: Tensor | None, b_end: str,
    least: bool, out_shape: Shape, numbers: str = "edges",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The largest or least message into each destination, and its edge; 0 and -1 without edges.

    On a CPU it may be the source that is chosen, or nothing (`cpu.extreme`).
    """
    if a.device.type != "cpu":
        pair: tuple[Tensor, Tensor] = _elsewhere(a).extreme(
            relation, op, a, a_end, b, b_end, least, out_shape
        )
        return pair
    wide_a, wide_b = _widened(a), None if b is None else _widened(b)
    array = None if wide_b is None else _numpy(wide_b)
    out, chosen = cpu.extreme(
        relation, op, _numpy(wide_a), a_end, array, b_end, least, out_shape, numbers
    )
    return torch.from_numpy(out).to(a.dtype), torch.from_numpy(chosen)


@as_one
def route(
    relation: Relation, chosen: Tensor, grad: Tensor, shape: Shape, end: str,
    factor: Tensor | None, factor_end: str, numbers: str,
) -> Tensor:  # fmt: skip
    """The gradient of an extreme for one operand, on a CPU."""
    scale = None if factor is None else _numpy(_widened(factor))
    made = cpu.route(
        relation, chosen.numpy(), _numpy(_widened(grad)), shape, end, scale, factor_end, numbers
    )
    return torch.from_numpy(made).to(grad.dtype)


def _elsewhere(a: Tensor) -> Any:
    """The kernels of a device that is not a CPU."""
    if a.device.type == "cuda" and a.is_floating_point() and find_spec("triton") is not None:
        return import_module("graphwright.gnn.kernels.gpu")
    return eager


def _is_weighted(
    op: str, a: Tensor, a_end: str, b: Tensor | None, b_end: str, out_end: str, out_shape: Shape
) -> bool:
    """Whether a node's feature is summed at the other end, with one number for each edge."""
    return (
        op == "mul"
        and b is not None
        and b_end == "e"
        and {a_end, out_end} == {"u", "v"}
        and prod(b.shape[1:]) == 1
        and tuple(a.shape[1:]) == out_shape
        and a.dtype in (torch.float32, torch.float64)
        and prod(out_shape) > 1
    )


def _is_narrow(op: str, a: Tensor, b: Tensor, out_shape: Shape) -> bool:
    """Whether rows are so short that edges are best taken in their order, not by destination."""
    same = tuple(a.shape[1:]) == tuple(b.shape[1:]) == out_shape
    plain = op in ("add", "sub", "mul", "div") and a.is_floating_point()
    return same and plain and 0 < prod(out_shape) <= _NARROW


def _bag(relation: Relation, a: Tensor, a_end: str, weight: Tensor | None, out_end: str) -> Tensor:
    form = relation.csc if out_end == "v" else relation.csr
    indices = form.numbered() if a_end == "e" else form.indices
    if weight is not None:
        weight = weight.reshape(-1)
        if form.edge_ids is not None:
            weight = weight.index_select(0, form.edge_ids)
    flat = a.detach().reshape(len(a), -1)  # for gradients, it would make more than the sums
    flat = flat.contiguous()  # strides of other tensors take it a slow way
    bags = torch.embedding_bag(flat, indices, form.indptr, False, 0, False, weight, True)
    return bags[0].reshape(-1, *a.shape[1:])


def _widened(x: Tensor) -> Tensor:
    return x.float() if x.dtype in _HALF else x


def _numpy(x: Tensor) -> Any:
    return x.detach().contiguous().numpy()
