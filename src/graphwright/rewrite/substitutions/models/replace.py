"""Put a substitution's target into a captured graph: new ATen calls, and what nothing reads goes.

A target may need a tensor that the program makes later than the first use of what it replaces. So
nodes are written when they are needed: each after all that it reads.
"""

from __future__ import annotations

from graphwright.ir import Edit, Graph, Node, TensorType
from graphwright.rewrite.substitutions.graphs import (
    Expression,
    Input,
    Match,
    Shape,
    program_of,
    subterms,
)


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
        for place, made in zip(self.places, self._targets(node), strict=True):
            self.edit.replace(place, made)
            maker = self.graph.producer(place)
            assert maker is not None
            self.done.add(maker.name)

    def _targets(self, beside: Node) -> list[str]:
        """Write the target's calls; returns the names of its outputs."""
        targets = self.match.targets()
        names: dict[Expression, str] = {}
        shapes: dict[Expression, Shape] = {}
        for e in subterms(*targets):
            if isinstance(e, Input):
                names[e] = self.edit.current(e.name)
                shapes[e] = self.graph.tensors[e.name].type.shape
                continue
            program = program_of(e.op, e.params, [shapes[arg] for arg in e.args])
            assert program is not None
            dtype = self.edit.type(names[e.args[0]]).dtype
            made = [names[arg] for arg in e.args]
            for call in program.calls:
                inputs = [None if i is None else made[i] for i in call.inputs]
                kind = TensorType(call.shapes[0], dtype)
                made.append(self.edit.add(call.op, inputs, call.attrs, kind, beside=beside))
            names[e], shapes[e] = made[-1], program.shape
        return [names[target] for target in targets]
