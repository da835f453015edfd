"""Expressions as a graph, planned and cut into segments; equal programs are planned once."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphwright.arrays.expression import Expression, Output
from graphwright.ir import Graph, GraphBuilder
from graphwright.lower import cut_into_segments, lower
from graphwright.partition import plan_tilings
from graphwright.plans import Plan, SegmentGraph, Sharding
from graphwright.tasks import Move

KEPT_PROGRAMS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayProgram:
    """A graph, and which output of which expression each of its inputs and results is."""

    graph: Graph
    inputs: Mapping[str, Output]
    results: Mapping[str, Output]
    functions: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedProgram:
    """A graph under a plan, as segments.

    `tilings` are the shardings in which tensors are made or live, `received` the bytes of each that
    workers get from others.
    """

    graph: Graph
    plan: Plan
    segments: SegmentGraph
    tilings: Mapping[str, Sharding]
    received: Mapping[str, int]


def as_graph(
    outputs: Sequence[Output],
    order: Sequence[Expression],
    apart: Collection[Output] = (),
) -> ArrayProgram:
    """The graph of expressions; what has a value already is an input, or, if it is `apart`, one for
    each expression that reads it."""
    build = GraphBuilder()
    names: dict[Output, str] = {}
    inputs: dict[str, Output] = {}
    functions: dict[str, Any] = {}
    inside = set(order)
    for expression in order:
        given: list[str | None] = []
        for output in expression.inputs:
            if output is not None and output not in names:
                assert output.expression not in inside
                name = build.add_input(f"given.{len(inputs)}", output.type)
                names[output], inputs[name] = name, output
            given.append(None if output is None else names[output])
        for output in expression.inputs:
            if output is not None and output in apart:
                names.pop(output, None)
        made = build.add(expression.op, given, expression.attrs, expression.types)
        names.update({Output(expression, n): name for n, name in enumerate(made)})
        functions |= expression.functions
    results = {names[output]: output for output in outputs}
    return ArrayProgram(
        graph=build.build(list(results)), inputs=inputs, results=results, functions=functions
    )


_planned: OrderedDict[object, PlannedProgram] = OrderedDict()


def plan_program(
    graph: Graph, workers: int, fixed: Mapping[str, Sharding], memory: float | None = None
) -> PlannedProgram:
    """The program for so many workers, with some inputs where they are."""
    where = tuple(sorted(fixed.items(), key=lambda item: item[0]))
    key = graph.program_hash, workers, where, memory  # results are named by the order of nodes
    known = _planned.get(key)
    if known is None:
        plan = plan_tilings(graph, workers, memory=memory, fixed=fixed, kept=graph.outputs).plan
        lowered = lower(graph, plan)
        programs = [lowered.program(rank) for rank in range(workers)]
        received: Counter[str] = Counter()
        for block in lowered.blocks:
            if isinstance(block, Move):
                received[block.tensor] += int(block.tasks.nbytes.sum())
        known = _planned[key] = PlannedProgram(
            graph=graph,
            plan=plan,
            segments=cut_into_segments(graph, programs),
            tilings={name: lowered.expansion.source(name) for name in graph.tensors},
            received=received,
        )
        if len(_planned) > KEPT_PROGRAMS:
            _planned.popitem(last=False)
    return known
