"""``graphwright zoo`` and ``graphwright rules``: the models and substitutions that there are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from graphwright.cli import outputs
from graphwright.cli.app import AsJson, app
from graphwright.errors import InvalidOption


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
    from graphwright.rewrite.substitutions import shipped

    if number is None:
        if output is not None:
            raise typer.BadParameter("-o draws one rule: name its number")
        outputs.print_result(report.list_rules(shipped(), operator=operator, size=size), as_json)
        return
    outputs.check(output, outputs.PICTURES)
    library = shipped()
    if not 0 <= number < len(library):
        raise InvalidOption(f"there is no rule {number}; rules go from 0 to {len(library) - 1}")
    rule = library.rules[number]
    if output is not None:
        report.plot_rule(rule, output)
        outputs.say_saved(output)
    if as_json:
        outputs.print_json(report.rule_to_dict(rule))
    elif output is None:
        report.show_rule(rule, Console())
