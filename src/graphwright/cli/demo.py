"""``graphwright demo``: what there is to see, on a model that no single device could hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from graphwright.cli.app import app, check_output
from graphwright.cli.models import load_model


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
    check_output(output, (".svg",))
    console = Console(record=output is not None, width=110 if output is not None else None)
    workload = load_model(model, batch_size, small=False)
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
