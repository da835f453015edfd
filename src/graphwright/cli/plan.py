"""``graphwright plan`` and ``graphwright profile``: how to split a model over machines, and how
many."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from graphwright.cli.app import AsJson, BatchSize, ModelOrGraph, Small, app, check_output
from graphwright.cli.inputs import NamesInHelp, load_graph, size
from graphwright.cli.progress import progress
from graphwright.errors import InvalidOption

if TYPE_CHECKING:
    from graphwright.ir import Graph
    from graphwright.machine import Cluster
    from graphwright.partition import Search
    from graphwright.plans import Frontier, Plan

PLAN_SUFFIXES = (".json", ".json.gz")
PICTURE_SUFFIXES = (".png", ".svg")


class Objective(StrEnum):
    """What is wanted of a plan."""

    FRONTIER = "frontier"
    TIME = "time"
    MEMORY = "memory"
    BYTES = "bytes"
    DEVICES = "devices"


OnCluster = Annotated[
    str,
    typer.Option(
        help="The machine: a preset (`dgx-h100`, `dgx-h100:4` for four of them), `local:4`, or a "
        ".toml file; `graphwright doctor` lists the presets."
    ),
]
Algorithm = Annotated[
    str,
    typer.Option(help="How to search: {algorithms}."),
]
Memory = Annotated[
    str | None,
    typer.Option(
        help="What a plan may take of every device, as `14.5GB` or `16GiB`; what the device has, "
        "over --margin, if not given."
    ),
]
Margin = Annotated[
    float | None,
    typer.Option(
        help="Leave headroom: a device must have this many times the predicted memory; 1.1 if not "
        "given."
    ),
]
Points = Annotated[
    int | None, typer.Option(help="How many plans of the estimated frontier are simulated.")
]
Baselines = Annotated[
    str | None,
    typer.Option(
        help="What to compare with, as `data,zero`: {recipes}, any of the other systems, `all`, or "
        "`none`."
    ),
]
Budget = Annotated[float | None, typer.Option(help="Seconds after which the best so far is taken.")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed of the search.")]
BatchDim = Annotated[
    int | None,
    typer.Option(min=0, help="The dim of the data that runs over samples; 1 where time is first."),
]
Plot = Annotated[Path | None, typer.Option(help="Draw a picture (.png, .svg).")]


@app.command(cls=NamesInHelp)
def plan(
    model: ModelOrGraph,
    cluster: OnCluster,
    objective: Annotated[
        Objective,
        typer.Option(
            help="frontier: every worthwhile trade-off; time: the fastest plan that fits; memory: the "
            "smallest; bytes: the one that moves least; devices: the fastest on the fewest devices "
            "that it fits on."
        ),
    ] = Objective.FRONTIER,
    algorithm: Algorithm = "frontier",
    memory: Memory = None,
    margin: Margin = None,
    points: Points = None,
    baselines: Baselines = None,
    budget: Budget = None,
    seed: Seed = 0,
    batch_size: BatchSize = None,
    batch_dim: BatchDim = None,
    small: Small = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Save the frontier, or the plan (.json, .json.gz)."),
    ] = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Work out how to run a model on a cluster: every worthwhile trade-off between time and memory.

    `graphwright plan gpt2 --cluster dgx-h100 -o gpt2.plans.json --plot gpt2.png`

    `graphwright plan vgg16 --cluster v100-2x8 --objective time --memory 14.5GB -o vgg16.plan.json`

    `graphwright explain gpt2.plans.json gpt2 --pick fastest` then says why, and `graphwright
    simulate gpt2 --plan ...` draws the step.
    """
    check_output(output, PLAN_SUFFIXES)
    check_output(plot, PICTURE_SUFFIXES)
    options = _search(
        algorithm=algorithm, memory=memory, margin=margin, points=points, baselines=baselines,
        budget=budget, seed=seed, batch_dim=batch_dim,
    )  # fmt: skip
    how, on = _check(options), _cluster(cluster)

    from graphwright.partition import plan as make_plan

    with progress(as_json) as tell:
        tell(f"capturing {model}", 0, 0)
        graph = load_graph(model, batch_size, small)
        result: Frontier | Plan = make_plan(  # type: ignore[call-overload]
            graph, on, objective=str(objective), report=tell, **options
        )
    if memory is not None:
        _check_limit(graph, result, how)
    if output is not None:
        result.save(output)
    if plot is not None:
        _draw(result, graph, plot)
    for path in (output, plot):
        if path is not None:
            Console(stderr=True).print(f"saved {path}")
    _show(result, model, how, as_json)


def _show(result: Frontier | Plan, model: str, how: Search, as_json: bool) -> None:
    from graphwright import report
    from graphwright.partition import memory_limit
    from graphwright.plans import Frontier

    if isinstance(result, Frontier):
        title, limit = model, memory_limit(result.plans[0].cluster, how)
    else:
        title, limit = f"{model}, one training step", None
    if as_json:
        print(json.dumps(report.to_dict(result, limit=limit), indent=2))
    else:
        report.show(result, title=title, limit=limit)


