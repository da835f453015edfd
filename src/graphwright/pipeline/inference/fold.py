"""Compute what depends on weights alone, once, with the weights that there are."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from graphwright.aten import call_kernel, to_dtype
from graphwright.ir import CONSTANT_OP, Graph, GraphBuilder, Role, TensorType
from graphwright.rewrite import fixed_tensors


def fold(graph: Graph, weights: Mapping[str, Tensor]) -> tuple[Graph, dict[str, Tensor]]:
    """The graph without such nodes, and the weights that it reads now."""
    fixed = fixed_tensors(graph)
    values = dict(weights)
    device = next((t.device for t in weights.values()), torch.device("cpu"))
    with torch.no_grad():
        for node in graph.nodes:
            if fixed.issuperset(node.outputs):
                inputs = [None if name is None else values[name] for name in node.inputs]
                if node.op == CONSTANT_OP:
                    made: tuple[Tensor, ...] = (_constant(node.attrs["value"], graph, node.name),)
                else:
                    made = call_kernel(node.op, inputs, node.attrs, device)
                values.update(zip(node.outputs, made, strict=True))
    kept = [node for node in graph.nodes if not fixed.issuperset(node.outputs)]
    read = {name for node in kept for name in node.inputs} | {*graph.outputs}
    build = GraphBuilder()
    held: dict[str, Tensor] = {}
    for name in (*graph.inputs, *(n for node in graph.nodes for n in node.outputs)):
        tensor = graph.tensors[name]
        if name in fixed and name in read:
            role = tensor.role if name in graph.inputs else Role.BUFFER
            build.add_input(name, tensor.type, role)
            held[name] = values[name].contiguous()
        elif name in graph.inputs and name not in fixed:
            build.add_input(name, tensor.type, tensor.role)
    for node in kept:
        types: list[TensorType] = [graph.tensors[name].type for name in node.outputs]
        build.add(node.op, node.inputs, node.attrs, types, names=node.outputs)
    return build.build(list(graph.outputs)), held


def _constant(value: object, graph: Graph, name: str) -> Tensor:
    type = graph.tensors[name].type
    return torch.tensor(value, dtype=to_dtype(type.dtype)).reshape(type.shape)
