"""How much of PyTorch is described: the table of ``graphwright describe --coverage``.

Three counts: the operators that PyTorch tags `core`, the operators of captured graphs, and lines of text, beside the
lines that PyTorch's own hand-written sharding rules take for the same job.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from graphwright.describe import (
    Description,
    descriptions,
    is_described,
    properties,
    types_of,
    undescribed,
)
from graphwright.describe import library as descriptions_library
from graphwright.ir import Graph

PUBLISHED = {"Tofu, MXNet 0.11": (134, 139), "Tofu, TensorFlow": (257, 341)}
"""Described and all operators, from section 4.1 of the Tofu paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What is described, counted."""

    num_described: int
    core: tuple[str, ...]
    core_missing: Mapping[str, str]
    lines: Mapping[str, int]
    library_lines: int
    pytorch_lines: int | None

    @property
    def num_core_described(self) -> int:
        return len(self.core) - len(self.core_missing)


def coverage() -> Coverage:
    """Count what is described."""
    known = list(descriptions())
    reasons = undescribed()
    core = core_operators()
    return Coverage(
        num_described=len(known),
        core=core,
        core_missing={
            op: reasons.get(op, "not yet described") for op in core if not is_described(op)
        },
        lines={d.op: description_lines(d) for d in known},
        library_lines=sum(
            _code_lines(p) for p in _sources(Path(inspect.getfile(descriptions_library)).parent)
        ),
        pytorch_lines=pytorch_rule_lines(),
    )


def core_operators() -> tuple[str, ...]:
    """The overloads that the installed PyTorch tags `core`, named as in a graph."""
    import torch

    found: list[str] = []
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads() if hasattr(packet, "overloads") else ():
            if torch.Tag.core in getattr(packet, overload).tags:
                found.append(f"aten.{name}" + ("" if overload == "default" else f".{overload}"))
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCoverage:
    """The operators of one captured graph."""

    model: str
    num_nodes: int
    num_operators: int
    undescribed: tuple[str, ...]
    opaque: Mapping[str, tuple[str, ...]]
    random: tuple[str, ...]


def graph_coverage(model: str, graph: Graph) -> GraphCoverage:
    """Which operators of a graph are described, and which of those are opaque in part."""
    opaque: dict[str, tuple[str, ...]] = {}
    random: set[str] = set()
    for node in graph.nodes:
        if is_described(node.op):
            found = properties(node.op, node.attrs, types_of(graph, node))
            if found.opaque:
                opaque[node.op] = found.opaque
            if found.random:
                random.add(node.op)
    operators = {node.op for node in graph.nodes}
    return GraphCoverage(
        model=model,
        num_nodes=len(graph.nodes),
        num_operators=len(operators),
        undescribed=tuple(sorted(op for op in operators if not is_described(op))),
        opaque=opaque,
        random=tuple(sorted(random)),
    )


def show_graph_coverage(rows: Iterable[GraphCoverage], console: Console) -> None:
    """Print which operators of captured graphs are described."""
    table = Table(title="Operators of training graphs", title_justify="left")
    table.add_column("model", style="bold", no_wrap=True)
    table.add_column("nodes", justify="right", no_wrap=True)
    table.add_column("operators", justify="right", no_wrap=True)
    for heading in ("not described", "opaque in part", "random"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(
            row.model,
            f"{row.num_nodes:,}",
            str(row.num_operators),
            ", ".join(row.undescribed) or "none",
            ", ".join(f"{op} ({', '.join(names)})" for op, names in row.opaque.items()) or "none",
            ", ".join(row.random) or "none",
        )
    console.print(table)
    console.print(
        "Opaque in part: a function along some dims that has no formula; all other dims split."
    )


def graph_coverage_dicts(rows: Iterable[GraphCoverage]) -> list[dict[str, object]]:
    """The rows as JSON-ready data."""
    return [asdict(row) for row in rows]


def description_lines(description: Description) -> int:
    """The lines of a description's text, without decorator, blank and comment lines."""
    lines = [line.strip() for line in description.source.splitlines()]
    return max(1, sum(bool(line) and not line.startswith(("@", "#", '"""')) for line in lines))


def pytorch_rule_lines() -> int | None:
    """The lines of PyTorch's sharding rules, counted in the installed package."""
    import torch

    folder = Path(torch.__file__).parent / "distributed" / "tensor" / "_ops"
    return (
        sum(len(p.read_text().splitlines()) for p in _sources(folder)) if folder.is_dir() else None
    )


def _sources(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.py"))


def _code_lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def coverage_dict(found: Coverage) -> dict[str, object]:
    """The coverage as JSON-ready data."""
    return {
        "described": found.num_described,
        "core": len(found.core),
        "core_described": found.num_core_described,
        "core_missing": dict(found.core_missing),
        "library_lines": found.library_lines,
        "pytorch_rule_lines": found.pytorch_lines,
        "lines_per_description": dict(found.lines),
    }


def show_coverage(found: Coverage, console: Console) -> None:
    """Print the coverage table."""
    table = Table(title="What is described", title_justify="left")
    for heading in ("", "described", "of", "share"):
        table.add_column(heading, justify="left" if not heading else "right")
    share = found.num_core_described / len(found.core)
    table.add_row(
        "Graphwright, PyTorch core overloads",
        str(found.num_core_described),
        str(len(found.core)),
        f"{share:.0%}",
    )
    table.add_row("Graphwright, all operators", str(found.num_described), "", "")
    for system, (some, every) in PUBLISHED.items():
        table.add_row(system, str(some), str(every), f"{some / every:.0%}")
    console.print(table)

    spread = Counter(min(n, 6) for n in found.lines.values())
    sizes = Table(title="Lines of a description", title_justify="left")
    for n in range(1, 7):
        sizes.add_column(str(n) if n < 6 else "6 or more", justify="right")
    sizes.add_row(*(str(spread[n]) for n in range(1, 7)))
    console.print(sizes)
    theirs = f"{found.pytorch_lines:,}" if found.pytorch_lines else "not installed"
    console.print(
        f"Lines in all: {found.library_lines:,} here, {theirs} in PyTorch's hand-written sharding rules "
        "(torch/distributed/tensor/_ops)."
    )
    for op, reason in found.core_missing.items():
        console.print(f"  not described: {op}: {reason}", highlight=False)
