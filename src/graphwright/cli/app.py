"""The application that the verbs belong to, the options that they share, and how its errors end."""

from __future__ import annotations

import codecs
import os
import sys
import warnings
from errno import EPIPE
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from graphwright.errors import GraphwrightError
from graphwright.version import __version__

app = typer.Typer(
    name="graphwright",
    help="Write a model for one device; find out how to run it on the machines you have.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

MAX_SEED = 2**32 - 1
"""The largest seed of the generators that a run seeds: NumPy's takes no more."""

Model = Annotated[
    str,
    typer.Argument(
        help="A zoo model (`graphwright zoo` lists them), or `file.py:function` for your own: the "
        "function takes no arguments and returns (model, loss_fn, batch), (model, loss_fn, batch, "
        "optimizer class) or a `Workload`."
    ),
]
ModelOrGraph = Annotated[
    str,
    typer.Argument(
        help="A zoo model, `file.py:function` (see `graphwright capture --help`), or a graph saved "
        "by `graphwright capture -o` (.json, .json.gz)."
    ),
]
MACHINE = (
    "The machine: a preset (`dgx-h100`; `dgx-h100:4` for four of them), `local:4` for four "
    "processes on this computer, or a .toml file. `graphwright doctor` lists the presets."
)
Cluster = Annotated[str, typer.Option(help=MACHINE)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
BatchSize = Annotated[
    int | None,
    typer.Option(min=1, help="Batch size, for a zoo model. Default: the published one."),
]
Small = Annotated[
    bool,
    typer.Option("--small", help="For a zoo model: a tiny configuration of the same structure."),
]
Compiled = Annotated[
    bool,
    typer.Option(
        "--compiled", help="Price the kernels that torch.compile makes, not one for each operator."
    ),
]
Price = Annotated[
    float | None,
    typer.Option(
        help="What one device costs for an hour, as in 2.5. Default: what the machine's file says."
    ),
]


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors=SPELLED)  # a terminal that has no such letters
    warnings.formatwarning = _format_warning
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except GraphwrightError as error:
        Console(stderr=True).print(f"[bold red]{type(error).__name__}[/]: ", end="")
        print(error, file=sys.stderr)
        sys.exit(1)
    except OSError as error:  # ours are GraphwrightErrors: this is the output's
        # What is left in the buffer would fail again when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != EPIPE:
            print(f"cannot write the output: {error.strerror or error}", file=sys.stderr)
        sys.exit(1)


SPELLED = "graphwright.spelled"
_SPELLINGS = {
    "µ": "u",
    "·": "-",
    "×": "x",
    "→": "->",
    "≈": "~",
    "≤": "<=",
    "≥": ">=",
    "±": "+-",
    "÷": "/",
}


def _spell(error: UnicodeError) -> tuple[str | bytes, int]:
    """Letters that a terminal lacks: `us` for microseconds, and a question mark where none fits."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_SPELLINGS.get(letter, "?") for letter in lacking), error.end


codecs.register_error(SPELLED, _spell)


_FORMAT = warnings.formatwarning
_PACKAGE = str(Path(__file__).parents[1])


def _format_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """A warning as text; a line of the user's own is worth naming, one of this package is not."""
    if filename.startswith(_PACKAGE):
        return f"graphwright: {category.__name__}: {message}\n"
    return _FORMAT(message, category, filename, lineno, line)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Write a model for one device; find out how to run it on the machines you have."""
    if show:
        print(__version__)
        raise typer.Exit
