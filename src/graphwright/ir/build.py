"""Building a graph one node at a time, in program order.

    build = GraphBuilder()
    x = build.add_input("x", TensorType((8, 5), "float32"))
    w = build.add_input("w", TensorType((5, 3), "float32"), Role.PARAMETER)
    (y,) = build.add("aten.mm", [x, w], {}, TensorType((8, 3), "float32"))
    graph = build.build([y])

Names of intermediates are made from the operator's (`mm`, `mm_1`, `native_batch_norm:1` for a
second output); a name asked for that is taken gets a number. Names of inputs are the graph's
interface, so they are never changed: taken ones are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from graphwright.errors import InvalidGraph
from graphwright.ir.graph import Graph
from graphwright.ir.node import Node, Tensor
from graphwright.ir.spelling import Attr, spell_name
from graphwright.ir.types import Phase, Role, TensorType
from graphwright.ir.verify import verify

CONSTANT_OP = "graphwright.constant"
"""A tensor written out in the graph: attr `value` holds its elements as nested tuples."""


class Names:
    """The names that are taken, and fresh ones beside them: mm, mm_1, mm_2, ..."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def fresh(self, name: str) -> str:
        """Take a name, numbered if it is taken; the last number is kept, to stay linear."""
        fresh = name
        if name in self._taken:
            number = self._next.get(name, 1)
            while (fresh := f"{name}_{number}") in self._taken:
                number += 1
            self._next[name] = number + 1
        self._taken.add(fresh)
        return fresh


def name_of(op: str) -> str:
    """Make a name from an operator's: `aten.sum.dim_IntList` -> `sum`."""
    parts = op.split(".")
    return (parts[1] if len(parts) > 1 else parts[0]).lstrip("_") or "value"


def is_made_name(name: str, op: str) -> bool:
    """Whether a tensor's name says no more than which operator made it: `sum_2`, `sort:1`."""
    return re.fullmatch(rf"{re.escape(name_of(op))}(_\d+)?(:\d+(_\d+)?)?", name) is not None


class GraphBuilder:
    """Collects inputs and nodes; `build` makes them a verified Graph, and more may follow."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._tensors: dict[str, Tensor] = {}
        self._inputs: list[str] = []
        self._names = Names()

    def add_input(
        self, name: str, type: TensorType, role: Role = Role.INPUT, of: str | None = None
    ) -> str:
        """Add a tensor that is given from outside; returns its name."""
        if name in self._tensors:
            raise InvalidGraph(
                f"input {spell_name(name)} is defined already; names of inputs have to be distinct",
                rule="duplicate definition",
                node=name,
            )
        self._tensors[name] = Tensor(name, type, role, of)
        self._inputs.append(self._names.fresh(name))
        return name

    def add(
        self,
        op: str,
        inputs: Iterable[str | None],
        attrs: Mapping[str, Attr] | None,
        types: TensorType | Sequence[TensorType],
        *,
        names: str | Sequence[str] | None = None,
        phase: Phase = Phase.FORWARD,
        role: Role | Sequence[Role] = Role.ACTIVATION,
        of: str | Sequence[str | None] | None = None,
        partner: str | None = None,
        module: str = "",
        layer: int | None = None,
        step: int | None = None,
        parameter: str | None = None,
    ) -> tuple[str, ...]:
        """Add a node and its outputs, one per type; returns the outputs' names.

        `names` asks for a name for the first output or for each; `role` and `of` may be one for all
        outputs or one for each.
        """
        types = (types,) if isinstance(types, TensorType) else tuple(types)
        count = len(types)
        inputs = tuple(inputs)
        for name in inputs:
            if name is not None and name not in self._tensors:
                raise InvalidGraph(
                    f"{op} reads {spell_name(name)}, which nothing has defined yet; add its "
                    "producer or input first",
                    rule="undefined tensor",
                )
        roles = (role,) * count if isinstance(role, str) else tuple(role)
        ofs = (of,) * count if of is None or isinstance(of, str) else tuple(of)
        asked = () if names is None else (names,) if isinstance(names, str) else tuple(names)
        if len(roles) != count or len(ofs) != count or len(asked) not in (0, 1, count):
            raise InvalidGraph(
                f"{op} has {count} outputs but {len(roles)} roles, {len(ofs)} 'of' and "
                f"{len(asked)} names; give one for all or one for each",
                rule="outputs",
            )
        outputs = self._name_outputs(asked or (name_of(op),), count)
        node = Node(
            op,
            inputs,
            attrs or {},
            outputs,
            phase=phase,
            partner=partner,
            module=module,
            layer=layer,
            step=step,
            parameter=parameter,
        )
        made = [Tensor(*parts) for parts in zip(outputs, types, roles, ofs, strict=True)]
        self._nodes.append(node)
        self._tensors.update(zip(outputs, made, strict=True))
        return outputs

    def type(self, name: str) -> TensorType:
        """Return the type of a tensor added so far."""
        return self.tensor(name).type

    def tensor(self, name: str) -> Tensor:
        """Return a tensor added so far."""
        if name not in self._tensors:
            raise InvalidGraph(
                f"the builder has no tensor {spell_name(name)}", rule="undefined tensor"
            )
        return self._tensors[name]

    def build(self, outputs: Iterable[str], updates: Mapping[str, str] | None = None) -> Graph:
        """Make the graph and verify it; `updates` maps an input to the output that replaces it."""
        graph = Graph(
            tuple(self._nodes), self._tensors, tuple(self._inputs), tuple(outputs), updates or {}
        )
        verify(graph)
        return graph

    def __repr__(self) -> str:
        return f"GraphBuilder({len(self._inputs)} inputs, {len(self._nodes)} nodes so far)"

    def _name_outputs(self, asked: Sequence[str], count: int) -> tuple[str, ...]:
        """Make a free name for each output: those asked for, or the first one's with a number."""
        names: list[str] = []
        for i in range(count):
            names.append(self._names.fresh(asked[i] if i < len(asked) else f"{names[0]}:{i}"))
        return tuple(names)
