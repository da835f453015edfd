"""What the verbs print and write: results, files, and a bar for what takes long."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from graphwright.errors import GraphFileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphwright.partition import Progress as Tell
    from graphwright.report.results import Result

PLANS = (".json", ".json.gz")
PICTURES = (".png", ".svg")


def option(help: str) -> Any:
    """The option that names the file to write."""
    return typer.Option("-o", "--output", help=help)


def check(path: Path | None, suffixes: Sequence[str]) -> None:
    """Refuse a file that could not be written, before the work that it is to hold."""
    if path is None:
        return
    if not path.name.endswith(tuple(suffixes)):
        raise GraphFileError(f"{path}: the name has to end in {', '.join(suffixes)}")
    if path.is_dir():
        raise GraphFileError(f"{path} is a folder; name a file")
    if not path.parent.is_dir():
        raise GraphFileError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise GraphFileError(f"cannot write {path}: no permission to write in {path.parent}")


def print_result(
    result: Result, as_json: bool, *, title: str = "", limit: int | None = None
) -> None:
    """Print what a stage returned: as tables, or as JSON and nothing else."""
    from graphwright import report

    if as_json:
        print_json(report.to_dict(result, limit=limit))
    else:
        report.show(result, title=title, limit=limit)


def print_json(data: object) -> None:
    """Print data as JSON."""
    print(json.dumps(data, indent=2))


def save_json(data: object, path: Path) -> None:
    """Write data as JSON: all of it, or nothing."""
    from graphwright.files import write_atomically

    write_atomically(path, (json.dumps(data, indent=2) + "\n").encode())


def say_saved(*paths: Path | None) -> None:
    """Say on the error stream which files were written."""
    for path in paths:
        if path is not None:
            Console(stderr=True).print(f"saved {path}")


@contextmanager
def progress(quiet: bool) -> Iterator[Tell]:
    """A bar on the error stream that follows the steps of a search; none if `quiet`."""
    if quiet:
        yield lambda what, done, total: None
        return
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal,
    )  # fmt: skip
    with bar:
        task = bar.add_task("", total=None, count="")

        def report(what: str, done: int, total: int) -> None:
            count = f"{done:,} of {total:,}" if total else ""
            bar.update(task, description=what, completed=done, total=total or None, count=count)

        compiled = 0

        def tell(name: str) -> None:
            nonlocal compiled
            compiled += 1
            bar.update(
                task, description="compiling inner loops, once", total=None, count=f"{compiled}"
            )

        from graphwright.tasks import compilations_told

        with compilations_told(tell):
            yield report
