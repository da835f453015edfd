"""The text form of a graph: a program to be read, compared and kept in golden files.

    graph 1

    parameter:
      %fc.weight: float32[10, 5]

    input:
      %inputs.0: float32[8, 5]

    forward:
      %t: float32[5, 10] = aten.t(%fc.weight) @fc layer=0
      %mm: float32[8, 10] = aten.mm(%inputs.0, %t) @fc layer=0

    backward:
      %fc.weight.grad: float32[10, 5] gradient of %fc.weight = aten.mm(%a, %b) @fc partner=%mm

    update:
      %fc.weight.new: float32[10, 5] parameter of %fc.weight = aten.add.Tensor(...)

    outputs:
      %mm
      %fc.weight.new replaces %fc.weight
    end

Inputs stand under their role, nodes under their phase; a heading comes whenever that changes, so
the order is kept exactly. A tensor without a role is an activation. An absent optional input is
`_`. Attributes follow a semicolon, as Python literals, with `inf` and `nan` besides. `#` starts a
comment. `graphwright.ir.forms.parse` reads this back to an equal graph.
"""

from __future__ import annotations

from graphwright.ir.graph import Graph
from graphwright.ir.node import spell_call, spell_provenance, spell_role
from graphwright.ir.spelling import spell_name
from graphwright.ir.types import Role, TensorType

TEXT_VERSION = 1
"""The number after `graph` on the first line."""

INDENT = "  "


def to_text(graph: Graph) -> str:
    """Print a graph as a program; an invalid one prints too, with `?` for a missing type."""
    types: dict[TensorType, str] = {}  # few distinct types, each spelled once

    def spell_type(name: str) -> str:
        tensor = graph.tensors.get(name)
        if tensor is None:
            return "?"
        spelled = types.get(tensor.type)
        if spelled is None:
            spelled = types[tensor.type] = repr(tensor.type)
        return spelled

    lines = [f"graph {TEXT_VERSION}"]
    heading = ""
    for name in graph.inputs:
        tensor = graph.tensors.get(name)
        role = Role.INPUT if tensor is None else tensor.role
        if role != heading:
            heading = role
            lines += ["", f"{role}:"]
        owner = "" if tensor is None or tensor.of is None else f" of {spell_name(tensor.of)}"
        lines.append(f"{INDENT}{spell_name(name)}: {spell_type(name)}{owner}")
    heading = ""
    for node in graph.nodes:
        if node.phase != heading:
            heading = node.phase
            lines += ["", f"{node.phase}:"]
        outputs: list[str] = []
        for name in node.outputs:
            tensor = graph.tensors.get(name)
            suffix = "" if tensor is None else spell_role(tensor)
            outputs.append(f"{spell_name(name)}: {spell_type(name)}{suffix}")
        lines.append(f"{INDENT}{', '.join(outputs)} = {spell_call(node)}{spell_provenance(node)}")
    replaced: dict[str, list[str]] = {}
    for old, new in graph.updates.items():
        replaced.setdefault(new, []).append(spell_name(old))
    lines += ["", "outputs:"]
    for name in graph.outputs:
        olds = replaced.pop(name, None)
        suffix = "" if olds is None else f" replaces {', '.join(olds)}"
        lines.append(f"{INDENT}{spell_name(name)}{suffix}")
    lines += ["end", ""]
    return "\n".join(lines)
