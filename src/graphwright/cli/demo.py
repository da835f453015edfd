"""``graphwright demo``: the whole way, on a small model: plan it, draw the choices, train it on several processes, check the training."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from graphwright.cli.app import app, check_output
from graphwright.cli.inputs import load_model
from graphwright.cli.progress import progress

if TYPE_CHECKING:
    from graphwright.plans import Frontier


COMPARED = ("data", "zero", "megatron", "tofu")


@app.command()
def demo(
    model: Annotated[
        str, typer.Option(help="The model of the zoo, in its small configuration.")
    ] = "gpt2",
    workers: Annotated[int, typer.Option(min=1, help="Processes to train on.")] = 4,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Where to draw the choices (.png, .svg).")
    ] = Path("graphwright-demo.png"),
) -> None:
    """Plan a small model for four processes, draw the choices, train it on them, and compare with training on one device.

    It takes about a minute, and another one the first time, when the loops of the search are compiled.
    """
    if ":" in model or model.endswith(".py"):
        raise typer.BadParameter(f"the demo trains models of the zoo; `graphwright run {model}`")
    check_output(output, (".png", ".svg"))

    from graphwright.partition import plan
    from graphwright.pipeline import RunOptions, open_session
    from graphwright.report import plot

    console = Console(highlight=False, markup=False, soft_wrap=True)
    make, began = partial(load_model, model, None, True), perf_counter()
    with progress(False) as report:
        report(f"capturing {model}", 0, 0)
        graph = make("meta").capture()
        frontier = plan(graph, f"local:{workers}", baselines=COMPARED, report=report)
    plot(frontier, output)
    console.print(f"captured a training step of a small {model}: {len(graph.nodes):,} operators")
    console.print(
        f"planned it for {workers} processes in {perf_counter() - began:.1f} s: {_told(frontier)}"
    )
    console.print(f"drew the choices: {output}")
    options = RunOptions(workers=workers, plan=frontier.turning_point(), check=True, steps=5)
    outcome = open_session(make, options).run(console.print)
    for line in outcome.lines():
        console.print(line)
    console.print(f"all of it took {perf_counter() - began:.0f} s")
    if outcome.comparison is not None and not outcome.comparison.agrees:
        raise typer.Exit(1)


def _told(frontier: Frontier) -> str:
    """A frontier in one line."""
    from graphwright.ir import format_bytes
    from graphwright.plans import figures_of, format_seconds

    ends = [
        f"{format_seconds(figures_of(p).time)} with {format_bytes(figures_of(p).memory)}"
        for p in (frontier.smallest(), frontier.fastest())
    ]
    number = len(frontier)
    found = (
        f"{number} plan{'s' * (number != 1)} worth having, from {ends[0]} to {ends[1]} a process"
    )
    if "data" not in frontier.others:
        return found
    data = figures_of(frontier.others["data"])
    return f"{found}; data parallelism takes {format_seconds(data.time)} with {format_bytes(data.memory)}"
