"""``graphwright zoo``: the models that can be named."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console

from graphwright.cli.app import AsJson, app


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
