"""The rules that every graph obeys; each stage may rely on them and each pass has to keep them.

| rule                  | what has to hold                                                       |
| --------------------- | ---------------------------------------------------------------------- |
| undefined tensor      | what is read is an input or is made by a node                          |
| use before definition | by an EARLIER node: the order of the nodes can run, so no cycles       |
| duplicate definition  | one definition for each tensor, and none left without                  |
| name                  | a tensor is filed under its own name                                   |
| role                  | inputs are parameters, buffers, state, batch or constants; only nodes  |
|                       | make activations and gradients; a node makes a parameter, buffer or    |
|                       | state only as the new value `of` an input with that role and type      |
| of                    | a gradient's is defined before it and has its shape; state's is a      |
|                       | parameter; other tensors have none                                     |
| partner               | only backward nodes have one: an earlier forward node, by its name     |
| parameter             | only update nodes have one: an input with that role                    |
| output                | every output is defined                                                |
| update                | from a parameter, buffer or state among the inputs to an output with   |
|                       | the same type                                                          |

Shapes, dtypes, attributes and names of operators are checked when the values that hold them are
made.
"""

from __future__ import annotations

from typing import NoReturn

from graphwright.errors import InvalidGraph
from graphwright.ir.graph import Graph
from graphwright.ir.node import Node, Tensor
from graphwright.ir.spelling import spell_name
from graphwright.ir.types import INPUT_ROLES, PERSISTENT_ROLES, Phase, Role

_NEIGHBOURS = 3
"""How many producers of a node's inputs a message shows."""


def verify(graph: Graph) -> None:
    """Raise InvalidGraph, naming the rule and the place, unless the graph obeys every rule."""
    _Check(graph).run()


