"""The pass: every node in program order, by the rule of its operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphwright.ir import Graph
from graphwright.rewrite.passes import Pass, register
from graphwright.rewrite.unmerge.merged import Unmerging
from graphwright.rewrite.unmerge.rules import RULES, elementwise


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class Unmerge(Pass):
    """Keep merged dims apart. Sums over them add up in another order, so it is not exact."""

    name: ClassVar[str] = "unmerge"
    exact: ClassVar[bool] = False

    def rewrite(self, graph: Graph) -> Graph:
        """Write the graph on dims that are not merged."""
        return Unmerging(graph).run(RULES, elementwise)
