"""A graph with its weights as a `torch.nn.Module`: one FX program of ATen calls.

It takes and returns what the original module did. Operators that have a form in place write over
their argument where nothing else reads its memory, which saves memory and time; `torch.compile` and
`torch.export` make that functional again.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from graphwright.aten import (
    in_own_memory,
    in_place_of,
    join_arguments,
    keeps_channels_last,
    laid_out,
    overload_of,
)
from graphwright.describe import is_commutative, types_of
from graphwright.errors import InvalidBatch
from graphwright.ir import Graph, Node, Role
from graphwright.rewrite import is_image


def program_of(
    graph: Graph, weights: Mapping[str, Tensor], last: Collection[str] = ()
) -> fx.GraphModule:
    """The FX program of a graph; weights are its buffers.

    `last` are the nodes, by name, that read and make images with their channels last in memory;
    what they read is copied so where it is not made so. The program's inputs and results are not.
    """
    root = nn.Module()
    program, values = fx.Graph(), dict[str, fx.Node]()
    for name in graph.inputs:
        if name not in weights:
            values[name] = program.placeholder(name)
    made_last = {name for name in weights if any(n.name in last for n in graph.consumers(name))}
    for number, (name, weight) in enumerate(weights.items()):
        layout = torch.channels_last if name in made_last else torch.contiguous_format
        root.register_buffer(f"weight_{number}", laid_out(weight, layout))
        values[name] = program.get_attr(f"weight_{number}")
    device = next((w.device for w in weights.values()), torch.device("cpu"))
    turned: dict[tuple[str, bool], fx.Node] = {}

    def read(name: str, wanted: bool) -> fx.Node:
        """A tensor in a layout."""
        if (name in made_last) == wanted or not is_image(graph.tensors[name].type):
            return values[name]
        if (name, wanted) not in turned:
            layout = torch.channels_last if wanted else torch.contiguous_format
            turned[name, wanted] = program.call_function(
                torch.ops.aten.contiguous.default, (values[name],), {"memory_format": layout}
            )
        return turned[name, wanted]

    for node in graph.nodes:
        own = node.name in last
        given = {name: read(name, own) for name in node.inputs if name is not None}
        made = _call(program, graph, node, given)
        types = types_of(graph, node).inputs
        if own and keeps_channels_last(node.op, node.attrs, types, device):
            made_last.update(node.outputs)
        if len(node.outputs) == 1 and not _gives_tuple(node):
            values[node.outputs[0]] = made
        else:
            for index, name in enumerate(node.outputs):
                values[name] = program.call_function(operator.getitem, (made, index))
    program.output(tuple(read(name, False) for name in graph.outputs))
    program.eliminate_dead_code()
    return fx.GraphModule(root, program)


def _call(program: fx.Graph, graph: Graph, node: Node, values: Mapping[str, fx.Node]) -> fx.Node:
    inputs: list[Any] = [None if name is None else values[name] for name in node.inputs]
    if node.op in ("aten.view", "aten._unsafe_view"):  # no strides: a view may have to copy
        return program.call_function(
            torch.ops.aten.reshape.default,
            (inputs[0], list(node.attrs["size"])),  # type: ignore[arg-type]
        )
    op = node.op
    written = in_place_of(op)
    if written is not None:
        own = _overwritten(graph, node)
        if own is not None:
            inputs.insert(0, inputs.pop(own))
            op = written
    overload = overload_of(op)
    args, kwargs = join_arguments(overload, len(inputs), node.attrs)(inputs, None)  # type: ignore[arg-type]
    kwargs = {name: value for name, value in kwargs.items() if value is not None}
    return program.call_function(overload, tuple(args), kwargs)


def _overwritten(graph: Graph, node: Node) -> int | None:
    """The argument that a call may write over: the first, or the second where they may swap."""
    if node.inputs and _may_write(graph, node, 0):
        return 0
    swaps = len(node.inputs) == 2 and _may_write(graph, node, 1)
    return 1 if swaps and is_commutative(node.op, node.attrs, types_of(graph, node)) else None


def _may_write(graph: Graph, node: Node, which: int) -> bool:
    """Whether an argument is read here alone, once, has its own memory and the result's type."""
    name = node.inputs[which]
    if name is None or node.inputs.count(name) > 1 or name in graph.outputs:
        return False
    maker = graph.producer(name)
    if maker is None or len(graph.consumers(name)) > 1:
        return False
    if not in_own_memory(maker.op, maker.attrs, types_of(graph, maker).inputs):
        return False
    return graph.tensors[name].type == graph.tensors[node.outputs[0]].type


def _gives_tuple(node: Node) -> bool:
    returns = overload_of(node.op)._schema.returns
    return len(returns) > 1 or "List" in str(returns[0].type)


Result = tuple[str, Any]
"""Where a result comes from: ("made", n) by the program, ("given", n) among the arguments, or
("plain", value)."""


class Nested(nn.Module):
    """Calls a flat program with nested arguments, and nests its results.

    `read` are the numbers of the arguments that the program takes, in order, and `shapes` what they
    have to be like: sizes in the program are those of the example. `last` are the nodes of its
    graph that read images with their channels last in memory.
    """

    def __init__(
        self,
        program: fx.GraphModule,
        read: tuple[int, ...],
        shapes: tuple[tuple[int, ...], ...],
        results: tuple[Result, ...],
        in_spec: pytree.TreeSpec,
        out_spec: pytree.TreeSpec,
        last: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__()
        self.program, self.last = program, last
        self.read, self.shapes, self.results = read, shapes, results
        self.in_spec, self.out_spec = in_spec, out_spec
        positional = pytree.tree_structure(((0,) * len(read), {}))
        self._is_flat = positional == in_spec and read == tuple(range(len(read)))
        self._is_single = pytree.tree_structure(0) == out_spec and results == (("made", 0),)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the program."""
        if self._is_flat and not kwargs and len(args) == len(self.read):
            flat: Any = args
        else:
            flat, spec = pytree.tree_flatten((args, kwargs))
            if spec != self.in_spec:
                raise InvalidBatch(
                    f"arguments are nested as {spec}, but the example was as {self.in_spec}; call "
                    "the model as with the example, or optimise it with one like this"
                )
        given = [flat[n] for n in self.read]
        for n, tensor, shape in zip(self.read, given, self.shapes, strict=True):
            if tensor.shape != shape:
                raise InvalidBatch(
                    f"argument {n} has shape {list(tensor.shape)}, but {list(shape)} in the "
                    "example; optimise the model with an example of this shape"
                )
        made = self.program(*given)
        if self._is_single:
            return made[0]
        where = {"made": made, "given": flat}
        results = [where[kind][n] if kind in where else n for kind, n in self.results]
        return pytree.tree_unflatten(results, self.out_spec)


def shapes_of(graph: Graph) -> tuple[tuple[int, ...], ...]:
    """The shapes of the inputs of a graph that are no weights."""
    inputs = (graph.tensors[name] for name in graph.inputs)
    return tuple(tensor.type.shape for tensor in inputs if tensor.role is Role.INPUT)
