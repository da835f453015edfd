"""What earlier runs took, for the next plan: the update cost of `join_update` (Spartan section
2.3.3).

An operator whose result is a sum of terms is planned as if every worker's term filled the whole
array. A user's function may touch a part of it only, which no description says. Once it has run,
the bytes that adding up its terms took are known, and in a loop the next iteration is planned with
them:

    share = bytes received / bytes planned

for all operators that are the same call: operator, attributes and types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from graphwright.describe import Types
from graphwright.errors import InvalidOption, PlanMismatch
from graphwright.frozen import FrozenDict
from graphwright.ir import Attrs, Graph
from graphwright.tasks import GraphFacts, facts_of

if TYPE_CHECKING:
    from graphwright.partition.tiling.plan import TilingPlan

Call = tuple[str, Attrs, Types]


@dataclass(frozen=True, slots=True)
class Feedback:
    """For calls, the share of the planned bytes that adding up their terms took."""

    observed: Mapping[Call, float] = field(default_factory=FrozenDict)

    def shares(self, graph: Graph | GraphFacts) -> dict[int, float]:
        """The shares of the operators of a graph, by their positions."""
        if not self.observed:
            return {}
        facts = facts_of(graph)
        calls = (
            (i, (node.op, attrs, types))
            for i, (node, attrs, types) in enumerate(
                zip(facts.graph.nodes, facts.attrs, facts.types, strict=True)
            )
        )
        return {i: self.observed[call] for i, call in calls if call in self.observed}

    def after(self, plan: TilingPlan, updates: Mapping[str, float]) -> Feedback:
        """The feedback with what a run of a plan took: for operators by their names, the bytes that
        workers received to add up their terms."""
        facts = facts_of(plan.graph)
        observed = dict(self.observed)
        for name, nbytes in updates.items():
            i = facts.position.get(name)
            if i is None:
                raise PlanMismatch(f"updates has {name!r}, which is no operator of the graph")
            if not nbytes >= 0:
                raise InvalidOption(f"updates: {name}: {nbytes!r} is no number of bytes")
            planned = plan.update_bytes(name)
            if planned > 0:
                call = (facts.graph.nodes[i].op, facts.attrs[i], facts.types[i])
                observed[call] = nbytes / planned
        return replace(self, observed=FrozenDict(observed))
