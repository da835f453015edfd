"""``graphwright demo``: measure, predict, train beside DistributedDataParallel, and check."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from graphwright.cli import outputs
from graphwright.cli.app import AsJson, app
from graphwright.cli.inputs import load_model

if TYPE_CHECKING:
    from graphwright.pipeline import Demonstration, Prediction
    from graphwright.zoo import Workload

TABLES, ROWS = 6, 80_000
LEVEL = 1.05
"""Ratios below this are no difference."""
NEXT = """try next:
  graphwright run gpt2 --small --workers 2 --check      the same check, for any model
  graphwright plan vgg16 --cluster dgx-h100             plans for a machine that you do not have
  graphwright plan FILE.py:FUNCTION --cluster local:2   plans for a model of your own"""


@app.command()
def demo(
    model: Annotated[
        str | None,
        typer.Option(
            help="Another model to train: one of the zoo, in its small configuration. Default: a "
            "recommender (DLRM) of 31 million parameters."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=2, help="How many processes to train on.")] = 2,
    output: Annotated[
        Path, outputs.option("Where to draw time against memory (.png, .svg).")
    ] = Path("graphwright-demo.png"),
    as_json: AsJson = False,
) -> None:
    """Train a recommender beside DistributedDataParallel: measure, predict, run, check.

    The demo times the transfers and operators that plans need here, predicts every plan's step,
    draws time against memory, and then trains with the fastest plan and with PyTorch's
    DistributedDataParallel in turns. Last it compares every tensor with training on one device. It
    takes one to two minutes; the first time, that includes compiling the search. Where the plan is
    not faster, it says so.
    """
    if model is not None and (":" in model or model.endswith(".py")):
        raise typer.BadParameter(
            f"the demo trains models of the zoo; for your own: `graphwright run {model}`"
        )
    outputs.check(output, outputs.PICTURES)

    from graphwright.pipeline import demonstrate, predict
    from graphwright.report import plot
    from graphwright.run import check_workers

    check_workers(workers)
    console = Console(stderr=as_json, highlight=False, markup=False, soft_wrap=True)
    make = recommender if model is None else partial(load_model, model, None, True)
    name = "a recommender (DLRM)" if model is None else f"a small {model}"
    began = perf_counter()
    with outputs.progress(as_json) as report:
        prediction = predict(make, workers, report=report)
    plot(prediction.frontier, output)
    if not as_json:
        console.print("\n".join(_predicted(prediction, name, output)))
    with outputs.progress(as_json) as report:
        shown = demonstrate(prediction, report=report)
    if as_json:
        outputs.print_json({**shown.to_dict(), "picture": str(output)})
    else:
        console.print(_table(shown))
        console.print("\n".join(_measured(shown)))
        console.print(f"all of it took {perf_counter() - began:.0f} s\n\n{NEXT}")
    assert shown.check.comparison is not None
    if not shown.check.comparison.agrees:
        raise typer.Exit(1)


def recommender(device: str) -> Workload:
    """The model of the demo: tables of embeddings, which data parallelism sends around whole."""
    from graphwright import zoo

    return zoo.dlrm(TABLES, rows=ROWS, device=device)


def _predicted(prediction: Prediction, name: str, output: Path) -> list[str]:
    """What was measured and planned before anything ran."""
    from graphwright.ir import format_bytes
    from graphwright.plans import Plan, figures_of, format_seconds

    def taken(plan: Plan) -> str:
        figures = figures_of(plan)
        return f"{format_seconds(figures.time)} with {format_bytes(figures.memory)}"

    frontier, measured = prediction.frontier, prediction.measured
    noun = "plan" if len(frontier) == 1 else "plans"
    return [
        f"captured a training step of {name}: {prediction.num_parameters:,} parameters, "
        f"{len(prediction.graph.nodes):,} operators",
        f"measured here: {measured.num_links} transfers between {prediction.num_workers} "
        f"processes, {measured.num_calls} calls of operators",
        f"planned by that: {len(frontier)} {noun} worth having, from {taken(frontier.smallest())} "
        f"to {taken(frontier.fastest())} per process, give or take {measured.sure:.0%}",
        f"drew the choices: {output}",
    ]


def _table(shown: Demonstration) -> Table:
    """Prediction beside measurement, and the ratio to DistributedDataParallel."""
    from graphwright.ir import format_bytes
    from graphwright.plans import format_seconds
    from graphwright.run import DDP

    title = f"A training step on {shown.prediction.num_workers} processes, timed in turns"
    table = Table(title=title, box=SIMPLE, show_edge=False, title_justify="left")
    table.add_column("")
    for heading in ("predicted", "measured", "25-75%, ms", "off", "memory", "speed"):
        table.add_column(heading, justify="right", no_wrap=True)
    base = next((way.measured for way in shown.ways if way.name == DDP), None)
    for way in shown.ways:
        low, high = (1e3 * seconds for seconds in way.quartiles)
        table.add_row(
            "DDP (PyTorch)" if way.name == DDP else way.name,
            "" if way.predicted is None else format_seconds(way.predicted),
            format_seconds(way.measured),
            f"{low:.3g}-{high:.3g}",
            "" if way.error is None else f"{way.error:+.0%}",
            "" if way.memory is None else format_bytes(way.memory),
            "" if base is None else f"{base / way.measured:.2f}x",
        )
    return table


def _measured(shown: Demonstration) -> list[str]:
    """What the table says, in words."""
    from graphwright.plans import format_seconds

    lines, speedup, found = list(shown.notes), shown.speedup, shown.found
    if speedup is not None:
        lines.append(
            f"the plan found is {speedup:.1f} times as fast as DistributedDataParallel here"
            if speedup > LEVEL
            else f"the plan found is NOT faster than DistributedDataParallel here ({speedup:.2f}x)"
        )
    if shown.is_busy:
        lines.append(
            f"other programs had the cores for {found.waited:.0%} of the time, which no prediction "
            f"knows of: without that, a step of the plan takes about "
            f"{format_seconds(found.unhindered)}"
        )
    assert shown.check.verdict is not None
    return [*lines, shown.check.verdict]
