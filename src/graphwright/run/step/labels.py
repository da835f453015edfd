"""Labels and other indices of a batch: within their range, before a step is given up to them.

    targets.0 --ne, where, unsqueeze--> the index of a gather over 10 classes:     0 <= index < 10

A kernel that meets a label out of range fails in the middle of a step, whose parameters are lost
by then; a table that is split by rows would read zeros. Where an index follows from the batch
alone, by views and element-wise operators, it is computed beforehand and compared with the table's
rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from graphwright.aten import call_kernel
from graphwright.describe import Lookup, lookups, properties, types_of
from graphwright.errors import BatchMismatch
from graphwright.ir import Graph, Node, Role, TensorType
from graphwright.plans import Box, Program

_INTEGERS = ("int64", "int32")


@dataclass(frozen=True, slots=True)
class Label:
    """An index that follows from the batch: by which nodes, from which inputs, and its table."""

    node: Node
    index: str
    lookup: Lookup
    way: tuple[Node, ...]
    inputs: Mapping[str, TensorType]

    def is_whole(self, named: Mapping[str, torch.Tensor]) -> bool:
        """Whether a batch has all of what this follows from, not a part of it."""
        return all(tuple(named[n].shape) == type.shape for n, type in self.inputs.items())

    def check(self, named: Mapping[str, torch.Tensor], program: Program, is_due: bool) -> None:
        """Refuse a batch with an index out of range; on a GPU, which that waits for, when due."""
        values: dict[str, torch.Tensor] = {}
        for name, type in self.inputs.items():
            value = _enlarged(named[name].detach(), type, program.homes.get(name))
            if value is None or not (is_due or value.device.type == "cpu"):
                return
            values[name] = value
        for node in self.way:
            given = [None if name is None else values[name] for name in node.inputs]
            (values[node.name],) = call_kernel(node.op, given, node.attrs)
        least, most = (int(bound) for bound in values[self.index].aminmax())
        size = self.lookup.size
        if least < (-size if self.lookup.from_end else 0) or most >= size:
            place = f" in {self.node.module}" if self.node.module else ""
            raise BatchMismatch(
                f"{', '.join(self.inputs)}: {most if most >= size else least} is out of range for "
                f"{self.node.op}{place}, which chooses from {size}: 0 to {size - 1}; correct the "
                "batch, or make the table larger"
            )


def find_labels(graph: Graph) -> list[Label]:
    """All indices that follow from the batch alone; the same one once."""
    labels: dict[tuple[str, Lookup], Label] = {}
    for node in graph.nodes:
        types = [graph.tensors[name].type for name in node.inputs if name is not None]
        if len(types) < 2 or not any(type.dtype in _INTEGERS for type in types):
            continue
        for lookup in lookups(node.op, node.attrs, types_of(graph, node)):
            index = node.inputs[lookup.index]
            if index is None or graph.tensors[index].type.dtype not in _INTEGERS:
                continue
            way = _way_to(graph, index)
            inputs = {} if way is None else _inputs(graph, index, way)
            if way is not None and inputs and graph.tensors[index].type.numel:
                labels.setdefault((index, lookup), Label(node, index, lookup, way, inputs))
    return list(labels.values())


def _way_to(graph: Graph, name: str) -> tuple[Node, ...] | None:
    """The nodes from batch to a tensor, in their order; None where anything else takes part."""
    way: dict[str, Node] = {}
    left = [name]
    while left:
        tensor = left.pop()
        node = graph.producer(tensor)
        if node is None:
            if graph.tensors[tensor].role is not Role.INPUT:
                return None
        elif node.name not in way:
            facts = properties(node.op, node.attrs, types_of(graph, node))
            is_made = not node.inputs and not facts.random
            if not (facts.view or facts.elementwise or is_made) or len(node.outputs) > 1:
                return None
            way[node.name] = node
            left += [n for n in node.inputs if n is not None]
    return tuple(node for node in graph.nodes if node.name in way)


def _inputs(graph: Graph, name: str, way: tuple[Node, ...]) -> dict[str, TensorType]:
    read = {name, *(n for node in way for n in node.inputs if n is not None)}
    return {n: graph.tensors[n].type for n in graph.inputs if n in read}


def _enlarged(value: torch.Tensor, type: TensorType, box: Box | None) -> torch.Tensor | None:
    """A part of a batch as often as makes the whole; None where samples themselves are cut."""
    shape = type.shape
    if tuple(value.shape) == shape:
        return value
    if box is None or not value.numel() or box[1:] != tuple((0, size) for size in shape[1:]):
        return None
    times = -(-shape[0] // value.shape[0])
    return value.repeat(times, *[1] * (value.dim() - 1))[: shape[0]]
