"""``graphwright capture``: one training step as a graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from graphwright.cli.app import AsJson, BatchSize, Model, Small, app, check_output
from graphwright.cli.inputs import load_model

GRAPH_SUFFIXES = (".json", ".json.gz", ".txt")


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
    from graphwright.report import show, to_dict

    check_output(output, GRAPH_SUFFIXES)
    progress = Console(stderr=True)
    with progress.status(f"Capturing {model}"):
        graph = load_model(model, batch_size, small).capture()
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
        print(json.dumps(to_dict(graph), indent=2))
    elif text:
        print(ir.to_text(graph))
    elif output is None or verify:
        show(graph, title=f"{model}, one training step")