def _draw(result: Frontier | Plan, graph: Graph, path: Path) -> None:
    """A frontier as time against memory, a plan as who has what."""
    from graphwright.plans import Plan
    from graphwright.report import plot

    if isinstance(result, Plan):
        plot((graph, result), path)
    else:
        plot(result, path)


def _check_limit(graph: Graph, result: Frontier | Plan, how: Search) -> None:
    """Refuse a limit that was asked for and that nothing keeps to, whatever the objective."""
    from graphwright.partition import largest_tensors, memory_limit
    from graphwright.plans import Plan, does_not_fit, figures_of

    smallest = result if isinstance(result, Plan) else result.smallest()
    limit = memory_limit(smallest.cluster, how)
    if figures_of(smallest).memory > limit:
        raise does_not_fit(limit, smallest, largest_tensors(graph))


@app.command(cls=NamesInHelp)
def profile(
    model: ModelOrGraph,
    cluster: OnCluster,
    devices: Annotated[
        str | None,
        typer.Option(
            help="Numbers of devices, as `1,2,4,8` or `1-16`; all that the cluster can have if not "
            "given. It may be more than the preset has."
        ),
    ] = None,
    algorithm: Algorithm = "frontier",
    memory: Memory = None,
    margin: Margin = None,
    points: Points = None,
    baselines: Baselines = None,
    budget: Budget = None,
    seed: Seed = 0,
    batch_size: BatchSize = None,
    batch_dim: BatchDim = None,
    small: Small = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Save the table (.json).")
    ] = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Find the least time of a step for each number of devices: how many are worth renting.

    `graphwright profile gpt2 --cluster dgx-h100:8 --devices 1,2,4,8,16,32,64 --plot
    gpt2-devices.png`

    A number that the cluster cannot have, such as 11 with 8 to a node, is left out. With a price in
    the cluster's file each step has a cost.
    """
    check_output(output, (".json",))
    check_output(plot, PICTURE_SUFFIXES)
    counts = None if devices is None else _counts(devices)
    options = _search(
        algorithm=algorithm, memory=memory, margin=margin, points=points, baselines=baselines,
        budget=budget, seed=seed, batch_dim=batch_dim,
    )  # fmt: skip
    _check(options)
    on = _cluster(cluster)

    from graphwright import report
    from graphwright.ir import write_atomically
    from graphwright.partition import profile as make_profile

    with progress(as_json) as tell:
        tell(f"capturing {model}", 0, 0)
        graph = load_graph(model, batch_size, small)
        result = make_profile(graph, on, devices=counts, report=tell, **options)
    left_out = sorted(set(counts or ()) - {row.num_devices for row in result})
    if left_out:
        some = ", ".join(map(str, left_out[:8])) + (", ..." if len(left_out) > 8 else "")
        Console(stderr=True).print(f"left out, as {on.name} cannot have so many devices: {some}")
    data = report.to_dict(result)
    if output is not None:
        write_atomically(output, (json.dumps(data, indent=2) + "\n").encode())
    if plot is not None:
        report.plot(result, plot)
    for path in (output, plot):
        if path is not None:
            Console(stderr=True).print(f"saved {path}")
    if as_json:
        print(json.dumps(data, indent=2))
    else:
        report.show(result, title=model)


# -- options ---------------------------------------------------------------------------------------


def _search(**given: Any) -> dict[str, Any]:
    """The fields of a search that were given."""
    options = {name: value for name, value in given.items() if value is not None}
    if "baselines" in options:
        options["baselines"] = _baselines(options["baselines"])
    if "memory" in options:
        options["memory"] = size(options["memory"])
    return options


def _baselines(text: str) -> tuple[str, ...]:
    from graphwright.partition import RECIPES, SYSTEMS

    words = [word.strip() for word in text.split(",") if word.strip()]
    if words == ["all"]:
        return (*RECIPES, *SYSTEMS)
    if words == ["none"]:
        return ()
    if not words:
        raise InvalidOption("--baselines is empty; write `none` to compare with nothing")
    return tuple(dict.fromkeys(words))


def _check(options: dict[str, Any]) -> Search:
    """The search; refused before the capture, which may take a while."""
    from graphwright.partition import Search

    return Search(**options)


def _cluster(name: str) -> Cluster:
    from graphwright.machine import cluster

    return cluster(name)


MOST = 4096
"""Numbers of devices that one profile may have."""


def _counts(text: str) -> list[int]:
    """Numbers of devices from `1,2,4` and `1-16`."""
    counts: list[int] = []
    for word in text.split(","):
        first, dash, last = (part.strip() for part in word.partition("-"))
        ends = (first, last) if dash else (first, first)
        if not all(end.isdecimal() and len(end) < 8 for end in ends):
            raise InvalidOption(
                f"--devices {text}: {word.strip()!r} is no number of devices; write 1,2,4,8 or 1-16"
            )
        low, high = map(int, ends)
        if not 1 <= low <= high:
            raise InvalidOption(
                f"--devices {text}: {word.strip()!r} has to go upwards from 1 or more"
            )
        if high - low >= MOST:
            raise InvalidOption(
                f"--devices {text}: {high - low + 1:,} sizes are too many; at most {MOST:,}"
            )
        counts += range(low, high + 1)
    return list(dict.fromkeys(counts))
