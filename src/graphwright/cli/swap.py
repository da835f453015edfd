"""``graphwright swap``: how a step runs in less memory than it needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from graphwright.cli import outputs
from graphwright.cli.app import MACHINE, AsJson, BatchSize, ModelOrGraph, Small, app
from graphwright.cli.inputs import load_graph

if TYPE_CHECKING:
    from graphwright.run import SwapPlan


@app.command()
def swap(
    model: ModelOrGraph,
    memory: Annotated[
        str | None,
        typer.Option(help="Memory of the device, as `16GB`. Default: all that it has."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(help=f"{MACHINE} Its first device counts. Default: this computer."),
    ] = None,
    search: Annotated[
        str,
        typer.Option(
            help="Which searches to try, with commas: lru, belady, greedy, random, genetic (any "
            "offset), pools (size classes, as SwapAdvisor). The best plan is taken."
        ),
    ] = "lru,belady,greedy,random,genetic,pools",
    budget: Annotated[
        float, typer.Option(min=0, help="Seconds for random, genetic and pools together.")
    ] = 10.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of random searches.")] = 0,
    batch_size: BatchSize = None,
    small: Small = False,
    output: Annotated[
        Path | None, outputs.option("Save the plan (.json); `gw.swap(graph, plan=...)` runs it.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the three streams, and memory over time (.png or .svg)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Plan a step for less memory than it needs: what waits in host memory, and when it moves.

    `graphwright swap alexnet --memory 1.2GB --cluster p3.2xlarge -o alexnet.memory.json`
    """
    outputs.check(output, outputs.PLANS)
    outputs.check(plot, outputs.PICTURES)
    from graphwright.run import swap as plan_swaps

    with Console(stderr=True).status(f"Capturing {model}") as status:
        graph = load_graph(model, batch_size, small)
        status.update(f"Planning {len(graph.nodes):,} operators (Ctrl-C takes the best so far)")
        names = tuple(name.strip() for name in search.split(","))
        found = plan_swaps(graph, memory, cluster=cluster, search=names, budget=budget, seed=seed)
        if output is not None:
            found.save(output)
        if plot is not None:
            found.timeline.save(plot)
    outputs.say_saved(output, plot)
    if as_json:
        outputs.print_json(found.to_dict())
    else:
        _show(found, model)


def _show(found: SwapPlan, model: str) -> None:
    from graphwright.ir import format_bytes
    from graphwright.plans import format_seconds
    from graphwright.report.tables import headed_plainly, number_column

    console = Console()
    plan, (out, back) = found.plan, map(format_bytes, found.swapped)
    needs, least = format_bytes(found.needs), format_bytes(found.least)
    if not any(found.swapped):
        console.print(
            f"{model}: one step takes {format_seconds(found.time)} on {found.cluster.name} and "
            f"fits into {format_bytes(plan.arena)}. There are {format_bytes(plan.capacity)}: "
            f"nothing has to be swapped. With less --memory, down to {least} for the largest "
            "operator, there is a plan that swaps",
            highlight=False,
        )
        return
    title = f"{model}: one step in {format_bytes(plan.capacity)} on {found.cluster.name}"
    table = headed_plainly(
        "search", *map(number_column, ("time", "of the speed with unlimited memory")), title=title
    )
    for name, time in sorted(found.times.items(), key=lambda item: item[1]):
        if time < float("inf"):
            table.add_row(name, format_seconds(time), f"{found.unlimited / time:.1%}")
        else:
            table.add_row(name, "-", "no plan")
    console.print(table)
    console.print(
        f"needs {needs} at once without swapping, {least} for its largest operator; the plan "
        f"({plan.algorithm}) holds {format_bytes(plan.arena)}, swaps {out} out and {back} in",
        highlight=False,
    )
    if found.interrupted:
        console.print("[yellow]interrupted: the best plan so far[/]")
