"""The command line: thin verbs over the stages and their reports.

A model is named as ``file.py:function`` or by a name of the zoo. Every verb takes ``--json``; errors that we raise on
purpose are printed without a traceback, with exit status 1.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from graphwright.errors import GraphwrightError, InvalidModelName
from graphwright.version import __version__

if TYPE_CHECKING:
    from graphwright.report.coverage import GraphCoverage
    from graphwright.zoo import Workload

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
        "(model, loss_fn, batch) or (model, loss_fn, batch, optimizer)."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
BatchSize = Annotated[
    int | None, typer.Option(min=1, help="Batch size; the published one if not given.")
]
Small = Annotated[bool, typer.Option("--small", help="The small configuration, for a quick look.")]


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


@app.command()
def demo(
    model: Annotated[str, typer.Option(help="The model of the zoo to capture.")] = "wresnet-152-10",
    batch_size: Annotated[int, typer.Option(min=1, help="Batch size.")] = 8,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Save what is shown as a picture (.svg).")
    ] = None,
) -> None:
    """Capture a model that is far too big for this machine, and find every way to split its convolution."""
    from graphwright.describe import node_splits, types_of
    from graphwright.report import operator_report, show_graph, show_operator, show_splits

    console = Console(record=output is not None, width=110 if output is not None else None)
    workload = _load(model, batch_size, small=False)
    with console.status(f"Capturing one training step of {model}, without allocating it"):
        graph = workload.capture()
    show_graph(graph, console, f"{model}, one training step at batch size {batch_size}")
    with console.status("Analysing every operator"):
        found = {node.name: node_splits(graph, node) for node in graph.nodes}
    show_splits(graph, found, console)
    costly = max(
        (n for n in graph.nodes if n.op in ("aten.convolution", "aten.mm", "aten.bmm")),
        key=lambda n: sum(t.nbytes for t in types_of(graph, n).inputs if t is not None),
    )
    console.print(f"\nThe operator with the most bytes, at [bold]{costly.module}[/]:")
    show_operator(operator_report(costly.op, costly.attrs, types_of(graph, costly)), console)
    if output is not None:
        console.save_svg(str(output), title=f"graphwright demo --model {model}")


@app.command()
def capture(
    model: Model,
    batch_size: BatchSize = None,
    small: Small = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Save the graph: .json, .json.gz, or .txt for the text form."
        ),
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check the graph's invariants.")] = False,
    text: Annotated[bool, typer.Option("--text", help="Print the graph as a program.")] = False,
    as_json: AsJson = False,
) -> None:
    """Capture one training step as a graph: forward, backward and update, without allocating anything."""
    from graphwright import ir
    from graphwright.report import show_graph, summary_dict

    progress = Console(stderr=True)
    with progress.status(f"Capturing {model}"):
        graph = _load(model, batch_size, small).capture()
    if verify:
        ir.verify(graph)
        progress.print("verified: every invariant of the graph holds")
    if output is not None:
        if output.suffix == ".txt":
            ir.write_atomically(output, ir.to_text(graph).encode())
        else:
            ir.save(graph, output)
        progress.print(f"saved {output}")
    if as_json:
        print(json.dumps(summary_dict(graph), indent=2))
    elif text:
        print(ir.to_text(graph))
    elif output is None or verify:
        show_graph(graph, Console(), f"{model}, one training step")


@app.command()
def describe(
    operator: Annotated[
        str | None,
        typer.Argument(
            help="An operator as PyTorch names it: aten.convolution, aten.sum.dim_IntList."
        ),
    ] = None,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Count what is described, and list what is not.")
    ] = False,
    zoo_graphs: Annotated[
        bool,
        typer.Option(
            "--zoo",
            help="With --coverage: capture every model of the zoo (small) and check its operators.",
        ),
    ] = False,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            help="Type of a tensor argument, in order: 'float32[8, 3, 32, 32]'; - if absent.",
        ),
    ] = None,
    outputs: Annotated[
        list[str] | None, typer.Option("--output", help="Type of an output.")
    ] = None,
    attrs: Annotated[
        list[str] | None,
        typer.Option("--attr", help="An attribute as name=value: 'stride=(2, 2)'."),
    ] = None,
    parts: Annotated[int, typer.Option(min=2, help="Draw the regions for so many parts.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Show an operator's description and every way to split it that follows from it."""
    from graphwright import report

    console = Console()
    if coverage:
        found = report.coverage()
        if as_json:
            print(json.dumps(report.coverage_dict(found), indent=2))
        else:
            report.show_coverage(found, console)
        if zoo_graphs:
            report.show_graph_coverage(_zoo_coverage(), console)
        return
    if operator is None:
        raise typer.BadParameter("name an operator, or give --coverage")
    types = report.parse_types(inputs or [], outputs or []) if outputs else None
    if types is None and (inputs or attrs):
        raise typer.BadParameter(
            "--input and --attr need --output too: the types of the whole call"
        )
    shown = report.operator_report(operator, dict(map(_attribute, attrs or [])), types)
    if as_json:
        print(json.dumps(report.operator_dict(shown, parts), indent=2))
    else:
        report.show_operator(shown, console, parts)


@app.command()
def zoo(
    count: Annotated[
        bool, typer.Option("--count", help="Capture every model to count its operators (minutes).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the models of the zoo with their parameters, operators and published source."""
    from graphwright.zoo import listing

    rows = listing.rows(count, Console(stderr=True))
    if as_json:
        print(json.dumps(listing.to_dicts(rows), indent=2))
    else:
        listing.show(rows, Console())


# -- naming models ------------------------------------------------------------------------------------


def _load(name: str, batch_size: int | None, small: bool) -> Workload:
    from graphwright import zoo as models

    if ":" in name or name.endswith(".py"):
        return _load_file(name)
    return models.load(name, batch_size=batch_size, small=small)


def _load_file(name: str) -> Workload:
    """The workload that a function in a file of the user's returns."""
    from importlib.util import module_from_spec, spec_from_file_location

    from graphwright.zoo import Workload

    path, _, function = name.partition(":")
    if not function:
        raise InvalidModelName(f"{name}: name the function too, as in {name}:make_model")
    if not Path(path).is_file():
        raise InvalidModelName(f"{path} is not a file")
    spec = spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise InvalidModelName(f"{path} is not a Python file")
    module = module_from_spec(spec)
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    make = getattr(module, function, None)
    if not callable(make):
        raise InvalidModelName(f"{path} has no function {function!r}")
    made = make()
    if isinstance(made, Workload):
        return made
    if not isinstance(made, tuple) or len(made) not in (3, 4):
        raise InvalidModelName(
            f"{name} returned {type(made).__name__}; return (model, loss_fn, batch) or "
            "(model, loss_fn, batch, optimizer class)"
        )
    model, loss_fn, batch, *rest = made
    return Workload(
        name=name, model=model, loss_fn=loss_fn, batch=batch, optimizer=rest[0] if rest else None
    )


def _zoo_coverage() -> list[GraphCoverage]:
    from rich.progress import track

    from graphwright import zoo as models
    from graphwright.report import graph_coverage

    progress = track(
        models.names(), "Capturing the zoo", console=Console(stderr=True), transient=True
    )
    return [graph_coverage(name, models.load(name, small=True).capture()) for name in progress]


def _attribute(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator:
        raise typer.BadParameter(f"{text!r} is not name=value")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


if __name__ == "__main__":
    main()
