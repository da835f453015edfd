"""``graphwright capture``: one training step as a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from graphwright.cli import outputs
from graphwright.cli.app import AsJson, BatchSize, Model, Small, app
from graphwright.cli.inputs import load_model


@app.command()
def capture(
    model: Model,
    batch_size: BatchSize = None,
    small: Small = False,
    output: Annotated[
        Path | None, outputs.option("Save the graph: .json, .json.gz, or .txt for the text form.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check the graph's invariants.")] = False,
    text: Annotated[bool, typer.Option("--text", help="Print the graph as a program.")] = False,
    as_json: AsJson = False,
) -> None:
    """Capture one training step as a graph: forward pass, backward pass and update.

    The model runs on fake tensors, so nothing is computed or allocated.
    """
    from graphwright import ir

    outputs.check(output, (".json", ".json.gz", ".txt"))
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
        outputs.say_saved(output)
    if text and not as_json:
        print(ir.to_text(graph))
    elif as_json or output is None or verify:
        outputs.print_result(graph, as_json, title=f"{model}, one training step")
