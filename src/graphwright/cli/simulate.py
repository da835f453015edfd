"""``graphwright simulate``: how long a step would take on a cluster, and what it would hold in memory."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from graphwright.cli.app import (
    AsJson,
    BatchSize,
    ClusterName,
    ModelOrGraph,
    Small,
    app,
    check_output,
)
from graphwright.cli.inputs import Pick, load_graph, load_plan

TIMELINE_SUFFIXES = (".json", ".json.gz", ".png", ".svg")


class Baseline(StrEnum):
    """A strategy that needs no search."""

    DATA = "data"
    REPLICATE = "replicate"
    RANDOM = "random"
    LAYERS = "layers"


@app.command()
def simulate(
    model: ModelOrGraph,
    cluster: ClusterName = None,
    plan: Annotated[
        Path | None,
        typer.Option(help="A saved plan, or a frontier; without it --strategy makes one."),
    ] = None,
    pick: Pick = None,
    strategy: Annotated[
        Baseline | None,
        typer.Option(
            help="data: split the batch; replicate: everything everywhere; random: a random split of every operator; "
            "layers: whole layers, one device after the other. data if not given."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of a random strategy.")] = 0,
    batch_size: BatchSize = None,
    small: Small = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Save the timeline: .json or .json.gz for Perfetto (ui.perfetto.dev), .png or .svg as a picture.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate one training step on a cluster: its time, its critical path and the memory of every device.

    `graphwright simulate vgg16 --cluster dgx-h100 -o timeline.json`
    """
    if plan is not None and strategy is not None:
        raise typer.BadParameter("--plan and --strategy each say how to split; give one of them")
    if plan is None and cluster is None:
        raise typer.BadParameter("say on which machine, as in --cluster dgx-h100")
    if plan is None and pick is not None:
        raise typer.BadParameter("--pick chooses from a frontier; give it with --plan")
    check_output(output, TIMELINE_SUFFIXES)

    from graphwright.machine import cluster as find_cluster
    from graphwright.partition import baseline
    from graphwright.report import show, to_dict
    from graphwright.simulate import simulate as simulate_plan

    progress = Console(stderr=True)
    given = load_plan(plan, pick) if plan is not None else None
    on = find_cluster(cluster) if cluster is not None else given.cluster  # type: ignore[union-attr]
    with progress.status(f"Capturing {model}") as status:
        graph = load_graph(model, batch_size, small, given)
        if given is None:
            name = str(strategy or Baseline.DATA)
            status.update(f"Splitting it over {on.num_devices} devices: {name}")
            given = baseline(name, graph, on, seed)
        status.update(f"Simulating a step on {on.name}")
        timeline = simulate_plan(graph, given, on)
        if output is not None:
            status.update(f"Saving {output}")
            timeline.save(output)
    if output is not None:
        progress.print(f"saved {output}")
    if as_json:
        print(json.dumps(to_dict(timeline), indent=2))
    else:
        show(timeline, title=f"{model}, one training step")
