"""Put a substitution's target into a captured graph: new ATen calls, and what nothing reads goes.

A target may need a tensor that the program makes later than the first use of what it replaces. So
nodes are written when they are needed: each after all that it reads.
"""

from __future__ import annotations

from collections.abc import Iterable

from graphwright.ir import Edit, Graph, Node, TensorType
from graphwright.rewrite.substitutions.graphs import (
    CONSTANTS,
    Call,
    Expression,
    Input,
    Match,
    Shape,
    program_of,
    sizes_of,
    subterms,
)
from graphwright.rewrite.substitutions.models.constants import constant_calls
from graphwright.rewrite.substitutions.models.recognise import shapes_of_tensors
from graphwright.rewrite.substitutions.values import place


def replace_match(graph: Graph, match: Match) -> Graph:
    """The graph with the target of a match (`find`) in place of its source."""
    return _Writer(graph, match).run()


class _Writer:
    def __init__(self, graph: Graph, match: Match) -> None:
        self.graph, self.match, self.edit = graph, match, Edit(graph)
        self.places = [str(p) for p in match.places]
        self.done: set[str] = set()

    def run(self) -> Graph:
        for node in self.graph.nodes:
            self._write(node)
        return self.edit.build()

    def _write(self, node: Node) -> None:
        """Write a node after all that it reads, or the target in place of the source."""
        waiting = [node]
        while waiting:
            top = waiting[-1]
            replaced = top.outputs[0] in self.places
            reads = [str(e) for e in self.match.binding.values()] if replaced else list(top.inputs)
            makers = (self.graph.producer(name) for name in reads if name is not None)
            missing = [m for m in makers if m is not None and m.name not in self.done]
            if top.name in self.done or not missing:
                waiting.pop()
                if top.name not in self.done:
                    self._emit(top, replaced)
            else:
                waiting += missing

    def _emit(self, node: Node, replaced: bool) -> None:
        if not replaced:
            self.done.add(node.name)
            self.edit.keep(node)
            return
        for old, made in zip(self.places, self._targets(node), strict=True):
            self.edit.replace(old, made)
            maker = self.graph.producer(old)
            assert maker is not None
            self.done.add(maker.name)

    def _targets(self, beside: Node) -> list[str]:
        """Write the target's calls; returns the names of its outputs."""
        targets = self.match.targets()
        given = place(self.match, shapes_of_tensors(self.graph))
        assert given is not None
        dtype = self.graph.tensors[self.places[0]].type.dtype
        names: dict[Expression, str] = {}
        shapes: dict[Expression, Shape] = {}
        for e in subterms(*targets):
            made: list[str] = []
            if isinstance(e, Input):
                names[e], shapes[e] = self.edit.current(e.name), given[e]
                continue
            if e.op in CONSTANTS:
                calls: Iterable[Call] = constant_calls(e, sizes_of(given[e]), dtype)
                shapes[e] = given[e]
            else:
                program = program_of(e.op, e.params, [shapes[arg] for arg in e.args])
                assert program is not None
                made += [names[arg] for arg in e.args]
                calls, shapes[e] = program.calls, program.shape
            for call in calls:
                inputs = [None if i is None else made[i] for i in call.inputs]
                kind = TensorType(call.shapes[0], dtype)
                made.append(self.edit.add(call.op, inputs, call.attrs, kind, beside=beside))
            names[e] = made[-1]
        return [names[target] for target in targets]
