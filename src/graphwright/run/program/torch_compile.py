"""`torch.compile` of one rank's program: what it computes between what it sends and receives, piece by piece.

    take, begin, finish, draw, own, constants    stay as they are: they reach other processes, or a step's own memory and seed
    operators in between                         one segment each, compiled: element-wise operators become one kernel

Compiling takes some seconds for each segment, or minutes for thousands of operators, when the step is first called; what takes long is told (`patience`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.fx.passes.split_module import split_module

from graphwright.run.program.module import Begin, BeginAll, Draw, Fresh, finish
from graphwright.run.program.regions import own_memory, take

LEAST_OPERATORS = 2
"""A segment of fewer stays as it is: there is nothing to put together."""


def compile_segments(module: fx.GraphModule, backend: str = "inductor") -> fx.GraphModule:
    """The same program with its segments compiled."""
    segment_of = _number_segments(module.graph)
    name = type(module).__name__
    found = split_module(module, module, lambda node: segment_of[node], keep_original_order=True)
    for child_name, child in list(found.named_children()):
        assert isinstance(child, fx.GraphModule)
        calls = [node for node in child.graph.nodes if node.op == "call_function"]
        if len(calls) >= LEAST_OPERATORS and not any(_is_outside(node) for node in calls):
            compiled: Callable[..., Any] = torch.compile(child, dynamic=False, backend=backend)
            setattr(found, child_name, compiled)
    found.__class__.__name__ = name
    return found


def _number_segments(graph: fx.Graph) -> dict[fx.Node, int]:
    """Numbers in the order of the program, a new one wherever what is compiled and what is not meet."""
    number, inside = 0, False
    found: dict[fx.Node, int] = {}
    for node in graph.nodes:
        if node.op == "call_function" and _is_outside(node) == inside:
            number, inside = number + 1, not inside
        found[node] = number
    return found


def _is_outside(node: fx.Node) -> bool:
    """Whether a call is not to be compiled; a piece of what such a call made isn't, either."""
    if node.target is operator.getitem:
        made = node.args[0]
        return isinstance(made, fx.Node) and (made.op == "placeholder" or _is_outside(made))
    return node.target in (take, finish, own_memory) or isinstance(
        node.target, Begin | BeginAll | Draw | Fresh
    )
