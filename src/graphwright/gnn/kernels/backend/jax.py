"""JAX: the compiled loops as callbacks, with gradients of sums in terms of sums.

A callback runs on the host, so this is for JAX on a CPU; on an accelerator arrays are copied. Under
`jax.jit` the relation is a constant of the traced function. The gradients are those of
`kernels.fused`, where they are explained.
"""

from __future__ import annotations

from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from torch import Tensor

from graphwright.gnn.kernels import cpu
from graphwright.gnn.kernels.broadcast import Shape, flat_index, result_shape
from graphwright.gnn.storage import Relation

Operand = tuple[Any, str]


def sum_messages(
    relation: Relation, op: str, a: Operand, b: Operand | None, out_end: str, out_shape: Shape
) -> Any:
    """Sums at an end, or a value for each edge."""
    a_end, b_end = a[1], "e" if b is None else b[1]
    rows = _rows(relation, out_end)

    def forward(x: Any, *rest: Any) -> Any:
        def call(x: Any, *rest: Any) -> Any:
            y = np.asarray(rest[0]) if rest else None
            return cpu.contract(relation, op, np.asarray(x), a_end, y, b_end, out_end, out_shape)

        shape = jax.ShapeDtypeStruct((rows, *out_shape), x.dtype)
        return jax.pure_callback(call, shape, x, *rest, vmap_method="sequential")

    made = jax.custom_vjp(forward)

    def keep(x: Any, *rest: Any) -> Any:
        return made(x, *rest), (x, *rest)

    def back(kept: Any, grad: Any) -> Any:
        x, *rest = kept
        back_to = lambda factor, end, shape: sum_messages(
            relation, "copy" if factor is None else "mul", (grad, out_end), factor, end, shape
        )
        if not rest:
            return (back_to(None, a_end, x.shape[1:]),)
        y = rest[0]
        match op:
            case "mul" | "dot":
                to_x = back_to((y, b_end), a_end, x.shape[1:])
                to_y = back_to((x, a_end), b_end, y.shape[1:])
            case "div":
                to_x = back_to((1 / y, b_end), a_end, x.shape[1:])
                to_y = -back_to((x, a_end), b_end, y.shape[1:]) / (y * y)
            case _:
                to_x, to_y = back_to(None, a_end, x.shape[1:]), back_to(None, b_end, y.shape[1:])
                to_y = -to_y if op == "sub" else to_y
        return to_x, to_y

    made.defvjp(keep, back)
    return made(a[0]) if b is None else made(a[0], b[0])


def extreme_message(relation: Relation, op: str, a: Operand, b: Operand | None, least: bool) -> Any:
    """The largest or least message into each destination."""
    a_end, b_end = a[1], "e" if b is None else b[1]
    b_shape = () if b is None else tuple(b[0].shape[1:])
    out_shape = result_shape(op, tuple(a[0].shape[1:]), b_shape)
    full = (relation.num_dst, *out_shape)

    def forward(x: Any, *rest: Any) -> Any:
        def call(x: Any, *rest: Any) -> Any:
            y = np.asarray(rest[0]) if rest else None
            out, chosen = cpu.extreme(
                relation, op, np.asarray(x), a_end, y, b_end, least, out_shape
            )
            return out, chosen.astype(np.int32)

        shapes = jax.ShapeDtypeStruct(full, x.dtype), jax.ShapeDtypeStruct(full, np.int32)
        return jax.pure_callback(call, shapes, x, *rest, vmap_method="sequential")

    made = jax.custom_vjp(lambda *given: forward(*given)[0])

    def keep(*given: Any) -> Any:
        out, chosen = forward(*given)
        return out, (chosen, given)

    def back(kept: Any, grad: Any) -> Any:
        chosen, given = kept
        shapes = [tuple(x.shape[1:]) for x in given]
        space = tuple(np.broadcast_shapes(*shapes))
        times = prod(space) // max(prod(out_shape), 1)
        spread = lambda x: jnp.repeat(x.reshape(len(x), -1), times, 1)
        edges = spread(chosen)
        flow = jnp.where(edges < 0, 0, spread(grad))
        edges = jnp.maximum(edges, 0)
        src, dst = (jnp.asarray(ends.numpy()) for ends in relation.coo)
        place = {"u": lambda: src[edges], "v": lambda: dst[edges], "e": lambda: edges}

        def index(end: str, shape: Shape) -> Any:
            return place[end]() * prod(shape) + jnp.asarray(flat_index(shape, space))

        def scatter(values: Any, end: str, shape: Shape) -> Any:
            flat = jnp.zeros(_rows(relation, end) * prod(shape), values.dtype)
            if relation.num_edges:
                flat = flat.at[index(end, shape)].add(values)
            return flat.reshape(-1, *shape)

        ends = (a_end, b_end)
        read = lambda at: given[at].reshape(-1)[index(ends[at], shapes[at])]
        if len(given) == 1:
            return (scatter(flow, a_end, shapes[0]),)
        if not relation.num_edges:
            return tuple(jnp.zeros_like(x) for x in given)
        match op:
            case "mul" | "dot":
                flows = flow * read(1), flow * read(0)
            case "div":
                flows = flow / read(1), -flow * read(0) / read(1) ** 2
            case _:
                flows = flow, -flow if op == "sub" else flow
        return tuple(scatter(flows[at], ends[at], shapes[at]) for at in (0, 1))

    made.defvjp(keep, back)
    return made(a[0]) if b is None else made(a[0], b[0])


def edge_softmax(relation: Relation, scores: Any) -> Any:
    """Softmax over the edges into each destination."""
    shape = tuple(scores.shape[1:])
    still = jax.lax.stop_gradient(scores)
    most = extreme_message(relation, "copy", (still, "e"), None, False)
    shifted = sum_messages(relation, "sub", (scores, "e"), (most, "v"), "e", shape)
    raised = jnp.exp(shifted)
    total = sum_messages(relation, "copy", (raised, "e"), None, "v", shape)
    return sum_messages(relation, "div", (raised, "e"), (total, "v"), "e", shape)


def scale(values: Any, factors: Tensor) -> Any:
    """Rows times numbers."""
    numbers = jnp.asarray(factors.numpy()).astype(values.dtype)
    return values * numbers.reshape(-1, *[1] * (values.ndim - 1))


def _rows(relation: Relation, end: str) -> int:
    return {"u": relation.num_src, "v": relation.num_dst, "e": relation.num_edges}[end]
