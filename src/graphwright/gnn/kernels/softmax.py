"""Softmax over the edges at each node: what turns scores of attention into weights.

    y[e] = exp(x[e] - m[v]) / sum over edges e' into v of exp(x[e'] - m[v])        m: the maximum
    dx[e] = y[e] * (dy[e] - sum over e' into v of y[e'] * dy[e'])

On a CPU two compiled loops do what is not element-wise, in place, with PyTorch's vectorised `exp`
between them. Beyond x and y nothing of the size of the edges is stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphwright.gnn.kernels import choice
from graphwright.gnn.kernels.cpu import over_rows
from graphwright.gnn.kernels.fused import sum_messages
from graphwright.gnn.storage import Relation
from graphwright.tasks import reassociated, unowned

U = np.uint64


def fused_softmax(relation: Relation, scores: Tensor) -> Tensor:
    """Softmax of scores over the edges into each destination."""
    made = _Softmax.apply(relation, scores)
    assert isinstance(made, Tensor)
    return made


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, relation: Relation, scores: Tensor) -> Tensor:
        compiled = scores.device.type == "cpu" and scores.dtype in (torch.float32, torch.float64)
        out = (_in_loops if compiled else _in_parts)(relation, scores)
        ctx.relation = relation
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (grad,), (out,) = grads, ctx.saved_tensors
        flow = out * grad
        total = sum_messages(ctx.relation, "copy", (flow, "e"), None, "v", tuple(flow.shape[1:]))
        back = sum_messages(
            ctx.relation, "mul", (out, "e"), (total, "v"), "e", tuple(flow.shape[1:])
        )
        return None, flow - back


def _in_parts(relation: Relation, scores: Tensor) -> Tensor:
    shape = tuple(scores.shape[1:])
    wide = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    most, _ = choice.extreme(relation, "copy", wide, "e", None, "e", False, shape)
    out = choice.contract(relation, "sub", wide, "e", most, "v", "e", shape).exp_()
    total = choice.contract(relation, "copy", out, "e", None, "e", "v", shape)
    return choice.contract(relation, "div", out, "e", total, "v", "e", shape).to(scores.dtype)


@choice.as_one
def _in_loops(relation: Relation, scores: Tensor) -> Tensor:
    out = torch.empty_like(scores, memory_format=torch.contiguous_format)
    if not scores.numel():
        return out
    form, wide = relation.csc, scores.numel() // len(scores)
    indptr, flat = form.indptr.numpy(), out.reshape(-1).numpy()
    edges = (form.indices[:0] if form.edge_ids is None else form.edge_ids).numpy()
    given = scores.detach().contiguous().reshape(-1).numpy()
    over_rows(_shift, indptr, 4 * wide, edges, U(wide), given, flat)
    out.exp_()
    over_rows(_normalise, indptr, 4 * wide, edges, U(wide), flat)
    return out


@reassociated
def _shift(start: Any, stop: Any, indptr: Any, edges: Any, wide: Any, x: Any, out: Any) -> None:
    """out = x - the maximum of its row and column"""
    indptr, edges, x, out = unowned(indptr), unowned(edges), unowned(x), unowned(out)
    numbered, most = len(edges) > 0, np.empty(wide, x.dtype)
    for row in range(start, stop):
        first, end = U(indptr[row]), U(indptr[row + U(1)])
        for p in range(first, end):
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
            at = (U(edges[p]) if numbered else p) * wide
            for k in range(wide):
                total[k] += out[at + k]
        for k in range(wide):
            total[k] = 1 / total[k]
        for p in range(first, end):
            at = (U(edges[p]) if numbered else p) * wide
            for k in range(wide):
                out[at + k] *= total[k]
