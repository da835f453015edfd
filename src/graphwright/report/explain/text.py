"""An explanation as a table, as data, and as the program itself with a comment on every line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from graphwright.ir import Graph, format_bytes
from graphwright.machine import PICOSECONDS
from graphwright.partition import Weight, coarsen
from graphwright.plans import Plan, format_seconds
from graphwright.report.explain.explanation import Block, Explanation, Line, Lines, describe_moves
from graphwright.report.plans import plan_dict, plan_headline
from graphwright.simulate import CostModel
from graphwright.tasks import Costs, Expansion

WIDE = 110
"""Columns from which on there is room for one more."""
LEGEND = (
    "computes: the busiest device. moves: brought here from other devices, often while something is computed. holds: parameters and state, or what "
    "the backward pass will need, on one device. copies: devices that do the same. (sums): terms that are added up when their sum is needed. "
    "Of a repeated block the figures are those of one."
)


def show_explanation(found: Explanation, console: Console, title: str) -> None:
    """Print an explanation."""
    console.print(f"[bold]{escape(title)}[/]: {plan_headline(found.plan)}", highlight=False)
    wide = console.width >= WIDE
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("operators", overflow="fold")
    table.add_column("split", overflow="fold")
    table.add_column("computes", justify="right", no_wrap=True)
    table.add_column("moves", justify="right", no_wrap=not wide)
    table.add_column("holds", justify="right", no_wrap=True)
    if wide:
        table.add_column("next best", overflow="fold")
    for block in found.blocks:
        times = f"  ×{block.count}" if block.count > 1 else ""
        table.add_row(f"[bold]{escape(block.title)}{times}[/]")
        for line in block.lines:
            table.add_row(*_row(line, wide))
    console.print(table)
    console.print(f"[dim]{LEGEND}[/]", highlight=False)
    for note in found.notes:
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


def title_of(line: Line) -> str:
    """A line's operators in a few letters: `attention.query: matmul +13`, `update of bias`."""
    if line.kind == Weight.UPDATE:
        return f"update of {line.label}"
    op = line.op.partition(".")[2]
    more = f" +{line.num_nodes - 1}" if line.num_nodes > 1 else ""
    return f"{line.label}: {op}{more}" if line.label else f"{op}{more}"


def next_best(line: Line) -> str:
    """`columns in 8: +1.2 ms, -3 MB`, or nothing where there is nothing else."""
    if line.instead is None:
        return ""
    more = [f"{'+' if line.extra_time >= 0 else '-'}{format_seconds(abs(line.extra_time))}"]
    if abs(line.extra_memory) >= 1:
        sign = "+" if line.extra_memory > 0 else "-"
        more.append(f"{sign}{format_bytes(round(abs(line.extra_memory)))}")
    return f"{line.instead}: {', '.join(more)}"


def explanation_dict(found: Explanation, graph: Graph) -> dict[str, object]:
    """An explanation as JSON-ready data."""
    return {
        "plan": plan_dict(found.plan),
        "blocks": [_block_dict(block, graph) for block in found.blocks],
        "notes": list(found.notes),
    }


def _block_dict(block: Block, graph: Graph) -> dict[str, object]:
    return {
        "title": block.title,
        "count": block.count,
        "lines": [_line_dict(line, graph) for line in block.lines],
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
    """Every node of a graph as a line of its program, with its split, its time and what is brought to it."""
    coarse = coarsen(graph)
    expansion = Expansion(coarse.site, plan, CostModel() if costs is None else costs)
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
