"""The zoo as a table: each model with its parameters, the operators of its training step, and its published source.

Counting operators means capturing every model, which takes minutes for all of them, so the counts are kept in
``operators.json``; ``make zoo-counts`` makes them anew, and a test compares some with fresh captures.
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
class Row:
    """One model of the zoo."""

    name: str
    family: str
    parameters: int
    operators: int | None
    batch_size: int
    source: str


def rows(count_operators: bool, console: Console) -> list[Row]:
    """A row for each model; with `count_operators` every one is captured, otherwise the kept counts are used."""
    kept: dict[str, int] = json.loads((files("graphwright.zoo") / "operators.json").read_text())
    found: list[Row] = []
    for name in track(names(), "Building the zoo", console=console, transient=True):
        workload = load(name)
        about = entry(name)
        found.append(
            Row(
                name=name,
                family=about.family,
                parameters=workload.num_parameters,
                operators=count(name) if count_operators else kept.get(name),
                batch_size=about.batch_size,
                source=about.source,
            )
        )
    return found


def count(name: str) -> int:
    """The operators of one training step."""
    return len(load(name).capture().nodes)


def write_counts() -> None:
    """Count the operators of every model anew, and keep the counts."""
    found = {name: count(name) for name in track(names(), "Capturing the zoo")}
    path = Path(str(files("graphwright.zoo") / "operators.json"))
    write_atomically(path, (json.dumps(found, indent=2) + "\n").encode())


def to_dicts(found: list[Row]) -> list[dict[str, object]]:
    """The rows as JSON-ready data."""
    return [asdict(row) for row in found]


def show(found: list[Row], console: Console) -> None:
    """Print the table."""
    table = Table(title="The zoo", title_justify="left")
    table.add_column("model", style="bold", no_wrap=True)
    table.add_column("parameters", justify="right")
    table.add_column("operators", justify="right")
    table.add_column("batch", justify="right")
    table.add_column("source")
    for row in found:
        operators = "" if row.operators is None else f"{row.operators:,}"
        table.add_row(row.name, f"{row.parameters:,}", operators, str(row.batch_size), row.source)
    console.print(table)
    console.print(
        "Other sizes by name: wresnet-<depth>-<width>, rnn-<layers>-<hidden>, brnn-<layers>-<hidden>, nasnet-<R>, "
        "inception-<scale>, gpt-<layers>-<width>, llama-8b-<layers>, rnnlm-<steps>."
    )
