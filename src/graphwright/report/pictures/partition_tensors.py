"""The tensors that a picture of a partition shows: each weight, and what its operator reads beside it.

    layer3.0.conv2   weight [2560, 2560, 3, 3]   data [8, 2560, 28, 28]      Block, of the run layer3.0
    layer3.1.conv2   ...the same, and so are its neighbours in layer3.1      Run of 35: layer3.1 to layer3.35

A module's path is cut behind its first number: what is before is the run's, what follows is the block's name in it. Numbers that follow
one another are one run while all their blocks have equal shapes and equal shardings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphwright.ir import Graph, Node, Phase, Role, TensorType
from graphwright.plans import Plan, Sharding
from graphwright.report.explain import follows, split_path
from graphwright.simulate import CostModel
from graphwright.tasks import Expansion, Site


@dataclass(frozen=True, slots=True)
class Part:
    """A tensor and where its pieces are; `names` are those of its dims."""

    type: TensorType
    sharding: Sharding
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A weight and what the operator that takes it reads; None where that is nothing but weights."""

    name: str
    weight: Part
    data: Part | None


@dataclass(frozen=True, slots=True)
class Run:
    """Blocks that are repeated `count` times; `path` is that of the first module, `last` that of the last."""

    path: str
    last: str
    count: int
    blocks: tuple[Block, ...]

    @property
    def title(self) -> str:
        """The modules in a few letters: `layer3.1 to 35`."""
        if self.count == 1:
            return self.path
        return f"{self.path} to {self.last.rpartition('.')[2]}"


def find_runs(graph: Graph, plan: Plan) -> tuple[Run, ...]:
    """All runs of a graph under a plan, in the order in which the forward pass takes the weights."""
    expansion = Expansion(Site(graph), plan, CostModel())
    runs: list[Run] = []
    for path, blocks in _units(graph, expansion):
        before = runs[-1] if runs else None
        if before is not None and follows(before.last, path) and before.blocks == blocks:
            runs[-1] = Run(before.path, path, before.count + 1, blocks)
        else:
            runs.append(Run(path, path, 1, blocks))
    return tuple(runs)


def _units(graph: Graph, expansion: Expansion) -> Iterator[tuple[str, tuple[Block, ...]]]:
    """The blocks by the path that they share up to their first number."""
    found: dict[str, list[Block]] = {}
    for weight, node, argument, turned in _weights(graph, expansion.site):
        module = weight.rpartition(".")[0] or weight
        path, name = split_path(module)
        found.setdefault(path, []).append(
            Block(
                name,
                _weight(graph, expansion, weight, node, turned),
                _data(graph, expansion, node, argument),
            )
        )
    for path, blocks in found.items():
        yield path, tuple(blocks)


def _weights(graph: Graph, site: Site) -> Iterator[tuple[str, Node, int, bool]]:
    """Every weight of two dims or more, the operator that takes it, as which argument, and whether it was transposed on the way.

    In an unrolled recurrence it is the operator of the middle step: the first one reads zeros.
    """
    found: list[tuple[int, str, int, bool]] = []
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if tensor.role is not Role.PARAMETER or tensor.type.rank < 2:
            continue
        readers = list(_readers(graph, site, name, turned=False))
        if readers:
            alike = [r for r in readers if graph.nodes[r[0]].op == graph.nodes[readers[0][0]].op]
            position, argument, turned = alike[len(alike) // 2]
            found.append((position, name, argument, turned))
    for position, name, argument, turned in sorted(found):
        yield name, graph.nodes[position], argument, turned


def _readers(
    graph: Graph, site: Site, name: str, *, turned: bool
) -> Iterator[tuple[int, int, bool]]:
    """The forward operators that compute with a tensor, behind any views of it."""
    for position, argument in site.readers[name]:
        node = graph.nodes[position]
        if node.phase is not Phase.FORWARD:
            continue
        if site.is_view[position]:
            for view in node.outputs:
                yield from _readers(graph, site, view, turned=turned != (node.op == "aten.permute"))
        else:
            yield position, argument, turned


def _weight(graph: Graph, expansion: Expansion, name: str, node: Node, turned: bool) -> Part:
    type = graph.tensors[name].type
    if "embedding" in node.op:
        names: tuple[str, ...] = ("word", "channel")
    elif "convolution" in node.op:
        names = ("out", "in", "height", "width")
    elif type.rank == 2:
        names = ("out", "in") if turned else ("in", "out")
    else:
        names = ()
    return Part(type, expansion.source(name), _named(names, type))


def _data(graph: Graph, expansion: Expansion, node: Node, weight: int) -> Part | None:
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
    return Part(type, expansion.source(name), _named(names, type))


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
