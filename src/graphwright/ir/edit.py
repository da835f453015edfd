"""Rewriting a graph node by node, in program order.

    edit = Edit(graph)
    for node in graph.nodes:
        if is_identity(node):
            edit.replace(node.name, node.inputs[0])    # whoever read the one reads the other
        else:
            edit.keep(node)
    graph = edit.build()

A node of the old graph is kept as it is or with another operator, inputs or attributes; further
nodes are added with the provenance of one that they stand beside; a tensor is replaced by another.
`build` then settles what points to what is gone, and verifies the result:

    dead        a node that nothing reads any more goes; one that nothing read before stays
    names       inputs and outputs keep theirs. A tensor that replaces one with a name of its own
                (`fc.weight.grad`, not `mm_3`) takes that name, or where it has one already and the
                other is an output, is copied under it
    of          a gradient of what is gone is the gradient of what replaces it, if that has the
                same shape, and an activation otherwise
    partner     the node that does a forward node's work now, else the nearest forward node before
                it; a backward node stands where its partner does (module, layer, step)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from graphwright.errors import InvalidGraph
from graphwright.ir.build import Names, is_made_name, name_of
from graphwright.ir.graph import Graph
from graphwright.ir.node import Composite, Node, Tensor
from graphwright.ir.spelling import Attr, spell_name
from graphwright.ir.types import Phase, Role, TensorType
from graphwright.ir.verify import verify

COPY = "aten.clone"


class Edit:
    """A graph on its way to the next one: `nodes` and `tensors` are those written so far."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.tensors = {name: graph.tensors[name] for name in graph.inputs}
        self.replaced: dict[str, str] = {}
        self._names = Names(graph.tensors)
        self._producers: dict[str, Node] = {}
        self._places: dict[str, int] = {}  # of the node that does an old node's work, by its name

    # What there is.

    def current(self, name: str) -> str:
        """The tensor that stands for one of the old graph."""
        while name in self.replaced:
            name = self.replaced[name]
        return name

    def updated(self, node: Node) -> Node:
        """A node of the old graph, reading what there is now."""
        inputs = tuple([None if name is None else self.current(name) for name in node.inputs])
        return node if inputs == node.inputs else replace(node, inputs=inputs)

    def type(self, name: str) -> TensorType:
        """The type of a tensor written so far."""
        return self.tensors[name].type

    def producer(self, name: str) -> Node | None:
        """The node that makes a tensor written so far, None for an input."""
        return self._producers.get(name)

    # What is written.

    def keep(
        self,
        node: Node,
        *,
        op: str | None = None,
        inputs: Sequence[str | None] | None = None,
        attrs: Mapping[str, Attr] | None = None,
    ) -> None:
        """Write a node of the old graph: its outputs as they were, made as is said here."""
        node = self.updated(node)
        changes = {"op": op, "inputs": inputs, "attrs": attrs}
        if any(new is not None for new in changes.values()):
            given = {field: new for field, new in changes.items() if new is not None}
            node = replace(node, **given)  # type: ignore[arg-type]
        self._write(node, [self.graph.tensors[name] for name in node.outputs])

    def add(
        self,
        op: str,
        inputs: Iterable[str | None],
        attrs: Mapping[str, Attr],
        type: TensorType,
        *,
        beside: Node,
    ) -> str:
        """Write a new node, with the provenance of another; returns the name of its output."""
        name = self._names.fresh(name_of(op))
        read = tuple([None if name is None else self.current(name) for name in inputs])
        node = replace(beside, op=op, inputs=read, attrs=attrs, outputs=(name,))
        self._write(node, [Tensor(name, type)])
        return name

    def replace(self, old: str, new: str) -> None:
        """Let a tensor stand for one of the old graph, for all nodes that are written later."""
        self.replaced[old] = new
        maker = self._producers.get(new)
        self._places[old] = len(self.nodes) - 1 if maker is None else self._places[maker.name]

    def move(self, old: str, new: str) -> None:
        """Say that the node which makes `new` does the work of a node of the old graph, its name
        given.
        """
        self._places[old] = self._places[self._producers[new].name]

    def join(self, composite: Composite, members: Sequence[Node]) -> str:
        """Write one node in the place of several of the old graph, which are not written; its name.

        Its outputs are theirs; the others, which the old graph does not have, get names.
        """
        made: list[Tensor] = []
        for name, type in zip(composite.outputs, composite.types, strict=True):
            fresh = Tensor(self._names.fresh(name_of(composite.op)), type)
            made.append(fresh if name is None else self.graph.tensors[name])
        makers = {name: node for node in members for name in node.outputs}
        like = makers[next(name for name in composite.outputs if name is not None)]
        node = replace(
            like,
            op=composite.op,
            inputs=tuple([None if n is None else self.current(n) for n in composite.inputs]),
            attrs=composite.attrs,
            outputs=tuple([tensor.name for tensor in made]),
        )
        self._write(node, made)
        self._places |= {member.name: self._places[node.name] for member in members}
        return node.name

    def label(self, name: str, role: Role, of: str | None) -> None:
        """Say what a tensor is, and whose gradient or new value."""
        self.tensors[name] = replace(self.tensors[name], role=role, of=of)

    def _write(self, node: Node, outputs: Iterable[Tensor]) -> None:
        for name in node.inputs:
            if name is not None and name not in self.tensors:
                raise _forgotten(name, f"{spell_name(node.name)} reads")
        self._places[node.name] = len(self.nodes)
        self.nodes.append(node)
        for tensor in outputs:
            self.tensors[tensor.name] = tensor
            self._producers[tensor.name] = node

    # The end.

    def build(self, *, renumber: bool = False) -> Graph:
        """Make the graph and verify it.

        `renumber` numbers the names that are made from operators' anew, in program order.
        """
        for name in self.graph.outputs:
            if self.current(name) not in self.tensors:
                raise _forgotten(name, "the graph returns")
        names = self._own_names()
        nodes = self._settle_partners(self._living())
        if renumber:
            names |= self._renumbered(nodes, names)
        graph = self._renamed(nodes, names)
        verify(graph)
        return graph

    def _own_names(self) -> dict[str, str]:
        """Let what replaces a tensor with a name of its own have that name; names by tensor."""
        names: dict[str, str] = {}
        outputs = set(self.graph.outputs)
        for old in list(self.replaced):
            maker, new = self.graph.producer(old), self.current(old)
            if maker is None or (is_made_name(old, maker.op) and old not in outputs):
                continue
            made_by, before = self._producers.get(new), self.graph.tensors[old]
            is_free = new not in names and new not in outputs
            if made_by is not None and is_free and is_made_name(new, made_by.op):
                if before.of is not None:
                    self.label(new, before.role, before.of)
                names[new] = old
            elif old in outputs:
                self.replaced[old] = copy = self._copy(new, before)
                names[copy] = old
        return names

    def _copy(self, name: str, like: Tensor) -> str:
        """A copy of a tensor, which is what another one was."""
        made_by = self._producers.get(name) or Node(COPY, (name,), {}, (name,))
        beside = replace(made_by, module="", layer=None, step=None)
        copy = self.add(COPY, [name], {}, self.type(name), beside=beside)
        self.label(copy, like.role, like.of)
        return copy

    def _living(self) -> list[int]:
        """The positions of the nodes that stay, in order."""
        read = {name for node in self.graph.nodes for name in node.inputs}
        read.update(self.graph.outputs)
        unread = [
            n for node in self.graph.nodes if read.isdisjoint(node.outputs) for n in node.outputs
        ]
        wanted: set[str | None] = {self.current(name) for name in (*self.graph.outputs, *unread)}
        positions: list[int] = []
        for position in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[position]
            if not wanted.isdisjoint(node.outputs):
                positions.append(position)
                wanted.update(node.inputs)
        return positions[::-1]

    def _settle_partners(self, positions: Sequence[int]) -> list[Node]:
        """The nodes at these positions, each backward one with a partner among them."""
        forward = [p for p in positions if self.nodes[p].phase is Phase.FORWARD]
        is_forward = set(forward)
        settled: list[Node] = []
        for position in positions:
            node = self.nodes[position]
            if node.partner is not None:
                at = self._place(node.partner)
                if at not in is_forward and forward:  # the nearest before it, or the first
                    at = forward[max(bisect_right(forward, at) - 1, 0)]
                node = _with_partner(node, self.nodes[at] if forward else None)
            settled.append(node)
        return settled

    def _place(self, name: str) -> int:
        """Where the work of a node is done, which may itself be done elsewhere by now."""
        place = self._places.get(name, -1)
        while place >= 0 and self._places[self.nodes[place].name] != place:
            place = self._places[self.nodes[place].name]
        return place

    def _renumbered(self, nodes: Sequence[Node], names: Mapping[str, str]) -> dict[str, str]:
        """Names made from operators', in the place of other such ones."""
        outputs = set(self.graph.outputs)
        made: dict[str, str] = {}
        kept = list(self.graph.inputs)
        for node in nodes:
            for i, name in enumerate(node.outputs):
                if name in names or name in outputs or not self._has_made_name(name):
                    kept.append(names.get(name, name))
                else:
                    made[name] = f"{name_of(node.op)}:{i}" if i else name_of(node.op)
        fresh = Names(kept)
        return {name: fresh.fresh(wanted) for name, wanted in made.items()}

    def _has_made_name(self, name: str) -> bool:
        """Whether a tensor has its name from the operator that makes it, or made it before."""
        maker = self._producers[name]
        if name in self.graph.tensors:
            maker = self.graph.producer(name) or maker
        return is_made_name(name, maker.op)

    def _renamed(self, nodes: Sequence[Node], names: Mapping[str, str]) -> Graph:
        """The graph of these nodes, with some tensors under other names."""
        tensors = {name: self.tensors[name] for name in self.graph.inputs}
        final = {name: name for name in self.graph.inputs}
        renamed: list[Node] = []
        for node in nodes:
            inputs = tuple([None if name is None else final[name] for name in node.inputs])
            partner = None if node.partner is None else final[node.partner]
            settled = [self._settled(self.tensors[name], final) for name in node.outputs]
            final |= {name: names.get(name, name) for name in node.outputs}
            outputs = tuple([final[name] for name in node.outputs])
            for name, tensor in zip(outputs, settled, strict=True):
                tensors[name] = tensor if tensor.name == name else replace(tensor, name=name)
            if (outputs, inputs, partner) != (node.outputs, node.inputs, node.partner):
                node = replace(node, inputs=inputs, outputs=outputs, partner=partner)
            renamed.append(node)
        current = {old: final.get(self.current(old), "") for old in self.graph.tensors}
        present = {old: new for old, new in current.items() if new}
        composites = (composite.renamed(present) for composite in self.graph.composites)
        return Graph(
            nodes=tuple(renamed),
            tensors=tensors,
            inputs=self.graph.inputs,
            outputs=tuple([final[self.current(name)] for name in self.graph.outputs]),
            updates={old: final[self.current(new)] for old, new in self.graph.updates.items()},
            passes=self.graph.passes,
            options=self.graph.options,
            composites=tuple([composite for composite in composites if composite is not None]),
        )

    def _settled(self, tensor: Tensor, final: Mapping[str, str]) -> Tensor:
        """A tensor `of` one that is there with its shape, by its final name; else an activation."""
        if tensor.of is None:
            return tensor
        of = self.current(tensor.of)
        if of not in final or self.type(of).shape != tensor.type.shape:
            return replace(tensor, role=Role.ACTIVATION, of=None)
        return tensor if final[of] == tensor.of else replace(tensor, of=final[of])


def _forgotten(name: str, who: str) -> InvalidGraph:
    return InvalidGraph(
        f"{who} {spell_name(name)}, which was neither kept nor replaced; a pass has to do one of "
        "them "
        "with every node that is still read",
        rule="undefined tensor",
    )


def _with_partner(node: Node, partner: Node | None) -> Node:
    """A backward node with its partner, in whose place it stands."""
    if partner is None:
        return replace(node, partner=None)
    if partner.name == node.partner:
        return node
    return replace(
        node,
        partner=partner.name,
        module=partner.module,
        layer=partner.layer,
        step=partner.step,
    )
