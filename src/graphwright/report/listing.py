"""What is described, one operator per line: the table of ``graphwright describe --list``."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from graphwright.describe import descriptions
from graphwright.describe import library as descriptions_library
from graphwright.report.coverage import description_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One described operator; `family` is the file of the library, or the module that describes it."""

    operator: str
    lines: int
    family: str


def listing() -> list[Row]:
    """Every operator that is described now, by name."""
    library = f"{descriptions_library.__name__}."
    return [
        Row(
            operator=found.op,
            lines=description_lines(found),
            family=inspect.unwrap(found.function).__module__.removeprefix(library),
        )
        for found in descriptions()
    ]


def listing_dicts(rows: Iterable[Row]) -> list[dict[str, object]]:
    """The rows as JSON-ready data."""
    return [asdict(row) for row in rows]


def show_listing(rows: list[Row], console: Console) -> None:
    """Print the table."""
    table = Table(title=f"{len(rows)} operators are described", title_justify="left")
    table.add_column("operator", style="bold", overflow="fold")
    table.add_column("lines", justify="right")
    table.add_column("family", overflow="fold")
    for row in rows:
        table.add_row(row.operator, str(row.lines), row.family)
    console.print(table)
