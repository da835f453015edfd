"""``graphwright swap``: how a step runs in less memory than it needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from graphwright.cli import outputs
from graphwright.cli.app import MACHINE, MAX_SEED, AsJson, BatchSize, ModelOrGraph, Small, app
from graphwright.cli.inputs import Pick, load_graph, load_plan, open_plans, size

if TYPE_CHECKING:
    from graphwright.run import RankSwaps, SwapPlan


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
    plan: Annotated[
        Path | None,
        typer.Option(
            help="A plan or a frontier saved by `graphwright plan -o`: each of its devices has "
            "--memory. Of a frontier that plan is taken which is then the fastest, or --pick."
        ),
    ] = None,
    pick: Pick = None,
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
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed of random searches.")] = 0,
    batch_size: BatchSize = None,
    small: Small = False,
    output: Annotated[
        Path | None,
        outputs.option(
            "Save the plan (.json); `gw.swap(graph, plan=...)` runs it; with --plan, `graphwright "
            "run --plan` and `gw.compile` do."
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the three streams, and memory over time (.png or .svg)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Plan a step for less memory than it needs: what waits in host memory, and when it moves.

    `graphwright swap alexnet --memory 1.2GB --cluster p3.2xlarge -o alexnet.memory.json`

    `graphwright swap gpt2 --plan gpt2.plans.json --memory 4GB -o gpt2.plan.json` does so under a
    plan for several devices.
    """
    outputs.check(output, outputs.PLANS)
    outputs.check(plot, outputs.PICTURES)
    room = None if memory is None else size(memory)
    if plan is not None:
        if cluster is not None:
            raise typer.BadParameter("--plan has a machine of its own; leave --cluster out")
        _swap_partition(model, room, plan, pick, batch_size, small, output, plot, as_json)
        return
    if pick is not None:
        raise typer.BadParameter("--pick chooses from a frontier; give it with --plan")
    from graphwright.run import swap as plan_swaps

    with Console(stderr=True).status(f"Capturing {model}") as status:
        graph = load_graph(model, batch_size, small)
        status.update(f"Planning {len(graph.nodes):,} operators (Ctrl-C takes the best so far)")
        names = tuple(name.strip() for name in search.split(","))
        found = plan_swaps(graph, room, cluster=cluster, search=names, budget=budget, seed=seed)
        if output is not None:
            found.save(output)
        if plot is not None:
            found.timeline.save(plot)
    outputs.say_saved(output, plot)
    if as_json:
        outputs.print_json(found.to_dict())
    else:
        _show(found, model)


def _swap_partition(
    model: str, memory: int | str | None, path: Path, pick: str | None, batch_size: int | None,
    small: bool, output: Path | None, plot: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """The same under a plan for several devices."""
    from graphwright.plans import Plan
    from graphwright.run import swap as plan_swaps

    given = load_plan(path, pick) if pick is not None else open_plans(path)
    with Console(stderr=True).status(f"Capturing {model}") as status:
        graph = load_graph(model, batch_size, small, given if isinstance(given, Plan) else given[0])
        status.update(f"Planning {len(graph.nodes):,} operators for every rank")
        found = plan_swaps(graph, memory, partition=given)
        if output is not None:
            found.plan.save(output)
        if plot is not None:
            found.timeline.save(plot)
    outputs.say_saved(output, plot)
    if as_json:
        outputs.print_json(found.to_dict())
    else:
        _show_ranks(found, model)


def _show_ranks(found: RankSwaps, model: str) -> None:
    from graphwright.ir import format_bytes
    from graphwright.plans import format_seconds
    from graphwright.report.tables import headed_plainly, number_column

    console = Console()
    title = f"{model}: one step in {format_bytes(found.capacity)} on each of {found.cluster.name}"
    columns = map(number_column, ("needs", "holds", "swaps out", "swaps in"))
    table = headed_plainly("rank", *columns, title=title)
    rows = zip(found.needs, found.plans, found.swapped, strict=True)
    for rank, (needs, plan, (out, back)) in enumerate(rows):
        table.add_row(str(rank), *map(format_bytes, (needs, plan.arena, out, back)))
    console.print(table)
    console.print(
        f"{format_seconds(found.time)} a step, {format_seconds(found.unlimited)} with memory for "
        f"everything; the largest operator needs {format_bytes(found.least)}",
        highlight=False,
    )


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
