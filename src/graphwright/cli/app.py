"""The application that the verbs belong to, the options that they share, and how its errors end."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from graphwright.errors import GraphFileError, GraphwrightError
from graphwright.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

app = typer.Typer(
    name="graphwright",
    help="Write a model for one device; find out how to run it on the machines you have.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

Model = Annotated[
    str,
    typer.Argument(
        help="A name of the zoo (`graphwright zoo` lists them), or `file.py:function`, where the function returns "
        "(model, loss_fn, batch), (model, loss_fn, batch, optimizer) or a `Workload`."
    ),
]
ModelOrGraph = Annotated[
    str,
    typer.Argument(
        help="A name of the zoo, `file.py:function` (see `graphwright capture --help`), or a graph that `capture -o` saved "
        "(.json, .json.gz)."
    ),
]
ClusterName = Annotated[
    str | None,
    typer.Option(
        help="The machine: a preset (`dgx-h100`, `dgx-h100:4` for four of them), `local:4`, or a .toml file; "
        "`graphwright doctor` lists the presets. A saved plan's own if not given."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
BatchSize = Annotated[
    int | None,
    typer.Option(min=1, help="Batch size of a zoo model; the published one if not given."),
]
Small = Annotated[
    bool, typer.Option("--small", help="A zoo model's small configuration, for a quick look.")
]


def main() -> None:
    """Run the command line."""
    try:
        app()
    except GraphwrightError as error:
        Console(stderr=True).print(f"[bold red]{type(error).__name__}[/]: ", end="")
        print(error, file=sys.stderr)
        sys.exit(1)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Write a model for one device; find out how to run it on the machines you have."""
    if show:
        print(__version__)
        raise typer.Exit


def check_output(path: Path | None, suffixes: Sequence[str]) -> None:
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
