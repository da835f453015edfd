"""``graphwright zoo``, ``rules`` and ``describe``: the models, substitutions and operators that
there are, and what follows from an operator's description.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from graphwright.cli import outputs
from graphwright.cli.app import AsJson, app
from graphwright.cli.outputs import print_result
from graphwright.errors import InvalidCall, InvalidOption

if TYPE_CHECKING:
    from graphwright.describe import Types
    from graphwright.ir import Attr
    from graphwright.report import Coverage, GraphCoverage, Listing, OperatorReport


@app.command()
def zoo(
    count: Annotated[
        bool,
        typer.Option(
            "--count", help="Count the operators anew by capturing every model (minutes)."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the models of the zoo with their parameters, operators and published source."""
    from graphwright.zoo import listing

    rows = listing.rows(count, Console(stderr=True))
    if as_json:
        outputs.print_json(listing.to_dicts(rows))
    else:
        listing.show(rows, Console())


@app.command()
def rules(
    number: Annotated[
        int | None, typer.Argument(help="The number of a rule, to draw it with its proof.")
    ] = None,
    operator: Annotated[
        str | None, typer.Option(help="Only rules with this operator, such as conv or matmul.")
    ] = None,
    size: Annotated[
        int | None, typer.Option(min=1, help="Only rules whose larger graph has so many operators.")
    ] = None,
    output: Annotated[
        Path | None, outputs.option("Draw the rule into this .png or .svg file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the graph substitutions that are proved equal, or draw one of them.

    `graphwright rules --operator conv` lists those of convolutions, `graphwright rules 7` draws
    rule 7: its source and target graph, the guard it needs, and the axioms of its proof.
    """
    from graphwright import report
    from graphwright.rewrite.substitutions import every_rule, shipped

    if number is None:
        if output is not None:
            raise typer.BadParameter("-o draws one rule: name its number")
        outputs.print_result(report.list_rules(shipped(), operator=operator, size=size), as_json)
        return
    outputs.check(output, outputs.PICTURES)
    every = every_rule()
    if not 0 <= number < len(every):
        raise InvalidOption(f"there is no rule {number}; rules go from 0 to {len(every) - 1}")
    rule = every[number]
    if output is not None:
        report.plot_rule(rule, output)
        outputs.say_saved(output)
    if as_json:
        outputs.print_json(report.rule_to_dict(rule))
    elif output is None:
        report.show_rule(rule, Console())


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
        bool, typer.Option("--list", help="List every described operator, its lines and its file.")
    ] = False,
    zoo_graphs: Annotated[
        bool,
        typer.Option("--zoo", help="With --coverage: check the operators of every zoo model too."),
    ] = False,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            help="Type of the next tensor argument, as 'float32[8, 3, 32, 32]'; - for an absent "
            "one. Repeat it for each argument, in the order of the schema.",
        ),
    ] = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option("--output", help="Type of an output, to be checked. Default: inferred."),
    ] = None,
    attrs: Annotated[
        list[str] | None,
        typer.Option(
            "--attr", help="An attribute as name=value, such as 'stride=(2, 2)'; may be repeated."
        ),
    ] = None,
    parts: Annotated[
        int, typer.Option(min=2, help="Show the regions that this many parts read.")
    ] = 2,
    as_json: AsJson = False,
) -> None:
    """Show an operator's description and every way to split it that follows from it.

    Without --input, an example call is shown. To see a call of your own:

    `graphwright describe aten.mm --input 'float32[4, 6]' --input 'float32[6, 8]'`
    """
    from graphwright import report

    given = dict(map(_attribute, attrs or []))
    shown: Coverage | Listing | OperatorReport
    if listing:
        shown = report.list_described()
    elif coverage:
        shown = report.count_described(_zoo_coverage() if zoo_graphs else ())
    elif zoo_graphs:
        raise typer.BadParameter("--zoo goes with --coverage")
    elif operator is None:
        raise typer.BadParameter("name an operator, or give --coverage or --list")
    elif inputs or outputs or given:
        known, types = _call_types(operator, given, inputs or [], outputs or [])
        shown = report.operator_report(operator, known, types, parts)
    else:
        shown = report.operator_report(operator, num_parts=parts)
    print_result(shown, as_json)


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
    inferred = infer_types(op, tensors, known)
    if outputs and inferred.outputs != given.outputs:
        raise InvalidCall(
            f"{op} makes {', '.join(map(str, inferred.outputs))} of these inputs, not "
            f"{', '.join(map(str, given.outputs))}; --output may be left out"
        )
    return known, inferred


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
