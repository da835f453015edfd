"""The command line: thin verbs over the stages and their reports.

A model is named as ``file.py:function`` or by a name of the zoo. Every verb takes ``--json``; errors that we raise on
purpose are printed without a traceback, with exit status 1.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from graphwright.errors import GraphFileError, GraphwrightError, InvalidCall, InvalidModelName
from graphwright.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphwright.describe import Types
    from graphwright.ir import Attr
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
        "(model, loss_fn, batch), (model, loss_fn, batch, optimizer) or a `Workload`."
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
GRAPH_SUFFIXES = (".json", ".json.gz", ".txt")


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
    from graphwright.describe import cost, node_splits, types_of
    from graphwright.report import operator_report, show_graph, show_operator, show_splits

    if ":" in model or model.endswith(".py"):
        raise typer.BadParameter(f"the demo shows models of the zoo; `graphwright capture {model}`")
    _check_output(output, (".svg",))
    console = Console(record=output is not None, width=110 if output is not None else None)
    workload = _load(model, batch_size, small=False)
    with console.status(f"Capturing one training step of {model}, without allocating it"):
        graph = workload.capture()
    show_graph(graph, console, f"{model}, one training step at batch size {batch_size}")
    with console.status("Analysing every operator"):
        found = {node.name: node_splits(graph, node) for node in graph.nodes}
    show_splits(graph, found, console)
    costly = max(
        (node for node in graph.nodes if node.phase == "forward"),
        key=lambda node: cost(node.op, node.attrs, types_of(graph, node)).operations,
    )
    console.print(f"\nThe forward operator with the most arithmetic, at [bold]{costly.module}[/]:")
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

    _check_output(output, GRAPH_SUFFIXES)
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
    listing: Annotated[
        bool,
        typer.Option("--list", help="List every described operator, its lines and its file."),
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
        list[str] | None,
        typer.Option("--output", help="Type of an output; inferred if not given, else checked."),
    ] = None,
    attrs: Annotated[
        list[str] | None,
        typer.Option(
            "--attr", help="An attribute as name=value: 'stride=(2, 2)'; the default if not given."
        ),
    ] = None,
    parts: Annotated[int, typer.Option(min=2, help="Draw the regions for so many parts.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Show an operator's description and every way to split it that follows from it.

    Without --input an example call is shown; with it, the call that you give: `graphwright describe aten.mm --input
    'float32[4, 6]' --input 'float32[6, 8]'`.
    """
    from graphwright import report

    console = Console()
    if listing:
        rows = report.listing()
        if as_json:
            print(json.dumps(report.listing_dicts(rows), indent=2))
        else:
            report.show_listing(rows, console)
        return
    if coverage:
        _show_coverage(zoo_graphs, as_json, console)
        return
    if zoo_graphs:
        raise typer.BadParameter("--zoo goes with --coverage")
    if operator is None:
        raise typer.BadParameter("name an operator, or give --coverage or --list")
    given = dict(map(_attribute, attrs or []))
    if inputs or outputs or given:
        known, types = _call_types(operator, given, inputs or [], outputs or [])
        shown = report.operator_report(operator, known, types)
    else:
        shown = report.operator_report(operator)
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
        if batch_size is not None or small:
            raise typer.BadParameter(
                f"--batch-size and --small are for models of the zoo; {name} makes its own batch"
            )
        return _load_file(name)
    return models.load(name, batch_size=batch_size, small=small)


def _load_file(name: str) -> Workload:
    """The workload that a function in a file of the user's returns."""
    from graphwright.zoo import Workload

    path, _, function = name.partition(":")
    if not function:
        raise InvalidModelName(f"{path}: name the function too, as in {path}:make_model")
    folder = str(Path(path).resolve().parent)
    sys.path.insert(0, folder)
    try:
        made = _run_user_code(path, f"{function}() raised", _find_function(path, function))
    finally:
        sys.path.remove(folder)
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


def _find_function(path: str, function: str) -> Callable[[], object]:
    """Import a file and return its function, which can be called without arguments."""
    from importlib.util import module_from_spec, spec_from_file_location

    if not Path(path).is_file():
        raise InvalidModelName(f"{path} is not a file")
    spec = spec_from_file_location(f"graphwright_model_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise InvalidModelName(f"{path} is not a Python file")
    module = sys.modules[spec.name] = module_from_spec(spec)
    _run_user_code(path, "importing it raised", partial(spec.loader.exec_module, module))
    make = getattr(module, function, None)
    if not callable(make):
        raise InvalidModelName(f"{path} has no function {function!r}")
    needed = _required_arguments(make)
    if needed:
        raise InvalidModelName(
            f"{path}: {function} needs {', '.join(needed)}, but is called without arguments; give them defaults"
        )
    return make  # type: ignore[no-any-return]


def _run_user_code(path: str, what: str, code: Callable[[], object]) -> object:
    try:
        return code()
    except GraphwrightError:
        raise
    except (Exception, SystemExit) as error:
        raise _blame(path, what, error) from error


def _required_arguments(function: Callable[..., object]) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin tells nothing
        return []
    return [
        p.name
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]


def _blame(path: str, what: str, error: BaseException) -> InvalidModelName:
    """What went wrong in a user's file, with the last of its lines that took part."""
    here = Path(path).resolve()
    if isinstance(error, SyntaxError):
        place, line, text = error.filename or path, error.lineno, error.msg
        place = path if Path(place).resolve() == here else place
    else:
        place, text = path, str(error)
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if Path(frame.filename).resolve() == here
        ]
        line = lines[-1] if lines else None
    where = place if line is None else f"{place}:{line}"
    return InvalidModelName(f"{where}: {what} {type(error).__name__}: {text}")


# -- arguments ----------------------------------------------------------------------------------------


def _check_output(path: Path | None, suffixes: Sequence[str]) -> None:
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


def _call_types(
    op: str, attrs: dict[str, Any], inputs: list[str], outputs: list[str]
) -> tuple[dict[str, Attr], Types]:
    """A call given on the command line, completed and checked by the operator itself."""
    from graphwright import report
    from graphwright.describe import require
    from graphwright.run import complete_call, infer_types

    require(op)
    given = report.parse_types(inputs, outputs)
    known, tensors = complete_call(op, attrs, given.inputs)
    found = infer_types(op, tensors, known)
    if outputs and found.outputs != given.outputs:
        raise InvalidCall(
            f"{op} makes {', '.join(map(str, found.outputs))} of these inputs, not "
            f"{', '.join(map(str, given.outputs))}; --output may be left out"
        )
    return known, found


def _show_coverage(zoo_graphs: bool, as_json: bool, console: Console) -> None:
    from graphwright import report

    found = report.coverage()
    rows = _zoo_coverage() if zoo_graphs else None
    if as_json:
        graphs = {} if rows is None else {"zoo": report.graph_coverage_dicts(rows)}
        print(json.dumps(report.coverage_dict(found) | graphs, indent=2))
        return
    report.show_coverage(found, console)
    if rows is not None:
        report.show_graph_coverage(rows, console)


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
