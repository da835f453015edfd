"""``graphwright zoo``: the models that can be named."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from graphwright.cli import outputs
from graphwright.cli.app import AsJson, app


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
