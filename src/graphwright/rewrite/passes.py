"""A graph pass takes a graph and returns another that computes the same.

A pass is a frozen dataclass: its fields are its options, so that the command line, the log and a
saved plan read one source. `register` files it under its name:

    @register
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Fuse(Pass):
        name: ClassVar[str] = "fuse"
        exact: ClassVar[bool] = True
        most: int = 8

        def rewrite(self, graph: Graph) -> Graph: ...

    Fuse(most=4).apply(graph).passes          those that made the graph before, and fuse(most=4)

Graphs and plans name the passes that made them as plain data (`ir.PassRecord`), in JSON
{"name": "fuse", "options": {"most": 4}}; `read_pass` makes the pass of it again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import ClassVar, TypeVar

from graphwright.errors import UnknownPass
from graphwright.ir import Graph, PassRecord
from graphwright.plans import Plan

P = TypeVar("P", bound="Pass")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass(ABC):
    """From a graph to one that computes the same; an `exact` pass changes no number by rounding."""

    name: ClassVar[str]
    exact: ClassVar[bool]

    @abstractmethod
    def rewrite(self, graph: Graph) -> Graph:
        """Make the new graph, with `ir.Edit`."""

    def apply(self, graph: Graph) -> Graph:
        """Make the new graph, which names this pass after those that made the old one."""
        made = (*graph.passes, self.record)
        return replace(self.rewrite(graph), passes=made, options=graph.options)

    @property
    def record(self) -> PassRecord:
        """The pass as plain data."""
        return PassRecord(self.name, {f.name: getattr(self, f.name) for f in fields(self)})


PASSES: dict[str, type[Pass]] = {}
"""Every pass by its name."""


def register(cls: type[P]) -> type[P]:
    """File a pass under its name."""
    PASSES[cls.name] = cls
    return cls


def read_pass(record: PassRecord) -> Pass:
    """The pass that a record names."""
    cls = PASSES.get(record.name)
    if cls is None:
        near = get_close_matches(record.name, PASSES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UnknownPass(f"no pass {record.name!r}; there are {', '.join(sorted(PASSES))}{hint}")
    known = [field.name for field in fields(cls)]
    unknown = sorted(record.options.keys() - set(known))
    if unknown:
        options = f"its options are {', '.join(known)}" if known else "it has no options"
        raise UnknownPass(f"pass {record.name!r} has no option {unknown[0]!r}; {options}")
    return cls(**record.options)


def apply_passes(graph: Graph, passes: Iterable[Pass | PassRecord]) -> Graph:
    """Apply passes one after the other."""
    for item in passes:
        graph = (item if isinstance(item, Pass) else read_pass(item)).apply(graph)
    return graph


def graph_of_plan(graph: Graph, plan: Plan) -> Graph:
    """The graph that a plan was made for, from a captured one: apply the passes that are missing.

    A graph that cannot become the plan's is returned as it is, for the caller to refuse.
    """
    done = len(graph.passes)
    if plan.graph_hash == graph.hash or plan.passes[:done] != graph.passes:
        return graph
    return apply_passes(graph, plan.passes[done:])
