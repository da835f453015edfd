"""A bar for what takes longer than a second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from graphwright.partition import Progress as Tell


@contextmanager
def progress(quiet: bool) -> Iterator[Tell]:
    """A bar on the error stream, told of each step of a search; nothing where that is not wanted."""
    if quiet:
        yield lambda what, done, total: None
        return
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"), TimeElapsedColumn(),
        console=console, transient=True, disable=not console.is_terminal,
    )  # fmt: skip
    with bar:
        task = bar.add_task("", total=None, count="")

        def report(what: str, done: int, total: int) -> None:
            count = f"{done:,} of {total:,}" if total else ""
            bar.update(task, description=what, completed=done, total=total or None, count=count)

        yield report
