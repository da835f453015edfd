"""Why a plan does what it does: the program in groups of operators, each with the next best split.

    h.0 to 11   x12
      attention.query  matmul +13    batch in 2 over nodes; columns in 8 within a node    0.8 ms
                                     next best: batch in 16, +1.2 ms

What the next best split costs more is by the additive estimate, everything else being as it is
(`partition.explain`). As a table, as data, and as the program itself with a comment on every line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Column

from graphwright.errors import PlanMismatch
from graphwright.ir import Graph, format_bytes
from graphwright.machine import PICOSECONDS
from graphwright.partition import Reason, coarsen, evaluate
from graphwright.partition import explain as find_reasons
from graphwright.plans import Plan, check_plan, format_seconds
from graphwright.report.explain.lines import Line, Lines, describe_moves, next_best, title_of
from graphwright.report.explain.sections import Section, find_sections
from graphwright.report.tables import headed_plainly, number_column, text_column
from graphwright.report.tables import plan as plan_tables
from graphwright.rewrite import graph_of_plan, rules_of
from graphwright.simulate import CostModel
from graphwright.tasks import Costs, Expansion

WIDE = 110
"""Columns from which on there is room for one more."""
LEGEND = (
    "computes: the busiest device. moves: brought here from other devices, often while something "
    "is computed. holds: parameters and state, or what the backward pass will need, on one device. "
    "copies: devices that do the same. (sums): terms that are added up when their sum is needed. "
    "Of a repeated block the figures are those of one."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A plan, explained; `notes` say what could not be."""

    graph: Graph
    plan: Plan
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()


def explain_plan(graph: Graph, plan: Plan, costs: Costs | None = None) -> Explanation:
    """Explain a plan of a graph; one without figures is simulated for them."""
    graph = graph_of_plan(graph, plan)
    check_plan(plan, graph)
    costs = CostModel() if costs is None else costs
    coarse = coarsen(graph)
    if plan.figures is None:
        plan = evaluate(coarse.facts, plan, costs)
    expansion = Expansion(coarse.facts, plan, costs)
    applied = rules_of(graph)
    notes = [] if applied is None else [str(applied)]
    reasons: Sequence[Reason] | None = None
    try:
        reasons = find_reasons(coarse, plan, costs)
    except PlanMismatch as error:
        notes.append(f"no next best is known: {error}")
    free = coarse.group_of.count(-1)
    if free:
        notes.append(f"{free} operators on single numbers are left out; every device does them")
    lines = Lines(coarse, plan, expansion, reasons)
    every = [lines.line(g) for g in range(len(coarse.groups))]
    sections = find_sections(coarse, every)
    return Explanation(graph=graph, plan=plan, sections=sections, notes=tuple(notes))


def show(explanation: Explanation, console: Console, title: str) -> None:
    """Print an explanation."""
    headline = plan_tables.headline(explanation.plan)
    console.print(f"[bold]{escape(title)}[/]: {headline}", highlight=False)
    wide = console.width >= WIDE
    moves = Column("moves", justify="right", no_wrap=not wide)
    columns = (
        text_column("operators"),
        text_column("split"),
        number_column("computes"),
        moves,
        number_column("holds"),
    )
    table = headed_plainly(*columns, *[text_column("next best")] * wide)
    table.show_edge = False
    for section in explanation.sections:
        times = f"  ×{section.count}" if section.count > 1 else ""
        table.add_row(f"[bold]{escape(section.title)}{times}[/]")
        for line in section.lines:
            table.add_row(*_row(line, wide))
    console.print(table)
    console.print(f"[dim]{LEGEND}[/]", highlight=False)
    for note in explanation.notes:
        console.print(f"[dim]{note}[/]", highlight=False)


def _row(line: Line, wide: bool) -> tuple[str, ...]:
    other, words, moved = next_best(line), line.words, "-"
    if not wide:
        words += f"\n[dim]or {other}[/]" if other else ""
    if line.moves:
        moved = describe_moves(line) if wide else format_bytes(line.nbytes)
    return (
        f"  {escape(title_of(line))}",
        words,
        format_seconds(line.compute_time),
        moved,
        format_bytes(line.memory) if line.memory else "-",
        *([other] if wide else []),
    )


def to_dict(explanation: Explanation) -> dict[str, object]:
    """An explanation as JSON-ready data."""
    return {
        "plan": plan_tables.to_dict(explanation.plan),
        "blocks": [_section_dict(section, explanation.graph) for section in explanation.sections],
        "notes": list(explanation.notes),
    }


def _section_dict(section: Section, graph: Graph) -> dict[str, object]:
    return {
        "title": section.title,
        "count": section.count,
        "lines": [_line_dict(line, graph) for line in section.lines],
    }


def _line_dict(line: Line, graph: Graph) -> dict[str, object]:
    instead = None
    if line.instead is not None:
        instead = {
            "words": line.instead,
            "extra_time": line.extra_time,
            "extra_memory": line.extra_memory,
        }
    return {
        "label": line.label,
        "op": line.op,
        "kind": line.kind,
        "strategy": line.strategy,
        "words": line.words,
        "compute_time": line.compute_time,
        "moving_time": line.moving_time,
        "moved_bytes": line.nbytes,
        "moves": [asdict(move) for move in line.moves],
        "memory": line.memory,
        "nodes": [graph.nodes[n].name for n in line.nodes],
        "next_best": instead,
    }


def annotated_program(graph: Graph, plan: Plan, costs: Costs | None = None) -> Iterator[str]:
    """A graph's program, every node with its split, its time and what is brought to it."""
    graph = graph_of_plan(graph, plan)
    coarse = coarsen(graph)
    expansion = Expansion(coarse.facts, plan, CostModel() if costs is None else costs)
    lines = Lines(coarse, plan, expansion, None)
    phase = None
    for i, node in enumerate(graph.nodes):
        if node.phase is not phase:
            phase = node.phase
            yield f"# {phase}"
        seconds = float(expansion.duration(i).max(initial=0)) / PICOSECONDS
        said = [lines.words.strategy(i, plan.strategy(node.name))]
        if seconds:
            said.append(format_seconds(seconds))
        said += [
            f"{m.kind.replace('_', ' ')} of %{m.tensor} {format_bytes(m.nbytes)}"
            for m in lines.moves.get(i, ())
        ]
        yield f"{node}    # {', '.join(said)}"
