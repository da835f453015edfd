"""``graphwright demo``: plan a small model, draw the choices, train it on several processes, and
check the training.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from graphwright.cli import outputs
from graphwright.cli.app import AsJson, app
from graphwright.cli.inputs import load_model

if TYPE_CHECKING:
    from graphwright.plans import Frontier


COMPARED = ("data", "zero", "megatron", "tofu")


@app.command()
def demo(
    model: Annotated[
        str, typer.Option(help="The zoo model to train, in its small configuration.")
    ] = "gpt2",
    workers: Annotated[int, typer.Option(min=1, help="How many processes to train on.")] = 4,
    output: Annotated[
        Path, outputs.option("Where to draw time against memory (.png, .svg).")
    ] = Path("graphwright-demo.png"),
    as_json: AsJson = False,
) -> None:
    """Plan a small model for four processes, draw the choices, train it, and check the training.

    The check compares every tensor with training on one device. The demo takes about a minute; the
    first time another minute, to compile the inner loops of the search.
    """
    if ":" in model or model.endswith(".py"):
        raise typer.BadParameter(
            f"the demo trains models of the zoo; for your own: `graphwright run {model}`"
        )
    outputs.check(output, outputs.PICTURES)

    from graphwright.partition import plan
    from graphwright.pipeline import RunOptions, open_session
    from graphwright.report import plot, to_dict
    from graphwright.run import check_workers

    check_workers(workers)
    console = Console(stderr=as_json, highlight=False, markup=False, soft_wrap=True)
    make, began = partial(load_model, model, None, True), perf_counter()
    with outputs.progress(as_json) as report:
        report(f"capturing {model}", 0, 0)
        graph = make("meta").capture()
        frontier = plan(graph, f"local:{workers}", baselines=COMPARED, report=report)
    plot(frontier, output)
    console.print(f"captured a training step of a small {model}: {len(graph.nodes):,} operators")
    console.print(
        f"planned it for {workers} processes in {perf_counter() - began:.1f} s: {_told(frontier)}"
    )
    console.print(f"drew the choices: {output}")
    options = RunOptions(
        workers=workers, plan=frontier.turning_point(), check=True, steps=5, quiet=as_json
    )
    outcome = open_session(make, options).run(console.print)
    for line in outcome.lines():
        console.print(line)
    taken = perf_counter() - began
    console.print(f"all of it took {taken:.0f} s")
    if as_json:
        about = {"model": model, "operators": len(graph.nodes), "picture": str(output)}
        done = {"frontier": to_dict(frontier), "run": outcome.to_dict(), "seconds": taken}
        outputs.print_json(about | done)
    if outcome.comparison is not None and not outcome.comparison.agrees:
        raise typer.Exit(1)


def _told(frontier: Frontier) -> str:
    """A frontier in one line."""
    from graphwright.ir import format_bytes
    from graphwright.plans import Plan, figures_of, format_seconds

    def taken(plan: Plan) -> str:
        figures = figures_of(plan)
        return f"{format_seconds(figures.time)} with {format_bytes(figures.memory)}"

    noun = "plan" if len(frontier) == 1 else "plans"
    line = (
        f"{len(frontier)} {noun} worth having, from {taken(frontier.smallest())} "
        f"to {taken(frontier.fastest())} per process"
    )
    if "data" not in frontier.others:
        return line
    return f"{line}; data parallelism takes {taken(frontier.others['data'])}"