class _Check:
    """One walk over a graph in program order; `defined` and `forward` are what lies behind."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tensors = dict(graph.tensors.items())  # a plain dict: it is asked very often
        self.inputs = frozenset(graph.inputs)
        self.defined: set[str] = set()
        self.forward: set[str] = set()

    def run(self) -> None:
        for name in self.graph.inputs:
            self.check_input(name)
        for name in self.graph.inputs:  # after all: state may be listed before its parameter
            self.check_of_input(self.tensors[name])
        for node in self.graph.nodes:
            self.check_node(node)
        if len(self.defined) != len(self.tensors) or self.defined != self.tensors.keys():
            name = min(self.tensors.keys() - self.defined)
            what = "is listed but neither an input nor made by a node"
            self.fail("duplicate definition", name, what)
        for name in self.graph.outputs:
            if name not in self.defined:
                self.fail("output", name, "is an output, but the graph does not define it")
        self.check_updates()

    def check_input(self, name: str) -> None:
        tensor = self.define(name, None)
        if tensor.role not in INPUT_ROLES:
            known = ", ".join(sorted(INPUT_ROLES))
            what = f"is an input with role {tensor.role}; an input is one of {known}"
            self.fail("role", name, what)

    def check_of_input(self, tensor: Tensor) -> None:
        if tensor.of is None:
            return
        owner = self.tensors.get(tensor.of)
        if tensor.of not in self.inputs or owner is None:
            self.fail("of", tensor.name, f"is of {spell_name(tensor.of)}, which is not an input")
        if tensor.role is not Role.OPTIMIZER_STATE or owner.role is not Role.PARAMETER:
            self.fail(
                "of",
                tensor.name,
                f"({tensor.role}) is of {spell_name(owner.name)} ({owner.role}); among inputs only "
                "optimizer_state has an 'of', and it names a parameter",
            )

    def check_node(self, node: Node) -> None:
        defined = self.defined
        for name in node.inputs:
            if name is not None and name not in defined:
                self.fail_undefined(name, node)
        if node.partner is not None:
            self.check_partner(node, node.partner)
        if node.parameter is not None:
            self.check_parameter(node, node.parameter)
        for name in node.outputs:
            tensor = self.define(name, node)
            role = tensor.role
            if role is Role.INPUT:
                self.fail("role", name, "is made by a node, so its role cannot be input", node)
            if role in PERSISTENT_ROLES:
                self.check_new_value(tensor, node)
            elif tensor.of is not None:
                self.check_of(tensor, tensor.of, node)
        if node.phase is Phase.FORWARD:
            self.forward.add(node.outputs[0])

    def define(self, name: str, node: Node | None) -> Tensor:
        if name in self.defined:
            what = "is defined twice; give each output its own name"
            self.fail("duplicate definition", name, what, node)
        tensor = self.tensors.get(name)
        if tensor is None:
            what = "has no entry in `tensors`, so no type and role"
            self.fail("undefined tensor", name, what, node)
        if tensor.name != name:
            what = f"is filed under a name other than its own, {tensor.name!r}"
            self.fail("name", name, what, node)
        self.defined.add(name)
        return tensor

    def check_new_value(self, tensor: Tensor, node: Node) -> None:
        old = self.tensors.get(tensor.of) if tensor.of in self.inputs else None
        if old is None or old.role is not tensor.role or old.type != tensor.type:
            owner = "nothing" if tensor.of is None else repr(old) if old else spell_name(tensor.of)
            self.fail(
                "role",
                tensor.name,
                f"is a {tensor.role} made by a node, so it has to be the new value 'of' an input "
                f"with that role and type {tensor.type!r}; it is of {owner}",
                node,
            )

    def check_of(self, tensor: Tensor, of: str, node: Node) -> None:
        if tensor.role is not Role.GRADIENT:
            only = "only gradients and new values have an 'of'"
            self.fail("of", tensor.name, f"is a {tensor.role} of {spell_name(of)}; {only}", node)
        if of not in self.defined or of in node.outputs:
            state = "defined later" if of in self.tensors else "not in the graph"
            what = f"is the gradient of {spell_name(of)}, which is {state}"
            self.fail("of", tensor.name, what, node)
        if self.tensors[of].type.shape != tensor.type.shape:
            what = f"with type {tensor.type!r} is the gradient of {self.tensors[of]!r}"
            self.fail("of", tensor.name, f"{what}; a gradient has the shape of its tensor", node)

    def check_partner(self, node: Node, partner: str) -> None:
        if node.phase is not Phase.BACKWARD:
            what = f"has a partner in phase {node.phase}; only backward nodes have one"
            self.fail("partner", node.name, what, node)
        if partner not in self.forward:
            what = f"has partner {spell_name(partner)}"
            why = "which is not the name of an earlier forward node"
            self.fail("partner", node.name, f"{what}, {why}", node)

    def check_parameter(self, node: Node, parameter: str) -> None:
        if node.phase is not Phase.UPDATE:
            what = f"has a parameter in phase {node.phase}; only update nodes have one"
            self.fail("parameter", node.name, what, node)
        if parameter not in self.inputs or self.tensors[parameter].role is not Role.PARAMETER:
            what = f"updates {spell_name(parameter)}, which is not an input with role parameter"
            self.fail("parameter", node.name, what, node)

    def check_updates(self) -> None:
        outputs = frozenset(self.graph.outputs)
        for old, new in self.graph.updates.items():
            before = self.tensors.get(old) if old in self.inputs else None
            if before is None or before.role not in PERSISTENT_ROLES:
                what = "is updated, but is not a parameter, buffer or state given as input"
                self.fail("update", old, what)
            if new not in outputs:
                what = f"is replaced by {spell_name(new)}, which is not an output"
                self.fail("update", old, what)
            after = self.tensors[new]
            if after.type != before.type:
                what = f"has type {before.type!r}, its new value is {after!r}; make them equal"
                self.fail("update", old, what)

    def fail_undefined(self, name: str, node: Node) -> NoReturn:
        producer = self.graph.producer(name) if name in self.tensors else None
        if producer is None:
            what = "is read, but is no input and nothing makes it"
            self.fail("undefined tensor", name, what, node)
        what = f"is read before it is made, by {producer!r}"
        how = "move that node up (in a cycle none can be)"
        self.fail("use before definition", name, f"{what}; {how}", node)

    def fail(self, rule: str, name: str, what: str, node: Node | None = None) -> NoReturn:
        lines = [f"{rule}: {spell_name(name)} {what}"]
        if node is not None:
            lines.append(f"  at  {node!r}")
            known = [n for n in dict.fromkeys(node.inputs) if n is not None and n in self.defined]
            for source in known[:_NEIGHBOURS]:
                producer = self.graph.producer(source)
                lines.append(f"  reads  {producer or self.tensors[source]!r}")
        raise InvalidGraph("\n".join(lines), rule=rule, node=name if node is None else node.name)
