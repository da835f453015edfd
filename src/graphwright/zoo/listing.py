"""The zoo as a table: each model's parameters, operators of its training step, and source.

Counting operators means capturing every model, which takes minutes, so ``operators.json`` holds the
counts. ``make zoo-counts`` updates them, and a test compares some with fresh captures.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from graphwright.ir import write_atomically
from graphwright.zoo.registry import entry, load, names


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooModel:
    """One model of the zoo."""

    name: str
    family: str
    parameters: int
    operators: int | None
    batch_size: int
    source: str


def rows(count_operators: bool, console: Console) -> list[ZooModel]:
    """A row for each model; `count_operators` captures each one instead of using saved counts."""
    saved: dict[str, int] = json.loads((files("graphwright.zoo") / "operators.json").read_text())
    table: list[ZooModel] = []
    for name in track(names(), "Building the zoo", console=console, transient=True):
        workload = load(name)
        about = entry(name)
        table.append(
            ZooModel(
                name=name,
                family=about.family,
                parameters=workload.num_parameters,
                operators=count(name) if count_operators else saved.get(name),
                batch_size=about.batch_size,
                source=about.source,
            )
        )
    return table


def count(name: str) -> int:
    """The number of operators of one training step."""
    return len(load(name).capture().nodes)


def write_counts() -> None:
    """Count the operators of every model and save the counts."""
    counts = {name: count(name) for name in track(names(), "Capturing the zoo")}
    path = Path(str(files("graphwright.zoo") / "operators.json"))
    write_atomically(path, (json.dumps(counts, indent=2) + "\n").encode())


def to_dicts(rows: list[ZooModel]) -> list[dict[str, object]]:
    """The rows as JSON-ready data."""
    return [asdict(row) for row in rows]


def show(rows: list[ZooModel], console: Console) -> None:
    """Print the table."""
    table = Table(title="The zoo", title_justify="left")
    table.add_column("model", style="bold", no_wrap=True)
    table.add_column("parameters", justify="right")
    table.add_column("operators", justify="right")
    table.add_column("batch", justify="right")
    table.add_column("source")
    for row in rows:
        operators = "" if row.operators is None else f"{row.operators:,}"
        table.add_row(row.name, f"{row.parameters:,}", operators, str(row.batch_size), row.source)
    console.print(table)
    console.print(
        "Other sizes by name: wresnet-<depth>-<width>, rnn-<layers>-<hidden>, "
        "brnn-<layers>-<hidden>, nasnet-<R>, inception-<scale>, gpt-<layers>-<width>, "
        "llama-<8|70>b-<layers>, rnnlm-<steps>."
    )
