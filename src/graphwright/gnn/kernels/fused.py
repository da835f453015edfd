"""Sums and extremes of messages with gradients, in PyTorch: messages are recomputed, never kept.

A sum of products is one trilinear form: with c the gradient of the result,

    T(a, b, c) = sum over edges e of  a[a_end(e)] * b[b_end(e)] * c[c_end(e)]

and each of the result and the two gradients is what is left when one factor is taken out. So the
backward pass is the same kernel with the places exchanged, over the reversed form where the missing
factor is at the source, and gradients of gradients come for free:

    d/da sum op(a, b):   add: copy c     sub: copy c     mul: c * b     div: c * (1 / b)
    d/db                 add: copy c     sub: -copy c    mul: c * a     div: -(c * a) / b^2

An extreme remembers the edge of each element, and its gradient goes to that edge alone; of copied
sources it remembers the source. The context
keeps the relation (indices) and the operands, never a graph.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.kernels import choice, registered
from graphwright.gnn.kernels.broadcast import Shape, flat_index, result_shape
from graphwright.gnn.storage import Relation

Operand = tuple[Tensor, str]
"""A feature and the end it belongs to: "u", "v" or "e"."""


def sum_messages(
    relation: Relation, op: str, a: Operand, b: Operand | None, out_end: str, out_shape: Shape
) -> Tensor:
    """Sum op(a, b) over the edges at each `out_end`; broadcast dims of the result are summed."""
    if b is None:
        made = _Sum.apply(relation, op, a[1], "e", out_end, out_shape, a[0], None)
    else:
        made = _Sum.apply(relation, op, a[1], b[1], out_end, out_shape, a[0], b[0])
    assert isinstance(made, Tensor)
    return made


def extreme_message(
    relation: Relation, op: str, a: Operand, b: Operand | None, least: bool
) -> Tensor:
    """The largest or the least op(a, b) over the edges into each destination."""
    if b is None:
        made = _Extreme.apply(relation, op, a[1], "e", least, a[0], None)
    else:
        made = _Extreme.apply(relation, op, a[1], b[1], least, a[0], b[0])
    assert isinstance(made, tuple)
    out: Tensor = made[0]
    return out


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, relation: Relation, op: str, a_end: str, b_end: str, out_end: str,
        out_shape: Shape, a: Tensor, b: Tensor | None,
    ) -> Tensor:  # fmt: skip
        ctx.relation, ctx.op, ctx.ends = relation, op, (a_end, b_end, out_end)
        ctx.shapes = tuple(a.shape[1:]), None if b is None else tuple(b.shape[1:])
        kept_a = a if op in ("mul", "dot", "div") and ctx.needs_input_grad[7] else None
        kept_b = b if op in ("mul", "dot", "div") else None
        ctx.save_for_backward(kept_a, kept_b)
        return registered.contract(relation, op, a, a_end, b, b_end, out_end, out_shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (grad,) = grads
        a, b = ctx.saved_tensors
        a_end, b_end, out_end = ctx.ends
        a_shape, b_shape = ctx.shapes
        to_a = to_b = None
        if ctx.needs_input_grad[6]:
            match ctx.op:
                case "mul" | "dot":
                    factor: Operand | None = (b, b_end)
                case "div":
                    factor = (b.reciprocal(), b_end)
                case _:
                    factor = None
            to_a = _transposed(ctx.relation, (grad, out_end), factor, a_end, a_shape)
        if ctx.needs_input_grad[7]:
            factor = None if ctx.op in ("add", "sub") else (a, a_end)
            to_b = _transposed(ctx.relation, (grad, out_end), factor, b_end, b_shape)
            if ctx.op == "sub":
                to_b = -to_b
            elif ctx.op == "div":
                to_b = -to_b / (b * b)
        return None, None, None, None, None, None, to_a, to_b


def _transposed(
    relation: Relation, grad: Operand, factor: Operand | None, end: str, shape: Shape
) -> Tensor:
    """The form with the factor at `end` taken out."""
    return sum_messages(relation, "copy" if factor is None else "mul", grad, factor, end, shape)


class _Extreme(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, relation: Relation, op: str, a_end: str, b_end: str, least: bool,
        a: Tensor, b: Tensor | None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        b_shape = None if b is None else tuple(b.shape[1:])
        shape = result_shape(op, tuple(a.shape[1:]), b_shape or ())
        ctx.numbers = "edges"
        if a.device.type == "cpu" and not registered.is_recorded(a, b):
            if not any(ctx.needs_input_grad):
                ctx.numbers = "none"
            elif op == "copy" and a_end == "u":
                ctx.numbers = "sources"
            call: Any = (relation, op, a, a_end, b, b_end, least, shape, ctx.numbers)
            out, chosen = choice.extreme(*call)
        else:
            out, chosen = registered.extreme(relation, op, a, a_end, b, b_end, least, shape)
        ctx.relation, ctx.op, ctx.ends = relation, op, (a_end, b_end)
        ctx.shapes = tuple(a.shape[1:]), b_shape
        linear = op in ("copy", "add", "sub")
        ctx.save_for_backward(chosen, None if linear else a, None if linear else b)
        ctx.mark_non_differentiable(chosen)
        return out, chosen

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        grad = grads[0]
        chosen, a, b = ctx.saved_tensors
        a_end, b_end = ctx.ends
        a_shape, b_shape = ctx.shapes
        compiled = grad.device.type == "cpu" and not registered.is_recorded(grad)
        if compiled and not torch.is_grad_enabled():
            return None, None, None, None, None, *_routed(ctx, grad)
        space = a_shape if b_shape is None else tuple(torch.broadcast_shapes(a_shape, b_shape))
        route = _Route(ctx.relation, chosen, space, ctx.numbers == "sources")
        grad = route.spread(grad)
        to_a = to_b = None
        if ctx.needs_input_grad[5]:
            match ctx.op:
                case "mul" | "dot":
                    flow = grad * route.gather(b, b_end)
                case "div":
                    flow = grad / route.gather(b, b_end)
                case _:
                    flow = grad
            to_a = route.scatter(flow, a_end, a_shape)
        if ctx.needs_input_grad[6]:
            match ctx.op:
                case "mul" | "dot":
                    flow = grad * route.gather(a, a_end)
                case "div":
                    y = route.gather(b, b_end)
                    flow = -grad * route.gather(a, a_end) / (y * y)
                case "sub":
                    flow = -grad
                case _:
                    flow = grad
            to_b = route.scatter(flow, b_end, b_shape)
        return None, None, None, None, None, to_a, to_b


def _routed(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of an extreme by a compiled loop, where nobody asks for their gradients."""
    chosen, a, b = ctx.saved_tensors
    (a_end, b_end), (a_shape, b_shape) = ctx.ends, ctx.shapes
    call = lambda shape, end, factor, other: choice.route(
        ctx.relation, chosen, grad, shape, end, factor, other, ctx.numbers
    )
    to_a = to_b = None
    if ctx.needs_input_grad[5]:
        factor = b.reciprocal() if ctx.op == "div" else b
        to_a = call(a_shape, a_end, factor, b_end)
    if ctx.needs_input_grad[6]:
        to_b = call(b_shape, b_end, a, a_end)
        if ctx.op == "div":
            to_b = -to_b / (b * b)
        elif ctx.op == "sub":
            to_b = -to_b
    return to_a, to_b


