"""How much of PyTorch is described: the table of ``graphwright describe --coverage``.

Three counts: the operators that PyTorch tags `core`, the operators of captured graphs, and lines of
text, beside the lines that PyTorch's own hand-written sharding rules take for the same job.
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
from graphwright.report.tables.layout import headed, name_column, number_column, text_column

PUBLISHED = {"Tofu, MXNet 0.11": (134, 139), "Tofu, TensorFlow": (257, 341)}
"""Described and all operators, from section 4.1 of the Tofu paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCoverage:
    """The operators of one captured graph."""

    model: str
    num_nodes: int
    num_operators: int
    undescribed: tuple[str, ...]
    opaque: Mapping[str, tuple[str, ...]]
    random: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What is described, counted; `zoo` are the models whose graphs were looked at, if any."""

    num_described: int
    core: tuple[str, ...]
    core_missing: Mapping[str, str]
    lines: Mapping[str, int]
    library_lines: int
    pytorch_lines: int | None
    zoo: tuple[GraphCoverage, ...] = ()

    @property
    def num_core_described(self) -> int:
        return len(self.core) - len(self.core_missing)


def count_described(zoo: Iterable[GraphCoverage] = ()) -> Coverage:
    """Count what is described; `zoo` goes with it as it is."""
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
        library_lines=_num_lines(Path(inspect.getfile(descriptions_library)).parent),
        pytorch_lines=pytorch_rule_lines(),
        zoo=tuple(zoo),
    )


def core_operators() -> tuple[str, ...]:
    """The overloads that the installed PyTorch tags `core`, named as in a graph."""
    import torch

    names: list[str] = []
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads() if hasattr(packet, "overloads") else ():
            if torch.Tag.core in getattr(packet, overload).tags:
                names.append(f"aten.{name}" + ("" if overload == "default" else f".{overload}"))
    return tuple(sorted(names))


def graph_coverage(model: str, graph: Graph) -> GraphCoverage:
    """Which operators of a graph are described, and which of those are opaque in part."""
    opaque: dict[str, tuple[str, ...]] = {}
    random: set[str] = set()
    for node in graph.nodes:
        if is_described(node.op):
            known = properties(node.op, node.attrs, types_of(graph, node))
            if known.opaque:
                opaque[node.op] = known.opaque
            if known.random:
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


def description_lines(description: Description) -> int:
    """The lines of a description's text, without decorator, blank and comment lines."""
    lines = [line.strip() for line in description.source.splitlines()]
    return max(1, sum(bool(line) and not line.startswith(("@", "#", '"""')) for line in lines))


def pytorch_rule_lines() -> int | None:
    """The lines of PyTorch's sharding rules, counted in the installed package."""
    import torch

    folder = Path(torch.__file__).parent / "distributed" / "tensor" / "_ops"
    return _num_lines(folder) if folder.is_dir() else None


def _num_lines(folder: Path) -> int:
    """The lines of all Python files in a folder."""
    return sum(len(path.read_text().splitlines()) for path in folder.glob("*.py"))


def to_dict(coverage: Coverage) -> dict[str, object]:
    """The coverage as JSON-ready data."""
    zoo = {"zoo": [asdict(row) for row in coverage.zoo]} if coverage.zoo else {}
    return {
        "described": coverage.num_described,
        "core": len(coverage.core),
        "core_described": coverage.num_core_described,
        "core_missing": dict(coverage.core_missing),
        "library_lines": coverage.library_lines,
        "pytorch_rule_lines": coverage.pytorch_lines,
        "lines_per_description": dict(coverage.lines),
        **zoo,
    }


def show(coverage: Coverage, console: Console) -> None:
    """Print the counts, what is not described and why, and the models that were looked at."""
    console.print(_shares_table(coverage))
    console.print(_lines_table(coverage))
    theirs = f"{coverage.pytorch_lines:,}" if coverage.pytorch_lines else "not installed"
    console.print(
        f"Lines in all: {coverage.library_lines:,} here, {theirs} in PyTorch's hand-written "
        "sharding rules (torch/distributed/tensor/_ops)."
    )
    for op, reason in coverage.core_missing.items():
        console.print(f"  not described: {op}: {reason}", highlight=False)
    if coverage.zoo:
        console.print(_zoo_table(coverage.zoo))
        console.print(
            "Opaque in part: a function along some dims that has no formula; all other dims split."
        )


def _shares_table(coverage: Coverage) -> Table:
    """How much is described, beside what the Tofu paper described of other systems."""
    table = headed("What is described", "", *map(number_column, ("described", "of", "share")))
    some, every = coverage.num_core_described, len(coverage.core)
    share = f"{some / every:.0%}"
    table.add_row("Graphwright, PyTorch core overloads", str(some), str(every), share)
    table.add_row("Graphwright, all operators", str(coverage.num_described), "", "")
    for system, (some, every) in PUBLISHED.items():
        table.add_row(system, str(some), str(every), f"{some / every:.0%}")
    return table


def _lines_table(coverage: Coverage) -> Table:
    """How many descriptions have one line, how many two, and so on."""
    spread = Counter(min(n, 6) for n in coverage.lines.values())
    headings = (*map(str, range(1, 6)), "6 or more")
    table = headed("Lines of a description", *map(number_column, headings))
    table.add_row(*(str(spread[n]) for n in range(1, 7)))
    return table


def _zoo_table(zoo: Iterable[GraphCoverage]) -> Table:
    """Which operators of captured graphs are described."""
    numbers, lists = ("nodes", "operators"), ("not described", "opaque in part", "random")
    table = headed(
        "Operators of training graphs",
        name_column("model", no_wrap=True),
        *map(number_column, numbers),
        *map(text_column, lists),
    )
    for row in zoo:
        table.add_row(
            row.model,
            f"{row.num_nodes:,}",
            str(row.num_operators),
            ", ".join(row.undescribed) or "none",
            ", ".join(f"{op} ({', '.join(names)})" for op, names in row.opaque.items()) or "none",
            ", ".join(row.random) or "none",
        )
    return table
