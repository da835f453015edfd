"""``graphwright serve-sim``: several models on one GPU, and what requests to them wait."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console

from graphwright.cli import outputs
from graphwright.cli.app import MACHINE, MAX_SEED, AsJson, BatchSize, Model, Small, app
from graphwright.cli.inputs import load_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphwright.ir import Graph
    from graphwright.pipeline import Serving

N = TypeVar("N", int, float)


@app.command("serve-sim")
def serve_sim(
    model: Model,
    memory: Annotated[
        str, typer.Option(help="Memory of the GPU that all models have together, as `3GB`.")
    ],
    models: Annotated[
        str, typer.Option(help="How many copies of the model to serve, with commas.")
    ] = "4,16",
    cluster: Annotated[
        str | None,
        typer.Option(help=f"{MACHINE} Its first device counts. Default: this computer."),
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option(
            help="Requests (batches) per second, with commas. Default: from a tenth to 95% of what "
            "the GPU can do for one model."
        ),
    ] = None,
    requests: Annotated[
        int, typer.Option(min=100, help="Simulate so many requests at each rate.")
    ] = 20_000,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed of the requests.")] = 0,
    batch_size: BatchSize = None,
    small: Small = False,
    output: Annotated[
        Path | None, outputs.option("Save the picture (.png, .svg) or the figures (.json).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate one GPU that serves several models: latency against throughput.

    `graphwright serve-sim resnet152 --batch-size 16 --memory 3GB --cluster p3.2xlarge -o out.png`

    Requests come at random (Poisson), each for one of the models. partitioned: every model has its
    part of the memory and swaps in it by a memory plan. shared: the model that is served has all of
    the memory, the next one is loaded first. cached: as many models stay as there is room for.
    alone: one model. All get the same requests.
    """
    outputs.check(output, (*outputs.PICTURES, ".json"))
    counts = tuple(_numbers(models, "--models", int))
    wanted = tuple(_numbers(rates, "--rates", float)) if rates else ()
    from graphwright.pipeline import serve_models

    with Console(stderr=True).status(f"Capturing {model}") as status:
        graph = _inference_graph(model, batch_size, small)
        status.update(f"Planning {len(graph.nodes):,} operators")
        found = serve_models(
            graph,
            memory,
            models=counts,
            cluster=cluster,
            rates=wanted,
            requests=requests,
            seed=seed,
        )
    if output is not None:
        _save(found, output, model)
    outputs.say_saved(output)
    if as_json:
        outputs.print_json(found.to_dict())
    else:
        _show(found, model)


def _numbers(text: str, option: str, kind: Callable[[str], N]) -> list[N]:
    try:
        return [kind(word) for word in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"{option} {text!r}: give numbers with commas, as in {option} 4,16"
        ) from None


def _inference_graph(name: str, batch_size: int | None, small: bool) -> Graph:
    from graphwright.aten import split_batch
    from graphwright.capture import capture

    workload = load_model(name, batch_size, small)
    inputs, _ = split_batch(workload.batch, has_targets=workload.loss_fn is not None)
    return capture(workload.model.eval(), inputs=inputs)


def _save(found: Serving, path: Path, model: str) -> None:
    from graphwright import report
    from graphwright.ir import format_bytes

    if path.suffix == ".json":
        outputs.save_json(found.to_dict(), path)
        return
    curves = {
        (server.name, server.num_models): row
        for server, row in zip(found.servers, found.served, strict=True)
    }
    report.plot_serving(
        curves,
        path,
        samples=found.samples,
        title=f"{model}: several models in {format_bytes(found.memory)}",
        caption=f"{found.cluster} · {found.samples} samples in a request · seed {found.seed}",
    )


def _show(found: Serving, model: str) -> None:
    from graphwright.ir import format_bytes
    from graphwright.plans import format_seconds
    from graphwright.report.tables import headed_plainly, number_column

    console = Console()
    title = (
        f"{model} on {found.cluster}, {format_bytes(found.memory)} for all models: 99th percentile "
        f"of latency by samples per second ({found.samples} in a request)"
    )
    labels = [server.label.replace(" ", "\n") for server in found.servers]
    table = headed_plainly("", *map(number_column, labels), title=title)
    table.add_row("a batch", *(format_seconds(server.seconds) for server in found.servers))
    loads = (format_seconds(server.load) if server.load else "-" for server in found.servers)
    table.add_row("loading", *loads)
    for row in zip(*found.served, strict=True):
        cells = ("-" if one.saturated else format_seconds(one.p99) for one in row)
        table.add_row(f"{row[0].rate * found.samples:.4g}/s", *cells)
    console.print(table)
    console.print(
        f"parameters of a model: {format_bytes(found.weights)}; -: more than it can serve",
        highlight=False,
    )
    for count, why in found.refused.items():
        console.print(f"[yellow]{count} models have no plan:[/] {why}", highlight=False)
