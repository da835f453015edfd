"""A graph with its weights as a `torch.nn.Module`: one FX program of ATen calls.

It takes and returns what the original module did. Element-wise operators write over their argument
where nothing else reads it, which saves memory and time; `torch.compile` and `torch.export` make
that functional again.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from graphwright.aten import join_arguments, overload_of
from graphwright.errors import InvalidBatch
from graphwright.ir import Graph, Node, Role

IN_PLACE = {
    "aten.relu": "aten.relu_",
    "aten.add.Tensor": "aten.add_.Tensor",
    "aten.mul.Tensor": "aten.mul_.Tensor",
    "aten.sigmoid": "aten.sigmoid_",
    "aten.tanh": "aten.tanh_",
}
FRESH = frozenset(
    {
        "aten.conv2d", "aten.linear", "aten.mm", "aten.bmm", "aten.addmm", "aten.cat",
        "aten.avg_pool2d", "aten.max_pool2d", "aten.relu", "aten.add.Tensor", "aten.mul.Tensor",
        "aten.sigmoid", "aten.tanh",
    }
)  # fmt: skip
"""Operators whose result is memory of its own, which nothing else sees."""


def program_of(graph: Graph, weights: Mapping[str, Tensor]) -> fx.GraphModule:
    """The FX program of a graph; weights are its buffers."""
    root = nn.Module()
    program, values = fx.Graph(), dict[str, fx.Node]()
    for name in graph.inputs:
        if name not in weights:
            values[name] = program.placeholder(name)
    for number, (name, weight) in enumerate(weights.items()):
        root.register_buffer(f"weight_{number}", weight)
        values[name] = program.get_attr(f"weight_{number}")
    for node in graph.nodes:
        made = _call(program, graph, node, values)
        if len(node.outputs) == 1 and not _gives_tuple(node):
            values[node.outputs[0]] = made
        else:
            for index, name in enumerate(node.outputs):
                values[name] = program.call_function(operator.getitem, (made, index))
    program.output(tuple(values[name] for name in graph.outputs))
    program.eliminate_dead_code()
    return fx.GraphModule(root, program)


def _call(program: fx.Graph, graph: Graph, node: Node, values: Mapping[str, fx.Node]) -> fx.Node:
    inputs: list[Any] = [None if name is None else values[name] for name in node.inputs]
    if node.op in ("aten.view", "aten._unsafe_view"):  # no strides: a view may have to copy
        return program.call_function(
            torch.ops.aten.reshape.default,
            (inputs[0], list(node.attrs["size"])),  # type: ignore[arg-type]
        )
    op, names = node.op, list(node.inputs)
    if op in IN_PLACE:
        written = len(names) if node.attrs.get("alpha", 1) == 1 else 1  # only the second is scaled
        own = next((i for i in range(written) if _may_write(graph, node, i)), None)
        if own is not None:
            inputs.insert(0, inputs.pop(own))
            op = IN_PLACE[op]
    overload = overload_of(op)
    args, kwargs = join_arguments(overload, len(inputs), node.attrs)(inputs, None)  # type: ignore[arg-type]
    kwargs = {name: value for name, value in kwargs.items() if value is not None}
    return program.call_function(overload, tuple(args), kwargs)


def _may_write(graph: Graph, node: Node, which: int) -> bool:
    """Whether an argument is read here alone, once, has its own memory and the result's type."""
    name = node.inputs[which]
    if name is None or node.inputs.count(name) > 1 or name in graph.outputs:
        return False
    maker = graph.producer(name)
    if maker is None or maker.op not in FRESH or len(graph.consumers(name)) > 1:
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
    have to be like: sizes in the program are those of the example. With `channels_last`, images and
    kernels lie so in memory within the program; what goes in and comes out does not.
    """

    def __init__(
        self,
        program: fx.GraphModule,
        read: tuple[int, ...],
        shapes: tuple[tuple[int, ...], ...],
        results: tuple[Result, ...],
        in_spec: pytree.TreeSpec,
        out_spec: pytree.TreeSpec,
        *,
        channels_last: bool = False,
    ) -> None:
        super().__init__()
        self.program, self.channels_last = program, channels_last
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
        if self.channels_last:
            given = [laid_out(t, torch.channels_last) for t in given]
        made = self.program(*given)
        if self.channels_last:
            made = [laid_out(t, torch.contiguous_format) for t in made]
        if self._is_single:
            return made[0]
        where = {"made": made, "given": flat}
        results = [where[kind][n] if kind in where else n for kind, n in self.results]
        return pytree.tree_unflatten(results, self.out_spec)


def shapes_of(graph: Graph) -> tuple[tuple[int, ...], ...]:
    """The shapes of the inputs of a graph that are no weights."""
    inputs = (graph.tensors[name] for name in graph.inputs)
    return tuple(tensor.type.shape for tensor in inputs if tensor.role is Role.INPUT)


def in_channels_last(body: Nested) -> Nested:
    """The same program over images whose channels are last in memory."""
    program = copy.deepcopy(body.program)
    for module in program.modules():
        for name, weight in module.named_buffers(recurse=False):
            module.register_buffer(name, laid_out(weight, torch.channels_last))
    return Nested(
        program,
        body.read,
        body.shapes,
        body.results,
        body.in_spec,
        body.out_spec,
        channels_last=True,
    ).eval()


def laid_out(tensor: Tensor, layout: torch.memory_format) -> Tensor:
    """A tensor of four dims in a layout, any other as it is."""
    return tensor.contiguous(memory_format=layout) if tensor.dim() == 4 else tensor
