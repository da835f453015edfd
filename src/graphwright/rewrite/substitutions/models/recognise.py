"""Which nodes of a captured inference graph are operators of substitutions?

A node is an operator with some parameters where it is the ATen call of that operator for the shapes
at hand: name, attributes and shapes agree. There is no second table of meanings. A ReLU of a
convolution is two things, a `relu` and a `conv` with activation. All other nodes are opaque:
convolutions with bias or dilation, averages that leave out the padding, views, softmax and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from graphwright.ir import Graph, Node
from graphwright.rewrite.substitutions.graphs import (
    Expression,
    Input,
    Param,
    Shape,
    Term,
    program_of,
)

_BINARY = {"aten.add.Tensor": ("ewadd",), "aten.mul.Tensor": ("ewmul", "smul")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """A graph, and for each tensor the operators on other tensors that it is the result of."""

    graph: Graph
    terms: Mapping[str, tuple[Term, ...]]

    @property
    def shapes(self) -> dict[Expression, Shape]:
        """The shapes of all tensors."""
        return shapes_of_tensors(self.graph)


def shapes_of_tensors(graph: Graph) -> dict[Expression, Shape]:
    """The shapes of all tensors of a graph."""
    return {Input(name): t.type.shape for name, t in graph.tensors.items()}


def recognise(graph: Graph) -> Recognised:
    """Find the operators of substitutions in a graph."""
    terms: dict[str, tuple[Term, ...]] = {}
    for node in graph.nodes:
        found = tuple(term for term in _suggested(node, graph) if _is_call(term, node, graph))
        fused = tuple(_with_relu(term, terms) for term in found if term.op == "relu")
        if found:
            terms[node.outputs[0]] = (*found, *(term for each in fused for term in each))
    return Recognised(graph=graph, terms=terms)


def _suggested(node: Node, graph: Graph) -> Iterator[Term]:
    """Terms that a node may be, by its operator and attributes."""
    args = tuple(Input(name) for name in node.inputs if name is not None)
    attrs = node.attrs
    rank = len(graph.tensors[node.outputs[0]].type.shape)

    def terms(op: str, *choices: tuple[Param, ...]) -> Iterator[Term]:
        yield from (Term(op, params, args) for params in choices)

    match node.op:
        case "aten.add.Tensor" | "aten.mul.Tensor":
            for op in _BINARY[node.op]:
                yield from terms(op, ())
        case "aten.relu":
            yield from terms("relu", ())
        case "aten.permute":
            yield from terms("transpose", ())
        case "aten.mm" | "aten.bmm":
            yield from terms("matmul", ())
        case "aten.cat" if len(args) == 2 and isinstance(dim := attrs["dim"], int):
            yield from terms("concat", (dim % rank if rank == 4 else dim % rank - rank,))
        case "aten.convolution" if len(args) == 2:
            stride = _first(attrs["stride"])
            yield from terms("conv", (stride, "valid", "none"), (stride, "same", "none"))
        case "aten.avg_pool2d" | "graphwright.max_pool":
            op = "pool_avg" if node.op == "aten.avg_pool2d" else "pool_max"
            kernel, stride = _first(attrs["kernel_size"]), _first(attrs["stride"])
            yield from terms(op, (kernel, stride, "valid"), (kernel, stride, "same"))


def _first(value: object) -> int:
    """The first of a list of integers, 0 where there is none."""
    return value[0] if isinstance(value, tuple) and value and isinstance(value[0], int) else 0


def _is_call(term: Term, node: Node, graph: Graph) -> bool:
    """Whether the node is the call of this operator for its shapes."""
    types = [graph.tensors[name].type for name in node.inputs if name is not None]
    if any(not t.dtype.startswith(("float", "bfloat")) or 0 in t.shape for t in types):
        return False
    if 0 in term.params or len({t.dtype for t in types}) > 1:
        return False
    program = program_of(term.op, term.params, [t.shape for t in types])
    if program is None or len(program.calls) != 1:
        return False
    (call,) = program.calls
    made = graph.tensors[node.outputs[0]].type.shape
    return (call.op, dict(call.attrs), call.shapes[0]) == (node.op, dict(node.attrs), made)


def _with_relu(relu: Term, terms: Mapping[str, tuple[Term, ...]]) -> Iterator[Term]:
    """Convolutions with activation that a ReLU of a convolution is."""
    (arg,) = relu.args
    assert isinstance(arg, Input)
    for term in terms.get(arg.name, ()):
        if term.op == "conv" and term.params[2] == "none":
            yield Term("conv", (*term.params[:2], "relu"), term.args)
