"""``graphwright simulate``: how long a step would take on a cluster, and what it would hold."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from graphwright.cli import outputs
from graphwright.cli.app import (
    MACHINE,
    MAX_SEED,
    AsJson,
    BatchSize,
    Compiled,
    ModelOrGraph,
    Price,
    Small,
    app,
)
from graphwright.cli.inputs import Pick, load_graph, load_plan

if TYPE_CHECKING:
    from graphwright.ir import Graph
    from graphwright.plans import Plan
    from graphwright.simulate import Timeline


class Baseline(StrEnum):
    """A strategy that needs no search."""

    DATA = "data"
    REPLICATE = "replicate"
    RANDOM = "random"
    LAYERS = "layers"


@app.command()
def simulate(
    model: ModelOrGraph,
    cluster: Annotated[
        str | None, typer.Option(help=f"{MACHINE} Default: the machine of --plan.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(help="A plan or a frontier saved by `graphwright plan -o`."),
    ] = None,
    pick: Pick = None,
    strategy: Annotated[
        Baseline | None,
        typer.Option(
            help="Without --plan, how to split. data: the batch over all devices; replicate: every "
            "device does everything; random: a random split of every operator; layers: whole "
            "layers, one device after the other. Default: data."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed of --strategy random.")] = 0,
    batch_size: BatchSize = None,
    small: Small = False,
    compiled: Compiled = False,
    price: Price = None,
    output: Annotated[
        Path | None,
        outputs.option(
            "Save the timeline: .json or .json.gz opens in Perfetto (ui.perfetto.dev), .png or "
            ".svg is a picture."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate one training step on a cluster: its time, its critical path, each device's memory.

    `graphwright simulate vgg16 --cluster dgx-h100 -o timeline.json`
    """
    if plan is not None and strategy is not None:
        raise typer.BadParameter("--plan and --strategy each say how to split; give one of them")
    if plan is None and cluster is None:
        raise typer.BadParameter("say on which machine, as in --cluster dgx-h100")
    if plan is None and pick is not None:
        raise typer.BadParameter("--pick chooses from a frontier; give it with --plan")
    outputs.check(output, (*outputs.PLANS, *outputs.PICTURES))

    from graphwright.machine import cluster as find_cluster
    from graphwright.partition import baseline
    from graphwright.simulate import simulate as simulate_plan

    given = load_plan(plan, pick) if plan is not None else None
    on = find_cluster(cluster) if cluster is not None else given.cluster  # type: ignore[union-attr]
    on = on if price is None else replace(on, price=price)
    with Console(stderr=True).status(f"Capturing {model}") as status:
        graph = load_graph(model, batch_size, small, given)
        if given is None:
            name = str(strategy or Baseline.DATA)
            status.update(f"Splitting it over {on.num_devices} devices: {name}")
            given = baseline(name, graph, on, seed)
        status.update(f"Simulating a step on {on.name}")
        if given.memory is None:
            timeline = simulate_plan(graph, given, on, compiled=compiled)
        else:
            timeline = _simulate_swaps(graph, replace(given, cluster=on), compiled)
        if output is not None:
            status.update(f"Saving {output}")
            timeline.save(output)
    outputs.say_saved(output)
    outputs.print_result(timeline, as_json, title=f"{model}, one training step")


def _simulate_swaps(graph: Graph, plan: Plan, compiled: bool) -> Timeline:
    """A step under a plan that runs in less memory than it needs."""
    from graphwright.run import swap

    if compiled:
        raise typer.BadParameter("--compiled joins operators between which the plan swaps")
    return swap(graph, partition=plan).timeline
