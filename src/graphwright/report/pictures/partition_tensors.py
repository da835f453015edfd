"""The tensors that a picture of a partition shows: each weight, and what is read beside it.

    layer3.0.conv2   weight [2560, 2560, 3, 3]   data [8, 2560, 28, 28]   a layer of run layer3.0
    layer3.1.conv2   ...the same, and so are its neighbours in layer3.1   run of 35: layer3.1 to 35

A module's path is cut behind its first number: what is before is the run's, what follows is the
layer's name in it. Numbers that follow one another are one run while all their layers have equal
shapes and equal shardings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphwright.ir import Graph, Node, Phase, Role, TensorType
from graphwright.plans import Plan, Sharding
from graphwright.report.explain import follows, split_path
from graphwright.rewrite import graph_of_plan
from graphwright.simulate import CostModel
from graphwright.tasks import Expansion, GraphFacts


@dataclass(frozen=True, slots=True)
class DrawnTensor:
    """A tensor and where its pieces are; `names` are those of its dims."""

    type: TensorType
    sharding: Sharding
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DrawnLayer:
    """A weight and what its operator reads beside it; None where that is nothing but weights."""

    name: str
    weight: DrawnTensor
    data: DrawnTensor | None


@dataclass(frozen=True, slots=True)
class Run:
    """Layers that are repeated `count` times, from the module `path` to the module `last`."""

    path: str
    last: str
    count: int
    layers: tuple[DrawnLayer, ...]

    @property
    def title(self) -> str:
        """The modules in a few letters: `layer3.1 to 35`."""
        if self.count == 1:
            return self.path
        return f"{self.path} to {self.last.rpartition('.')[2]}"


def find_runs(graph: Graph, plan: Plan) -> tuple[Run, ...]:
    """All runs of a graph under a plan, in the order in which the forward pass reads weights."""
    graph = graph_of_plan(graph, plan)
    expansion = Expansion(GraphFacts(graph), plan, CostModel())
    runs: list[Run] = []
    for path, layers in _units(graph, expansion):
        before = runs[-1] if runs else None
        if before is not None and follows(before.last, path) and before.layers == layers:
            runs[-1] = Run(before.path, path, before.count + 1, layers)
        else:
            runs.append(Run(path, path, 1, layers))
    return tuple(runs)


def _units(graph: Graph, expansion: Expansion) -> Iterator[tuple[str, tuple[DrawnLayer, ...]]]:
    """The layers by the path that they share up to their first number."""
    by_path: dict[str, list[DrawnLayer]] = {}
    for weight, node, argument, turned in _weights(graph, expansion.facts):
        module = weight.rpartition(".")[0] or weight
        path, name = split_path(module)
        by_path.setdefault(path, []).append(
            DrawnLayer(
                name,
                _weight(graph, expansion, weight, node, turned),
                _data(graph, expansion, node, argument),
            )
        )
    for path, layers in by_path.items():
        yield path, tuple(layers)


def _weights(graph: Graph, facts: GraphFacts) -> Iterator[tuple[str, Node, int, bool]]:
    """Every weight of two dims or more: who takes it, as which argument, whether transposed.

    In an unrolled recurrence it is the operator of the middle step: the first one reads zeros.
    """
    uses: list[tuple[int, str, int, bool]] = []
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if tensor.role is not Role.PARAMETER or tensor.type.rank < 2:
            continue
        readers = list(_readers(graph, facts, name, turned=False))
        if readers:
            alike = [r for r in readers if graph.nodes[r[0]].op == graph.nodes[readers[0][0]].op]
            position, argument, turned = alike[len(alike) // 2]
            uses.append((position, name, argument, turned))
    for position, name, argument, turned in sorted(uses):
        yield name, graph.nodes[position], argument, turned


def _readers(
    graph: Graph, facts: GraphFacts, name: str, *, turned: bool
) -> Iterator[tuple[int, int, bool]]:
    """The forward operators that compute with a tensor, behind any views of it."""
    for position, argument in facts.readers[name]:
        node = graph.nodes[position]
        if node.phase is not Phase.FORWARD:
            continue
        if facts.is_view[position]:
            for view in node.outputs:
                yield from _readers(
                    graph, facts, view, turned=turned != (node.op == "aten.permute")
                )
        else:
            yield position, argument, turned


def _weight(graph: Graph, expansion: Expansion, name: str, node: Node, turned: bool) -> DrawnTensor:
    type = graph.tensors[name].type
    if "embedding" in node.op:
        names: tuple[str, ...] = ("word", "channel")
    elif "convolution" in node.op:
        names = ("out", "in", "height", "width")
    elif type.rank == 2:
        names = ("out", "in") if turned else ("in", "out")
    else:
        names = ()
    return DrawnTensor(type, expansion.source(name), _named(names, type))


def _data(graph: Graph, expansion: Expansion, node: Node, weight: int) -> DrawnTensor | None:
    """The largest of an operator's other arguments that are no weights."""
    others = [
        name
        for at, name in enumerate(node.inputs)
        if name is not None and at != weight and graph.tensors[name].role is not Role.PARAMETER
    ]
    if not others:
        return None
    name = max(others, key=lambda other: graph.tensors[other].type.nbytes)
    type = graph.tensors[name].type
    names: tuple[str, ...] = ()
    if type.rank > 2 and "convolution" in node.op:
        names = ("batch", "channel", "height", "width")
    elif type.rank == 3:
        names = ("batch", "position", "channel")
    elif type.rank == 2:
        second = "position" if "embedding" in node.op else "channel"
        names = (_rows(graph, type.shape[0]), second)
    return DrawnTensor(type, expansion.source(name), _named(names, type))


def _rows(graph: Graph, size: int) -> str:
    """What the rows of a matrix are: samples, or positions of samples."""
    given = [graph.tensors[n] for n in graph.inputs]
    sizes = {t.type.shape[0] for t in given if t.role is Role.INPUT and t.type.rank}
    if size in sizes:
        return "batch"
    return "batch × position" if any(size % s == 0 for s in sizes) else "row"


def _named(names: tuple[str, ...], type: TensorType) -> tuple[str, ...]:
    """Names for all dims; numbers for those that have none."""
    more = tuple(f"dim {dim}" for dim in range(len(names), type.rank))
    return (*names[: type.rank], *more)