class _Route:
    """From each element of an extreme to the elements that it was computed from.

    Elements are those of destinations x space; those without an edge take part with edge 0 and a
    gradient of zero.
    """

    def __init__(self, relation: Relation, chosen: Tensor, space: Shape, are_sources: bool) -> None:
        self.relation, self.space, self.are_sources = relation, space, are_sources
        self.rows, self.numbers = len(chosen), prod(space)
        edges = self._repeated(chosen.reshape(self.rows, -1).long())
        self.none, self.edges = edges < 0, edges.clamp(min=0)

    def _repeated(self, flat: Tensor) -> Tensor:
        """A dot product's elements stand for all that were summed up in them."""
        if flat.shape[1] == self.numbers:
            return flat
        return flat.repeat_interleave(self.numbers // flat.shape[1], 1)

    def spread(self, grad: Tensor) -> Tensor:
        return self._repeated(grad.reshape(self.rows, -1)).masked_fill(self.none, 0)

    def gather(self, x: Tensor, end: str) -> Tensor:
        if not self.relation.num_edges:
            return x.new_zeros(self.rows, self.numbers)
        place = self._place(end, tuple(x.shape[1:]))
        return x.reshape(-1)[place].reshape(self.rows, self.numbers)

    def scatter(self, flow: Tensor, end: str, shape: Shape) -> Tensor:
        rows = {
            "u": self.relation.num_src, "v": self.relation.num_dst, "e": self.relation.num_edges
        }[end]  # fmt: skip
        flat = flow.new_zeros(rows * prod(shape))
        if self.relation.num_edges:
            flat = flat.index_add(0, self._place(end, shape), flow.reshape(-1))
        return flat.reshape(rows, *shape)

    def _place(self, end: str, shape: Shape) -> Tensor:
        row = self.edges  # or sources, of which alone are then asked
        if end != "e" and not self.are_sources:
            row = self.relation.coo[0 if end == "u" else 1].long()[row]
        return (row * prod(shape) + _index(shape, self.space, row.device)).reshape(-1)


def _index(shape: Shape, space: Shape, device: torch.device) -> Tensor:
    return torch.from_numpy(flat_index(shape, space)).to(device)
