"""``graphwright plan`` and ``graphwright profile``: how to split a model over machines, and how
many.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from graphwright.cli import outputs
from graphwright.cli.app import (
    MAX_SEED,
    AsJson,
    BatchSize,
    Cluster,
    Compiled,
    ModelOrGraph,
    Price,
    Small,
    app,
)
from graphwright.cli.inputs import NamesInHelp, load_graph, size
from graphwright.errors import InvalidOption

if TYPE_CHECKING:
    from graphwright.ir import Graph
    from graphwright.partition import Search
    from graphwright.plans import Frontier, Plan


class Objective(StrEnum):
    """What is wanted of a plan."""

    FRONTIER = "frontier"
    TIME = "time"
    MEMORY = "memory"
    BYTES = "bytes"
    DEVICES = "devices"


Algorithm = Annotated[str, typer.Option(help="How to search: {algorithms}.")]
Memory = Annotated[
    str | None,
    typer.Option(
        help="The most memory a plan may need on any device, as `14.5GB` or `16GiB`. Default: the "
        "device's own memory divided by --margin."
    ),
]
Margin = Annotated[
    float | None,
    typer.Option(
        help="Headroom: a device must have this many times the predicted memory. Default: 1.1."
    ),
]
Points = Annotated[
    int | None,
    typer.Option(help="How many plans to simulate, of those that the estimate considers best."),
]
Baselines = Annotated[
    str | None,
    typer.Option(
        help="Plans to compare with, separated by commas: {recipes}, {systems}; or `all`, `none`."
    ),
]
Budget = Annotated[
    float | None, typer.Option(help="Stop searching after this many seconds, with the best so far.")
]
Seed = Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Random seed of the search.")]
BatchDim = Annotated[
    int | None,
    typer.Option(
        min=0, help="Which dim of the inputs is the batch. Default: 0; 1 if time is first."
    ),
]
Plot = Annotated[Path | None, typer.Option(help="Draw a picture (.png, .svg).")]


@app.command(cls=NamesInHelp)
def plan(
    model: ModelOrGraph,
    cluster: Cluster,
    objective: Annotated[
        Objective,
        typer.Option(
            help="frontier: every worthwhile trade-off; time: the fastest plan that fits; memory: "
            "the plan that needs least; bytes: the one that moves least between devices; devices: "
            "the fastest plan on the fewest devices that suffice."
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
    compiled: Compiled = False,
    price: Price = None,
    output: Annotated[
        Path | None, outputs.option("Save the frontier, or the plan (.json, .json.gz).")
    ] = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Work out how to run a model on a cluster: every worthwhile trade-off between time and memory.

    `graphwright plan gpt2 --cluster dgx-h100 -o gpt2.plans.json --plot gpt2.png`

    `graphwright plan vgg16 --cluster v100-2x8 --objective time --memory 14.5GB -o vgg16.plan.json`

    Then `graphwright explain gpt2.plans.json gpt2 --pick fastest` says why, and `graphwright
    simulate gpt2 --plan gpt2.plans.json --pick fastest` shows the step.
    """
    outputs.check(output, outputs.PLANS)
    outputs.check(plot, outputs.PICTURES)
    options = _options(
        algorithm=algorithm, memory=memory, margin=margin, points=points, baselines=baselines,
        budget=budget, seed=seed, batch_dim=batch_dim,
    )  # fmt: skip

    from graphwright.machine import cluster as find_cluster
    from graphwright.machine import measures_itself
    from graphwright.partition import Search, memory_limit
    from graphwright.partition import plan as make_plan
    from graphwright.plans import Frontier

    # What is wrong with the options is said before the capture, which may take a while.
    search, on = Search(**options), find_cluster(cluster)
    on = on if price is None else replace(on, price=price)
    with outputs.progress(as_json) as tell:
        tell(f"capturing {model}", 0, 0)
        graph = load_graph(model, batch_size, small)

        def find() -> Frontier | Plan:
            return make_plan(  # type: ignore[no-any-return, call-overload]
                graph, on, objective=str(objective), compiled=compiled, report=tell, **options
            )

        result: Frontier | Plan
        if measures_itself(on):
            from graphwright.pipeline import plan_here

            result = plan_here(find, graph, on, tell)
        else:
            result = find()
    if memory is not None:
        _check_limit(graph, result, search)
    if output is not None:
        result.save(output)
    if plot is not None:
        _draw(result, graph, plot)
    outputs.say_saved(output, plot)
    if isinstance(result, Frontier):
        limit = memory_limit(result.plans[0].cluster, search)
        outputs.print_result(result, as_json, title=model, limit=limit)
    else:
        outputs.print_result(result, as_json, title=f"{model}, one training step")


