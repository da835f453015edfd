"""A dataflow graph: nodes in program order over named tensors.

The order of `nodes` is an order in which they can run: every tensor is an input or made by an
earlier node, so there are no cycles. A Graph is a value. It is never changed; a pass makes a new
one, with `Edit` or `GraphBuilder`. Making one does not check it (`verify` does), so
that a broken graph can be printed and looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from graphwright.errors import InvalidGraph
from graphwright.frozen import FrozenDict
from graphwright.ir.attrs import Attrs
from graphwright.ir.hashing import content_hash, tensor_hashes, value_hash
from graphwright.ir.node import Composite, Node, Tensor
from graphwright.ir.spelling import Attr, spell_name
from graphwright.ir.types import Phase


@dataclass(frozen=True, slots=True)
class PassRecord:
    """A pass that made a graph, as plain data: ``{"name": "unmerge", "options": {}}``.

    The passes themselves are in `graphwright.rewrite`.
    """

    name: str
    options: Mapping[str, Attr] = field(default_factory=Attrs)

    def __post_init__(self) -> None:
        if type(self.options) is not Attrs:
            object.__setattr__(self, "options", Attrs(self.options))

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.options.items())})"


UNMERGED = (PassRecord("unmerge"),)
"""What `gw.capture` applies by default, and what made the graphs of files that name no passes."""


def _no_updates() -> Mapping[str, str]:
    return FrozenDict()


@dataclass(frozen=True, slots=True, repr=False)
class Graph:
    """A step of a model: what it is given, what it computes, what it returns and what it updates.

    `updates` says which input (parameter, buffer, optimizer state) is replaced by which output when
    the step is over. Two graphs are equal when all their parts are, names and provenance included;
    `hash` is the looser sameness of content (see `graphwright.ir.hashing`). `passes` says how the
    graph was made from the captured one, `options` with which options of `gw.capture` that was
    captured, and `composites` which kernels do the work of several nodes; they are in neither.
    """

    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    updates: Mapping[str, str] = field(default_factory=_no_updates)
    passes: tuple[PassRecord, ...] = field(default=(), compare=False)
    options: Mapping[str, Attr] = field(default_factory=Attrs, compare=False)
    composites: tuple[Composite, ...] = field(default=(), compare=False)
    _hashes: tuple[str, str] | None = field(default=None, init=False, compare=False)
    _producers: dict[str, Node] | None = field(default=None, init=False, compare=False)
    _consumers: dict[str, tuple[Node, ...]] | None = field(default=None, init=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("nodes", "inputs", "outputs"):
            value = getattr(self, name)
            if type(value) is not tuple:
                object.__setattr__(self, name, tuple(value))
        if type(self.options) is not Attrs:
            object.__setattr__(self, "options", Attrs(self.options))
        for name in ("tensors", "updates"):
            value = getattr(self, name)
            if type(value) is not FrozenDict:
                object.__setattr__(self, name, FrozenDict(value))

    @property
    def hash(self) -> str:
        """Hash of ops, attrs, wiring, types, roles and input names; hexadecimal, computed once."""
        return self._both_hashes()[0]

    @property
    def program_hash(self) -> str:
        """Like `hash`, and covering the order of the nodes as well."""
        return self._both_hashes()[1]

    def value_hash(self) -> str:
        """Like `hash`, whatever the order of inputs and whichever of two equal nodes is read."""
        return value_hash(self.nodes, self.tensors, self.inputs, self.outputs, self.updates)

    def tensor_hashes(self) -> dict[str, bytes]:
        """Digest of each tensor's value by name: equal ones are common subexpressions."""
        return tensor_hashes(self.nodes, self.tensors, self.inputs)

    def producer(self, name: str) -> Node | None:
        """Return the node that makes a tensor, None for an input."""
        node = self._producer_index().get(name)
        if node is None and name not in self.tensors:
            raise _no_tensor(name)
        return node

    def consumers(self, name: str) -> tuple[Node, ...]:
        """Return the nodes that read a tensor, in program order, each of them once."""
        readers = self._consumer_index().get(name)
        if readers is None:
            if name not in self.tensors:
                raise _no_tensor(name)
            return ()
        return readers

    def node(self, name: str) -> Node:
        """Return the node of a name: the one whose first output it is."""
        node = self._producer_index().get(name)
        if node is None or node.outputs[0] != name:
            if node is not None:
                raise InvalidGraph(
                    f"{spell_name(name)} is not a node's name: it is another output of "
                    f"{spell_name(node.name)}; ask for that, or use producer()",
                    rule="undefined node",
                    node=node.name,
                )
            raise InvalidGraph(
                f"the graph has no node {spell_name(name)}"
                + (
                    "; it is an input"
                    if name in self.tensors
                    else "; names are listed by to_text()"
                ),
                rule="undefined node",
            )
        return node

    def __len__(self) -> int:
        return len(self.nodes)

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        counts = Counter(node.phase for node in self.nodes)
        phases = ", ".join(f"{counts[phase]} {phase}" for phase in Phase if counts[phase])
        return (
            f"Graph({len(self.nodes)} nodes{': ' + phases if phases else ''}; "
            f"{len(self.inputs)} inputs, {len(self.outputs)} outputs, {len(self.updates)} updates)"
        )

    def _both_hashes(self) -> tuple[str, str]:
        if self._hashes is None:
            hashes = content_hash(self.nodes, self.tensors, self.inputs, self.outputs, self.updates)
            object.__setattr__(self, "_hashes", hashes)
            return hashes
        return self._hashes

    def _producer_index(self) -> dict[str, Node]:
        if self._producers is None:
            index = {name: node for node in self.nodes for name in node.outputs}
            object.__setattr__(self, "_producers", index)
            return index
        return self._producers

    def _consumer_index(self) -> dict[str, tuple[Node, ...]]:
        if self._consumers is None:
            readers: dict[str, list[Node]] = {}
            for node in self.nodes:
                for name in dict.fromkeys(node.inputs):
                    if name is not None:
                        readers.setdefault(name, []).append(node)
            index = {name: tuple(nodes) for name, nodes in readers.items()}
            object.__setattr__(self, "_consumers", index)
            return index
        return self._consumers


def _no_tensor(name: str) -> InvalidGraph:
    return InvalidGraph(
        f"the graph has no tensor {spell_name(name)}; names are listed by to_text()",
        rule="undefined tensor",
    )
