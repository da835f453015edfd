"""A captured graph as tables: what it holds, and what it computes most."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.table import Table

from graphwright.describe import cost, types_of
from graphwright.ir import Graph, Phase, Summary, format_bytes, summarize
from graphwright.report.tables.layout import headed, name_column, number_column


def to_dict(graph: Graph) -> dict[str, object]:
    """A graph's statistics as JSON-ready data."""
    summary = summarize(graph)
    return {
        "hash": graph.hash,
        "nodes": summary.num_nodes,
        "nodes_per_phase": {str(phase): n for phase, n in summary.nodes_per_phase.items()},
        "nodes_per_op": dict(summary.nodes_per_op),
        "tensors": summary.num_tensors,
        "distinct_sizes": len(summary.distinct_sizes),
        "parameters": summary.num_parameters,
        "parameter_bytes": summary.parameter_bytes,
        "gradient_bytes": summary.parameter_gradient_bytes,
        "optimizer_state_bytes": summary.optimizer_state_bytes,
        "activation_bytes": summary.activation_bytes,
        "peak_bytes": summary.peak_bytes,
        "operations": operations(graph),
    }


def operations(graph: Graph) -> int:
    """Arithmetic operations of one step, from the descriptions."""
    return sum(cost(n.op, n.attrs, types_of(graph, n)).operations for n in graph.nodes)


def show(graph: Graph, console: Console, title: str) -> None:
    """Print a graph's statistics."""
    console.print(_memory_table(summarize(graph), title))
    console.print(_operator_table(graph))


def _memory_table(summary: Summary, title: str) -> Table:
    phases = ", ".join(f"{summary.nodes_per_phase.get(p, 0):,} {p}" for p in Phase)
    weights, gradients = summary.parameter_bytes, summary.parameter_gradient_bytes
    kept = weights + gradients + summary.optimizer_state_bytes
    binary = f" ({kept / 2**30:.1f} GiB)" if kept >= 2**30 else ""
    rows = {
        "operators": f"{summary.num_nodes:,} ({phases})",
        "tensors": f"{summary.num_tensors:,} of {len(summary.distinct_sizes)} sizes",
        "parameters": f"{summary.num_parameters:,}",
        "weights": format_bytes(weights),
        "their gradients": format_bytes(gradients),
        "optimizer state": format_bytes(summary.optimizer_state_bytes),
        "these three": format_bytes(kept) + binary,
        "activations in all": format_bytes(summary.activation_bytes),
        "peak, in program order": format_bytes(summary.peak_bytes),
    }
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for row in rows.items():
        table.add_row(*row)
    return table


def _operator_table(graph: Graph, rows: int = 8) -> Table:
    counts: Counter[str] = Counter()
    work: Counter[str] = Counter()
    for node in graph.nodes:
        counts[node.op] += 1
        work[node.op] += cost(node.op, node.attrs, types_of(graph, node)).operations
    total = sum(work.values()) or 1
    numbers = map(number_column, ("nodes", "operations", "share"))
    table = headed("Where the arithmetic is", name_column("operator"), *numbers)
    for op, done in work.most_common(rows):
        table.add_row(op, f"{counts[op]:,}", f"{done:.3g}", f"{done / total:.1%}")
    return table
