"""The two forms of tables: columns under headings, and facts one below the other."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Column, Table


def headed(title: str, *columns: Column | str) -> Table:
    """An empty table with these columns."""
    return Table(*columns, title=title, title_justify="left")


def headed_plainly(*columns: Column | str, title: str | None = None) -> Table:
    """The same, without lines."""
    return Table(*columns, title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))


def facts(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    """Labels, and what there is to say of each."""
    table = Table(
        name_column(""), text_column(""), title=title, title_justify="left", show_header=False
    )
    for row in rows:
        table.add_row(*row)
    return table


def name_column(heading: str, *, no_wrap: bool = False) -> Column:
    """A column of names."""
    return Column(heading, style="bold", overflow="fold", no_wrap=no_wrap)


def number_column(heading: str) -> Column:
    """A column of numbers."""
    return Column(heading, justify="right", no_wrap=True)


def text_column(heading: str) -> Column:
    """A column of words."""
    return Column(heading, overflow="fold")
