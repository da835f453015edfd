"""Facts of a graph that hold whatever the plan, worked out once.

call                   a number that nodes with equal operators, attributes and types share
producer, readers      who makes a tensor, who reads it
is_view, root, family  what lies in the memory of what
replaces, writer       which input a tensor is the new value of, and who writes it
category               what a tensor's memory counts as
late, pacemaker        which nodes are behind the forward pass; after whom inputs are fetched
turns                  who waits for whom without reading anything from it
fused                  which nodes are one kernel where operators are fused
"""

from __future__ import annotations

from functools import lru_cache

from graphwright.describe import Types, properties, types_of
from graphwright.ir import CONSTANT_OP, Attrs, Graph, Phase, Role
from graphwright.plans import CATEGORIES
from graphwright.tasks.fusion import Fused, Fusion, fuse

PREFETCH = 8
"""What is moved and not urgent is fetched so many computing nodes before its first reader."""

_LOOKAHEAD = 8
"""How many readers in a row are asked what a node without a cause is for."""

_ROLES = {
    Role.PARAMETER: "parameter",
    Role.BUFFER: "parameter",
    Role.OPTIMIZER_STATE: "optimizer_state",
}


class GraphFacts:
    """What holds for a graph under every plan."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.position = {node.name: i for i, node in enumerate(graph.nodes)}
        self.types = [types_of(graph, node) for node in graph.nodes]
        self.attrs = [
            n.attrs if isinstance(n.attrs, Attrs) else Attrs(n.attrs) for n in graph.nodes
        ]
        calls: dict[tuple[str, Attrs, Types], int] = {}
        self.call = [
            calls.setdefault((node.op, a, t), len(calls))
            for node, a, t in zip(graph.nodes, self.attrs, self.types, strict=True)
        ]
        self.producer: dict[str, tuple[int, int]] = {}
        self.readers: dict[str, list[tuple[int, int]]] = {name: [] for name in graph.tensors}
        for i, node in enumerate(graph.nodes):
            for arg, name in enumerate(node.inputs):
                if name is not None:
                    self.readers[name].append((i, arg))
            for output, name in enumerate(node.outputs):
                self.producer[name] = (i, output)
        self.replaces: dict[str, list[str]] = {}
        for old, new in graph.updates.items():
            self.replaces.setdefault(new, []).append(old)
        self.late = [node.phase is not Phase.FORWARD for node in graph.nodes]
        self.is_view = [
            node.op != CONSTANT_OP and _is_view(node.op, a, t)
            for node, a, t in zip(graph.nodes, self.attrs, self.types, strict=True)
        ]
        self.writes_over = [
            node.op != CONSTANT_OP and len(node.outputs) == 1 and _writes_over(node.op, a, t)
            for node, a, t in zip(graph.nodes, self.attrs, self.types, strict=True)
        ]
        self.root, self.family = self._families()
        self.order = self._orders()
        self._computing = self._computing_before()
        self.category = {name: self._category(name) for name in graph.tensors}
        self.results = frozenset(graph.outputs) - self.replaces.keys()
        self.turns = self._turns()
        self._fused: dict[Fusion, list[Fused]] = {}
        self._gathered = {
            name
            for name, (made, _) in self.producer.items()
            if graph.nodes[made].phase is Phase.BACKWARD
            and name not in self.results
            and self.readers[name]
            and all(graph.nodes[r].phase is Phase.UPDATE for r, _ in self.readers[name])
        }

    def fused(self, within: Fusion) -> list[Fused]:
        """What of each node stays inside a kernel, where operators are fused."""
        known = self._fused.get(within)
        if known is None:
            known = self._fused[within] = fuse(
                self.graph, self.types, self.attrs, self.is_view, self.root, self.readers, within
            )
        return known

    def pacemaker(self, reader: int) -> int | None:
        """The node after which an input that `reader` is the first to need is fetched."""
        before = self._computing[reader]
        return before[-PREFETCH] if len(before) >= PREFETCH else None

    def viewed(self, node: int) -> tuple[str, int]:
        """What a view shows another way, and which of its arguments that is."""
        for arg, name in enumerate(self.graph.nodes[node].inputs):
            if name is not None:
                return name, arg
        raise AssertionError(f"{self.graph.nodes[node].name} is a view of nothing")

    def shows(self, node: int, name: str, arg: int) -> bool:
        """Whether a node is a view of a tensor, which is that argument of it."""
        return self.is_view[node] and self.viewed(node) == (name, arg)

    def is_resident(self, name: str) -> bool:
        """Whether a tensor is an input of the graph or a view of one: there from the beginning."""
        return self.root[name] not in self.producer

    def is_gathered(self, name: str) -> bool:
        """Whether a tensor is a gradient that updates alone read.

        It may then wait for others and be moved together with them.
        """
        return name in self._gathered

    def writer(self, name: str) -> int | None:
        """The node that writes a new value to where an input, or a view of it, is."""
        new = self.graph.updates.get(self.root[name])
        made = None if new is None else self.producer.get(new)
        return None if made is None else made[0]

    def _orders(self) -> dict[str, tuple[int, ...]]:
        """The dims, outermost first, of tensors that lie in memory in another order than theirs.

        Permuting moves nothing.
        """
        orders: dict[str, tuple[int, ...]] = {}
        for node, attrs in zip(self.graph.nodes, self.attrs, strict=True):
            if node.op == "aten.permute" and node.inputs[0] is not None:
                dims = [int(d) for d in attrs["dims"]]  # type: ignore[arg-type, union-attr]
                before = orders.get(node.inputs[0], tuple(range(len(dims))))
                order = tuple(dims.index(d) for d in before)
                if order != tuple(range(len(dims))):
                    orders[node.outputs[0]] = order
        return orders

    def _families(self) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
        """What every tensor is a view of, if not itself; and all that share such a root."""
        root = {name: name for name in self.graph.tensors}
        for i, node in enumerate(self.graph.nodes):
            if self.is_view[i]:
                viewed, _ = self.viewed(i)
                root.update(dict.fromkeys(node.outputs, root[viewed]))
        family: dict[str, list[str]] = {}
        for name, of in root.items():
            family.setdefault(of, []).append(name)
        return root, {of: tuple(names) for of, names in family.items()}

    def _turns(self) -> dict[int, tuple[int, ...]]:
        """Nodes that wait for others without reading what they make, device by device.

        Those that would be ready at once wait for what they are joined with; a micro-batch waits
        for the one before it; and who writes a new value waits for the readers of the old, and of
        views of it.
        """
        waits = self._returning()
        for after, before in self._unprompted().items():
            waits[after] = max(before, waits.get(after, before))
        turns: dict[int, list[int]] = {after: [before] for after, before in waits.items()}
        for name in self.graph.updates:
            writer = self.writer(name)
            if writer is not None:
                readers = [r for alias in self.family[name] for r, _ in self.readers[alias]]
                earlier = sorted(reader for reader in readers if reader < writer)
                turns.setdefault(writer, []).extend(dict.fromkeys(earlier))
        return {after: tuple(befores) for after, befores in turns.items()}

    def _category(self, name: str) -> int:
        """The category of a tensor's memory, as a number of CATEGORIES."""
        tensor = self.graph.tensors[name]
        if tensor.role is Role.GRADIENT and tensor.of is not None:
            of = self.graph.tensors[tensor.of]
            return CATEGORIES.index("gradient" if of.role is Role.PARAMETER else "activation")
        return CATEGORIES.index(_ROLES.get(tensor.role, "activation"))

    def _computing_before(self) -> list[tuple[int, ...]]:
        """For every node, the last PREFETCH nodes before it that compute from something."""
        recent: tuple[int, ...] = ()
        computing: list[tuple[int, ...]] = []
        for i, node in enumerate(self.graph.nodes):
            computing.append(recent)
            if not self.is_view[i] and any(name is not None for name in node.inputs):
                recent = (*recent[1 - PREFETCH :], i) if PREFETCH > 1 else (i,)
        return computing

    def _prompted(self) -> set[str]:
        """What cannot be made before its time.

        Forward that is what depends on the data of the step, later what depends on the first of
        the late nodes that does; the backward pass of each micro-batch begins anew.
        """
        given = {n for n in self.graph.inputs if self.graph.tensors[n].role is Role.INPUT}
        begun = False
        for i, node in enumerate(self.graph.nodes):
            begun &= self.late[i]
            before = [name for name in node.inputs if name in given]
            if self.late[i] and begun:
                before = [
                    n for n in before if n in self.producer and self.late[self.producer[n][0]]
                ]
            if before:
                given.update(node.outputs)
                begun |= self.late[i] and not self.is_view[i]
        return given - set(self.graph.inputs)

    def _unprompted(self) -> dict[int, int]:
        """Nodes that depend on inputs or on the forward pass alone, and what they wait for.

        They would be ready long before their turn, and hold what they make until it is needed: so
        ``momentum * state`` waits for the gradient that it is to be added to, and what a
        normalization's gradient makes of its input for what that is to be multiplied with. Single
        numbers need no such care.
        """
        prompted = self._prompted()
        waits: dict[int, int] = {}
        for i, node in enumerate(self.graph.nodes):
            tiny = all(self.graph.tensors[name].type.rank == 0 for name in node.outputs)
            if prompted.isdisjoint(node.outputs) and not self.is_view[i] and not tiny:
                before = self._counterpart(i, prompted)
                if before is not None:
                    waits[i] = before
        return waits

    def _returning(self) -> dict[int, int]:
        """The first nodes of a forward pass that follows a backward pass, and what they wait for.

        It is that of the next of several micro-batches. Nothing but the data leads to these nodes,
        so they would be ready at once, and hold the activations of all micro-batches together.
        """
        waits: dict[int, int] = {}
        start: int | None = None
        for i, node in enumerate(self.graph.nodes):
            if self.late[i]:
                start = None
                continue
            if start is None and i and self.late[i - 1]:
                start = i
            if start is None or self.is_view[i] or not self._computing[start]:
                continue
            tiny = all(self.graph.tensors[name].type.rank == 0 for name in node.outputs)
            makers = [
                self.producer.get(self.root[name]) for name in node.inputs if name is not None
            ]
            if not tiny and not any(made is not None and made[0] >= start for made in makers):
                waits[i] = self._computing[start][-1]
        return waits

    def _counterpart(self, i: int, prompted: set[str]) -> int | None:
        """Who makes what joins a node's result in its first reader, or who computes before it."""
        last = self._computing[i][-1] if self._computing[i] else None
        current = i
        for _ in range(_LOOKAHEAD):
            readers = [
                r for name in self.graph.nodes[current].outputs for r, _ in self.readers[name]
            ]
            if not readers:
                break
            current = min(readers)
            makers = [
                self.producer[name][0]
                for name in self.graph.nodes[current].inputs
                if name in prompted and (not self.late[i] or self.late[self.producer[name][0]])
            ]
            earlier = [maker for maker in makers if maker < i]
            if earlier:
                return max(earlier)
            if makers:
                break
        return last


def facts_of(graph: Graph | GraphFacts) -> GraphFacts:
    """The facts of a graph, or those that are given."""
    return graph if isinstance(graph, GraphFacts) else GraphFacts(graph)


@lru_cache(maxsize=65536)
def _is_view(op: str, attrs: Attrs, types: Types) -> bool:
    return properties(op, attrs, types).view


@lru_cache(maxsize=65536)
def _writes_over(op: str, attrs: Attrs, types: Types) -> bool:
    """Whether a call may write over what it reads: element by element, and nothing random."""
    known = properties(op, attrs, types)
    return known.elementwise and not known.view and not known.random
