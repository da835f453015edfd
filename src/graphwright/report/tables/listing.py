"""What is described, one operator per line: the table of ``graphwright describe --list``."""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass

from rich.console import Console

from graphwright.describe import descriptions
from graphwright.describe import library as descriptions_library
from graphwright.report.tables.coverage import description_lines
from graphwright.report.tables.layout import headed, name_column, number_column, text_column


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedOperator:
    """An operator's name, the lines of its description, and the file of the library it is in."""

    operator: str
    lines: int
    family: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Every operator that is described, by name."""

    operators: tuple[DescribedOperator, ...]


def list_described() -> Listing:
    """Every operator that is described now."""
    library = f"{descriptions_library.__name__}."
    return Listing(
        operators=tuple(
            DescribedOperator(
                operator=description.op,
                lines=description_lines(description),
                family=inspect.unwrap(description.function).__module__.removeprefix(library),
            )
            for description in descriptions()
        )
    )


def to_dict(listing: Listing) -> list[dict[str, object]]:
    """The operators as JSON-ready data."""
    return [asdict(operator) for operator in listing.operators]


def show(listing: Listing, console: Console) -> None:
    """Print the table."""
    title = f"{len(listing.operators)} operators are described"
    table = headed(title, name_column("operator"), number_column("lines"), text_column("family"))
    for row in listing.operators:
        table.add_row(row.operator, str(row.lines), row.family)
    console.print(table)