def _draw(result: Frontier | Plan, graph: Graph, path: Path) -> None:
    """A frontier as time against memory, a plan as who has what."""
    from graphwright.plans import Plan
    from graphwright.report import plot

    if isinstance(result, Plan):
        plot((graph, result), path)
    else:
        plot(result, path)


def _check_limit(graph: Graph, result: Frontier | Plan, search: Search) -> None:
    """Refuse a limit that was asked for and that nothing keeps to, whatever the objective."""
    from graphwright.partition import largest_tensors, memory_limit
    from graphwright.plans import Plan, does_not_fit, figures_of

    smallest = result if isinstance(result, Plan) else result.smallest()
    limit = memory_limit(smallest.cluster, search)
    if figures_of(smallest).memory > limit:
        raise does_not_fit(limit, smallest, largest_tensors(graph))


@app.command(cls=NamesInHelp)
def profile(
    model: ModelOrGraph,
    cluster: Cluster,
    devices: Annotated[
        str | None,
        typer.Option(
            help="Numbers of devices, as `1,2,4,8` or `1-16`, also beyond those of the preset. "
            "Default: every number that the cluster can have."
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
    price: Price = None,
    output: Annotated[Path | None, outputs.option("Save the table (.json).")] = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Find the shortest step time for each number of devices: how many are worth renting.

    `graphwright profile gpt2 --cluster dgx-h100:8 --devices 1,2,4,8,16,32,64 --plot
    gpt2-devices.png`

    A number that the cluster cannot have, such as 11 with 8 to a node, is left out. With a price,
    the table has the cost of a step.
    """
    outputs.check(output, (".json",))
    outputs.check(plot, outputs.PICTURES)
    counts = None if devices is None else _counts(devices)
    options = _options(
        algorithm=algorithm, memory=memory, margin=margin, points=points, baselines=baselines,
        budget=budget, seed=seed, batch_dim=batch_dim,
    )  # fmt: skip

    from graphwright import report
    from graphwright.machine import cluster as find_cluster
    from graphwright.partition import Search
    from graphwright.partition import profile as make_profile

    Search(**options)
    on = find_cluster(cluster)
    on = on if price is None else replace(on, price=price)
    with outputs.progress(as_json) as tell:
        tell(f"capturing {model}", 0, 0)
        graph = load_graph(model, batch_size, small)
        result = make_profile(graph, on, devices=counts, report=tell, **options)
    left_out = sorted(set(counts or ()) - {row.num_devices for row in result})
    if left_out:
        some = ", ".join(map(str, left_out[:8])) + (", ..." if len(left_out) > 8 else "")
        Console(stderr=True).print(f"left out, as {on.name} cannot have so many devices: {some}")
    if output is not None:
        outputs.save_json(report.to_dict(result), output)
    if plot is not None:
        report.plot(result, plot)
    outputs.say_saved(output, plot)
    outputs.print_result(result, as_json, title=model)


# -- options ---------------------------------------------------------------------------------------


def _options(**given: Any) -> dict[str, Any]:
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


MOST = 4096
"""How many numbers of devices one profile may have."""


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
