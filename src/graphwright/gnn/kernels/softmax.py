"""Softmax over the edges at each node: what turns scores of attention into weights.

    y[e] = exp(x[e] - m[v]) / sum over edges e' into v of exp(x[e'] - m[v])        m: the maximum
    dx[e] = y[e] * (dy[e] - sum over e' into v of y[e'] * dy[e'])

On a CPU two compiled loops do what is not element-wise, in place, with PyTorch's vectorised `exp`
between them, and a third makes the gradient. Beyond x, y and dx nothing of the size of the edges is
stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphwright.gnn.kernels import choice, registered
from graphwright.gnn.kernels.cpu import over_rows, prefetch
from graphwright.gnn.kernels.fused import sum_messages
from graphwright.gnn.storage import Relation
from graphwright.tasks import reassociated, unowned

U = np.uint64
AHEAD = U(8)
"""How many edges ahead scores are fetched: in the order of rows they lie anywhere."""


def fused_softmax(relation: Relation, scores: Tensor) -> Tensor:
    """Softmax of scores over the edges into each destination."""
    made = _Softmax.apply(relation, scores)
    assert isinstance(made, Tensor)
    return made


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, relation: Relation, scores: Tensor) -> Tensor:
        out = (_in_loops if _is_compiled(scores) else _in_parts)(relation, scores)
        ctx.relation = relation
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (grad,), (out,) = grads, ctx.saved_tensors
        if _is_compiled(grad) and not torch.is_grad_enabled():
            return None, _gradient_in_loops(ctx.relation, out, grad)
        flow = out * grad
        total = sum_messages(ctx.relation, "copy", (flow, "e"), None, "v", tuple(flow.shape[1:]))
        back = sum_messages(
            ctx.relation, "mul", (out, "e"), (total, "v"), "e", tuple(flow.shape[1:])
        )
        return None, flow - back


def _is_compiled(x: Tensor) -> bool:
    """Whether the compiled loops take it."""
    known = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)
    return known and not registered.is_recorded(x)


def _in_parts(relation: Relation, scores: Tensor) -> Tensor:
    shape = tuple(scores.shape[1:])
    wide = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    most, _ = registered.extreme(relation, "copy", wide, "e", None, "e", False, shape)
    out = registered.contract(relation, "sub", wide, "e", most, "v", "e", shape).exp()
    total = registered.contract(relation, "copy", out, "e", None, "e", "v", shape)
    return registered.contract(relation, "div", out, "e", total, "v", "e", shape).to(scores.dtype)


@choice.as_one
def _in_loops(relation: Relation, scores: Tensor) -> Tensor:
    out = torch.empty_like(scores, memory_format=torch.contiguous_format)
    if scores.numel():
        given, flat = _flat(scores), _flat(out)
        _over_rows(_shift, relation, scores, given, flat)
        out.exp_()
        _over_rows(_normalise, relation, scores, flat)
    return out


@choice.as_one
def _gradient_in_loops(relation: Relation, y: Tensor, grad: Tensor) -> Tensor:
    out = torch.empty_like(y, memory_format=torch.contiguous_format)
    if y.numel():
        _over_rows(_differentiate, relation, y, _flat(y), _flat(grad), _flat(out))
    return out


def _flat(x: Tensor) -> Any:
    return x.detach().contiguous().reshape(-1).numpy()


def _over_rows(loop: Any, relation: Relation, like: Tensor, *flat: Any) -> None:
    """Run a loop over destinations, on flat arrays with as many numbers for each edge as `like`."""
    form, wide = relation.csc, like.numel() // len(like)
    edges = (form.indices[:0] if form.edge_ids is None else form.edge_ids).numpy()
    over_rows(loop, form.indptr.numpy(), 4 * wide, edges, U(wide), *flat)


@reassociated
def _shift(start: Any, stop: Any, indptr: Any, edges: Any, wide: Any, x: Any, out: Any) -> None:
    """out = x - the maximum of its row and column"""
    indptr, edges, x, out = unowned(indptr), unowned(edges), unowned(x), unowned(out)
    numbered, most = len(edges) > 0, np.empty(wide, x.dtype)
    for row in range(start, stop):
        first, end = U(indptr[row]), U(indptr[row + U(1)])
        for p in range(first, end):
            if p + AHEAD < len(edges):
                ahead = U(edges[p + AHEAD]) * wide
                prefetch(x, ahead)
                prefetch(out, ahead)
            at = (U(edges[p]) if numbered else p) * wide
            for k in range(wide):
                value = x[at + k]
                most[k] = value if p == first or value > most[k] else most[k]
        for p in range(first, end):
            at = (U(edges[p]) if numbered else p) * wide
            for k in range(wide):
                out[at + k] = x[at + k] - most[k]


@reassociated
def _normalise(start: Any, stop: Any, indptr: Any, edges: Any, wide: Any, out: Any) -> None:
    """out /= the sum of its row and column"""
    indptr, edges, out = unowned(indptr), unowned(edges), unowned(out)
    numbered, total = len(edges) > 0, np.empty(wide, out.dtype)
    for row in range(start, stop):
        first, end = U(indptr[row]), U(indptr[row + U(1)])
        total[:] = 0
        for p in range(first, end):
            if p + AHEAD < len(edges):
                prefetch(out, U(edges[p + AHEAD]) * wide)
            at = (U(edges[p]) if numbered else p) * wide
            for k in range(wide):
                total[k] += out[at + k]
        for k in range(wide):
            total[k] = 1 / total[k]
        for p in range(first, end):
            at = (U(edges[p]) if numbered else p) * wide
            for k in range(wide):
                out[at + k] *= total[k]


@reassociated
def _differentiate(
    start: Any, stop: Any, indptr: Any, edges: Any, wide: Any, y: Any, grad: Any, out: Any
) -> None:
    """out = y * (grad - the sum of y * grad over its row and column)"""
    indptr, edges = unowned(indptr), unowned(edges)
    y, grad, out = unowned(y), unowned(grad), unowned(out)
    numbered, total = len(edges) > 0, np.empty(wide, out.dtype)
    for row in range(start, stop):
        first, end = U(indptr[row]), U(indptr[row + U(1)])
        total[:] = 0
        for p in range(first, end):
            if p + AHEAD < len(edges):
                ahead = U(edges[p + AHEAD]) * wide
                prefetch(y, ahead)
                prefetch(grad, ahead)
                prefetch(out, ahead)
            at = (U(edges[p]) if numbered else p) * wide
            for k in range(wide):
                total[k] += y[at + k] * grad[at + k]
        for p in range(first, end):
            at = (U(edges[p]) if numbered else p) * wide
            for k in range(wide):
                out[at + k] = y[at + k] * (grad[at + k] - total[k])
