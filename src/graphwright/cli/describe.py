"""``graphwright describe``: operators, what follows from their descriptions, and how many are described."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from graphwright.cli.app import AsJson, app
from graphwright.errors import InvalidCall

if TYPE_CHECKING:
    from graphwright.describe import Types
    from graphwright.ir import Attr
    from graphwright.report import GraphCoverage


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
