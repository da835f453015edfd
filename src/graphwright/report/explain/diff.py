"""Two plans side by side: what they take, and the operators that they split differently.

    time       12.5 ms    10.1 ms   -19%
    memory     14.5 GB    11.2 GB   -23%

    layers.0 to 11  x12
      attention.query: matmul    batch in 16  ->  batch in 2 over nodes; columns in 8 within a node

With the graph, operators go in groups, in words, and repeated modules once; without it, nodes that
differ alike are named together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from graphwright.errors import PlanMismatch
from graphwright.ir import Graph, format_bytes
from graphwright.partition import coarsen, evaluate
from graphwright.plans import CATEGORIES, Plan, check_plan, format_seconds
from graphwright.report.explain.lines import Lines, title_of
from graphwright.report.explain.sections import Section, find_sections
from graphwright.report.tables import headed_plainly, text_column
from graphwright.report.tables import plan as plan_tables
from graphwright.rewrite import graph_of_plan
from graphwright.simulate import CostModel
from graphwright.tasks import Costs, Expansion

_NAMED = 4
"""Nodes that are named where there is no graph; of more only the first are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Operators that one plan splits in one way and the other in another.

    `module` is that of `count` alike; it is empty where the graph is not known.
    """

    module: str
    count: int
    what: str
    nodes: tuple[str, ...]
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDiff:
    """Two plans of one graph, `num_same` nodes of which are split alike, and what is not."""

    first: Plan
    second: Plan
    changes: tuple[Change, ...]
    num_same: int
    num_different: int
    names: tuple[str, str]


def diff_plans(
    first: Plan,
    second: Plan,
    graph: Graph | None = None,
    costs: Costs | None = None,
    names: tuple[str, str] = ("first", "second"),
) -> PlanDiff:
    """Compare two plans, to be shown under `names`.

    With the graph, what has no figures yet is simulated, and operators are named by their modules.
    """
    if first.graph_hash != second.graph_hash:
        raise PlanMismatch(
            f"the plans are for different graphs, {first.graph_hash[:12]} and "
            f"{second.graph_hash[:12]}; only plans of one graph, captured with the same batch "
            "size, can be compared"
        )
    if graph is None:
        nodes = dict.fromkeys([*first.strategies, *second.strategies])
        different = [n for n in nodes if first.strategy(n) != second.strategy(n)]
        changes = _by_strategy(first, second, different)
        num_nodes = len(nodes)
    else:
        graph = graph_of_plan(graph, first)
        for plan in (first, second):
            check_plan(plan, graph)
        costs = CostModel() if costs is None else costs
        first, second = (p if p.figures else evaluate(graph, p, costs) for p in (first, second))
        different = [
            n.name for n in graph.nodes if first.strategy(n.name) != second.strategy(n.name)
        ]
        changes = _by_section(first, second, graph, costs)
        num_nodes = len(graph.nodes)
    return PlanDiff(
        first=first,
        second=second,
        changes=tuple(changes),
        num_same=num_nodes - len(different),
        num_different=len(different),
        names=names,
    )


def _by_strategy(first: Plan, second: Plan, different: list[str]) -> list[Change]:
    alike: dict[tuple[str, str], list[str]] = {}
    for name in different:
        pair = str(first.strategy(name)), str(second.strategy(name))
        alike.setdefault(pair, []).append(name)
    changes = []
    for (before, after), nodes in sorted(alike.items(), key=lambda item: -len(item[1])):
        more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
        what = ", ".join(nodes[:_NAMED]) + more
        changes.append(
            Change(module="", count=1, what=what, nodes=tuple(nodes), before=before, after=after)
        )
    return changes


def _by_section(first: Plan, second: Plan, graph: Graph, costs: Costs) -> list[Change]:
    """What differs in each group, module by module; modules are alike where both plans say so.

    The second plan's words stand where an explanation has the next best split.
    """
    coarse = coarsen(graph)
    ours, theirs = (
        Lines(coarse, plan, Expansion(coarse.facts, plan, costs), None) for plan in (first, second)
    )
    lines = []
    for g in range(len(coarse.groups)):
        line, other = ours.line(g), theirs.line(g)
        names = [graph.nodes[n].name for n in line.nodes]
        same = all(first.strategy(name) == second.strategy(name) for name in names)
        instead = None if same else other.words
        lines.append(replace(line, moves=(), memory=0, compute_time=0.0, instead=instead))
    changes = []
    for section in find_sections(coarse, lines):
        changes += _of_section(section, graph, first, second)
    return changes


def _of_section(section: Section, graph: Graph, first: Plan, second: Plan) -> list[Change]:
    changes = []
    for line in section.lines:
        if line.instead is None:
            continue
        names = [graph.nodes[n].name for n in line.nodes]
        differing = tuple(n for n in names if first.strategy(n) != second.strategy(n))
        before, after = line.words, line.instead
        if before == after:
            after = f"the same; {len(differing)} operators beside it otherwise"
        changes.append(
            Change(
                module=section.title,
                count=section.count,
                what=title_of(line),
                nodes=differing,
                before=before,
                after=after,
            )
        )
    return changes


def show(diff: PlanDiff, console: Console) -> None:
    """Print two plans side by side, and what they split differently."""
    console.print(_figures(diff))
    if diff.num_different == 0:
        console.print(f"all {diff.num_same:,} operators are split alike")
        return
    console.print(
        f"{diff.num_different:,} operators are split differently, {diff.num_same:,} alike",
        highlight=False,
    )
    table = headed_plainly(*(text_column(escape(title)) for title in ("operators", *diff.names)))
    module = ""
    for change in diff.changes:
        if change.module and change.module != module:
            module = change.module
            times = f"  ×{change.count}" if change.count > 1 else ""
            table.add_row(f"[bold]{escape(module)}{times}[/]")
        indent = "  " if change.module else ""
        table.add_row(f"{indent}{escape(change.what)}", change.before, change.after)
    console.print(table)


def _figures(diff: PlanDiff) -> Table:
    table = Table(title="What the plans take", title_justify="left")
    table.add_column("")
    for name in diff.names:
        table.add_column(escape(name), justify="right", overflow="fold")
    table.add_column("", justify="right")
    for row in _rows(diff):
        table.add_row(*row)
    return table


def _rows(diff: PlanDiff) -> Iterator[tuple[str, str, str, str]]:
    first, second = diff.first, diff.second
    for what, one, other in (
        ("found by", first.algorithm, second.algorithm),
        ("cluster", first.cluster.name, second.cluster.name),
        ("devices", str(first.cluster.num_devices), str(second.cluster.num_devices)),
    ):
        yield what, one, other, "" if one == other else "differs"
    a, b = first.figures, second.figures
    if a is None or b is None:
        yield "figures", str(a or "-"), str(b or "-"), "name the model to have them simulated"
        return
    yield _row("time", a.time, b.time, format_seconds)
    if a.estimate_time is not None or b.estimate_time is not None:
        yield _row("  by the estimate", a.estimate_time, b.estimate_time, format_seconds)
    yield _row("  busiest device computes", a.compute_time, b.compute_time, format_seconds)
    yield _row("  busiest link moves", a.communication_time, b.communication_time, format_seconds)
    yield _row("memory", a.memory, b.memory, format_bytes)
    if a.estimate_memory is not None or b.estimate_memory is not None:
        yield _row("  by the estimate", a.estimate_memory, b.estimate_memory, format_bytes)
    for category in CATEGORIES:
        held, instead = a.breakdown.get(category, 0), b.breakdown.get(category, 0)
        if held or instead:
            yield _row(f"  {category.replace('_', ' ')}", held, instead, format_bytes)
    yield _row("moved", a.nbytes, b.nbytes, format_bytes)


def _row(
    what: str, a: float | None, b: float | None, write: Callable[[Any], str]
) -> tuple[str, str, str, str]:
    change = "" if a is None or b is None or a == b else f"{b / a - 1:+.0%}" if a else "new"
    return what, "-" if a is None else write(a), "-" if b is None else write(b), change


def to_dict(diff: PlanDiff) -> dict[str, object]:
    """Two plans as JSON-ready data."""
    return {
        "first": _plan_dict(diff.first),
        "second": _plan_dict(diff.second),
        "same": diff.num_same,
        "different": diff.num_different,
        "changes": [
            {
                "block": c.module,
                "count": c.count,
                "what": c.what,
                "nodes": list(c.nodes),
                "first": c.before,
                "second": c.after,
            }
            for c in diff.changes
        ],
    }


def _plan_dict(plan: Plan) -> dict[str, object]:
    if plan.figures is not None:
        return plan_tables.to_dict(plan)
    return {"algorithm": plan.algorithm, "cluster": plan.cluster.name, "graph": plan.graph_hash}
