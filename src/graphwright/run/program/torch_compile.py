"""`torch.compile` of what one rank's program computes between its transfers, piece by piece.

    take, start, finish, draw, own, constants   stay: they reach other processes, memory or the seed
    operators in between                        one segment each, compiled into few kernels

Compiling takes some seconds a segment, minutes for thousands of operators, at the first call of a
step; `notices` says so where it takes long.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.fx.passes.split_module import split_module

from graphwright.run.program.regions import own_memory, take
from graphwright.run.program.targets import CopyConstant, DrawPart, StartSums, StartTransfer, finish

LEAST_OPERATORS = 2
"""A segment of fewer stays as it is: there is nothing to put together."""


def compile_segments(module: fx.GraphModule, backend: str = "inductor") -> fx.GraphModule:
    """The same program with its segments compiled."""
    segment_of = _number_segments(module.graph)
    name = type(module).__name__
    split = split_module(module, module, lambda node: segment_of[node], keep_original_order=True)
    for child_name, child in list(split.named_children()):
        assert isinstance(child, fx.GraphModule)
        calls = [node for node in child.graph.nodes if node.op == "call_function"]
        if len(calls) >= LEAST_OPERATORS and not any(_is_outside(node) for node in calls):
            compiled: Callable[..., Any] = torch.compile(child, dynamic=False, backend=backend)
            setattr(split, child_name, compiled)
    split.__class__.__name__ = name
    return split


def _number_segments(graph: fx.Graph) -> dict[fx.Node, int]:
    """Number the segments in order; one ends where compiled and other calls meet."""
    number, inside = 0, False
    segment_of: dict[fx.Node, int] = {}
    for node in graph.nodes:
        if node.op == "call_function" and _is_outside(node) == inside:
            number, inside = number + 1, not inside
        segment_of[node] = number
    return segment_of


def _is_outside(node: fx.Node) -> bool:
    """Whether a call is not to be compiled; a piece of what such a call made isn't, either."""
    if node.target is operator.getitem:
        made = node.args[0]
        return isinstance(made, fx.Node) and (made.op == "placeholder" or _is_outside(made))
    return node.target in (take, finish, own_memory) or isinstance(
        node.target, StartTransfer | StartSums | DrawPart | CopyConstant
    )
