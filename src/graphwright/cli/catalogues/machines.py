"""``graphwright calibrate`` and ``graphwright doctor``: what this machine is, and how fast."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from graphwright.cli import outputs
from graphwright.cli.app import AsJson, BatchSize, Small, app
from graphwright.cli.inputs import load_graph
from graphwright.errors import InvalidMeasurement

if TYPE_CHECKING:
    from graphwright.machine import Device
    from graphwright.run import Call
    from graphwright.simulate import Calibration

REPORT_SUFFIXES = (".json", ".png", ".svg")
TABLE_SUFFIX = ".measured.json"


@app.command()
def calibrate(
    model: Annotated[
        str | None,
        typer.Argument(
            help="The model whose operators to measure: a zoo model, `file.py:function`, or a "
            "saved graph. Default: common operators in many sizes."
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="What to measure on: cpu (all cores), local:4 (the share of one of 4 processes), "
            "cuda, cuda:1. Default: the devices of --cluster if it is a local one, else cpu."
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(help="Also measure the parts into which this saved plan splits operators."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Also measure the parts into which data parallelism on this cluster splits "
            "operators. Without a model: measure collectives, for `local:4` and the like between "
            "that many processes on this machine; for other clusters under torchrun, with a "
            "process for each device."
        ),
    ] = None,
    batch_size: BatchSize = None,
    small: Small = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Measure at most this many calls, the longest first."),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            help="File in which measured costs are kept. Default: GRAPHWRIGHT_COSTS, or "
            "graphwright/costs.sqlite in the cache folder."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        outputs.option(
            "Save the report (.json), a plot (.png, .svg), or everything in the store about these "
            "devices in the form that a preset ships (.measured.json)."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure operators on this machine, so that plans use measured times instead of estimates.

    Each distinct call is measured once and kept. Ctrl-C keeps what was measured so far.
    """
    from graphwright import report
    from graphwright.run.measure.hardware import find_target

    outputs.check(output, REPORT_SUFFIXES)
    if model is None and cluster is not None:
        _measure_links(cluster, store, output, as_json)
        return
    if device is None:
        device = cluster if cluster is not None and cluster.startswith("local") else "cpu"
    if model is None and (batch_size is not None or small or plan):
        raise typer.BadParameter("--batch-size, --small and --plan go with a model")
    figures = find_target(device).figures  # refused before the capture, which may take a while
    if output is not None and output.name.endswith(TABLE_SUFFIX) and cluster is not None:
        _check_kind(figures.name, device, cluster)
    calls = _calls(model, batch_size, small, plan, cluster)
    calibration = _measure(calls, device, figures, store, limit)
    if output is not None:
        if output.name.endswith(TABLE_SUFFIX):
            _save_table(output, store, [figures.name], cluster)
        elif output.suffix == ".json":
            outputs.save_json(report.to_dict(calibration), output)
        else:
            report.plot(calibration, output)
    outputs.say_saved(output)
    outputs.print_result(calibration, as_json)


def _measure_links(cluster: str, store: Path | None, output: Path | None, as_json: bool) -> None:
    """What collectives take between processes on this machine, or those of torchrun."""
    from dataclasses import asdict

    from rich.table import Table

    from graphwright.ir import format_bytes
    from graphwright.machine import Store
    from graphwright.machine import cluster as find_cluster
    from graphwright.run import measure_joined, measure_local, read_variables

    variables = read_variables(os.environ)
    if variables is None and not cluster.startswith("local:"):
        raise typer.BadParameter(
            "collectives are measured between processes on this machine (--cluster local:4), or "
            "between those of torchrun, one for each device: `torchrun ... -m graphwright "
            "calibrate --cluster FILE`; give a model to measure operators"
        )
    if output is not None and output.suffix != ".json":
        raise typer.BadParameter("measured collectives are saved as .json")
    on = find_cluster(cluster)
    if on.num_devices < 2:
        raise typer.BadParameter("one process has nobody to talk to: --cluster local:2 or more")
    if variables is None:
        with Console(stderr=True).status(f"Measuring between {on.num_devices} processes"):
            links = measure_local(on, store=Store(store)).times
    else:
        links = measure_joined(on, store=Store(store)).times
        if variables.rank:
            return
    data = [asdict(link) for link in links]
    if output is not None:
        if output.name.endswith(TABLE_SUFFIX):
            _save_table(output, store, [device.name for device in on.kinds()], cluster)
        else:
            outputs.save_json(data, output)
    outputs.say_saved(output)
    if as_json:
        outputs.print_json(data)
        return
    table = Table(title=f"Collectives between the {on.num_devices} processes of {on.name}")
    for heading in ("kind", "group", "contenders", "size", "time", "rate"):
        table.add_column(heading, justify="left" if heading == "kind" else "right")
    for link in links:
        table.add_row(
            link.kind, "x".join(map(str, link.spans)), str(link.contenders),
            format_bytes(link.nbytes), f"{link.seconds * 1e3:.3f} ms",
            f"{link.nbytes / link.seconds / 1e9:.3f} GB/s",
        )  # fmt: skip
    Console().print(table)


def _check_kind(name: str, device: str, cluster: str) -> None:
    """Refuse a table that would hold nothing of its cluster's devices."""
    from graphwright.machine import cluster as find_cluster

    kinds = [kind.name for kind in find_cluster(cluster).kinds()]
    if name not in kinds:
        raise InvalidMeasurement(
            f"{device} is {name!r} here, but {cluster} has {', '.join(map(repr, kinds))}; measure "
            "another --device, or correct the name in the cluster's file"
        )


def _save_table(output: Path, store: Path | None, devices: list[str], cluster: str | None) -> None:
    """What the store has of devices, and of the collectives of a cluster, as a preset ships it."""
    from datetime import date

    from graphwright.machine import Store, save_table, table_of
    from graphwright.machine import cluster as find_cluster
    from graphwright.simulate import measured_with
    from graphwright.version import __version__

    table = table_of(
        Store(store),
        devices=devices,
        on=None if cluster is None else find_cluster(cluster),
        source=f"graphwright {__version__} calibrate, {date.today()}",
        measured_with=measured_with(),
    )
    save_table(table, output)


def _calls(
    model: str | None, batch_size: int | None, small: bool, plan: Path | None, cluster: str | None
) -> list[Call]:
    from graphwright.machine import cluster as find_cluster
    from graphwright.partition import data_parallel
    from graphwright.plans import Plan
    from graphwright.run import calls_of, calls_of_plan, standard_calls

    if model is None:
        return standard_calls()
    on = None if cluster is None else find_cluster(cluster)
    given = None if plan is None else Plan.load(plan)
    with Console(stderr=True).status(f"Capturing {model}"):
        graph = load_graph(model, batch_size, small)
        calls = calls_of(graph)
        if given is not None:
            calls += calls_of_plan(graph, given)
        if on is not None:
            calls += calls_of_plan(graph, data_parallel(graph, on))
    return calls


def _measure(
    calls: list[Call], device: str, figures: Device, store: Path | None, limit: int | None
) -> Calibration:
    from graphwright.machine import Store
    from graphwright.run import calibrate as measure

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("Measuring"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.description}"), console=console, transient=True,
    )  # fmt: skip
    kept = Store(store)
    with bar:
        task = bar.add_task("", total=None)
        try:
            return measure(
                calls,
                device=device,
                figures=figures,
                store=kept,
                limit=limit,
                progress=lambda done, total, op: bar.update(
                    task, completed=done, total=total, description=op
                ),
            )
        except KeyboardInterrupt:
            console.print(f"stopped; what was measured is kept in {kept.path}")
            raise typer.Exit(130) from None


@app.command()
def doctor(
    cluster: Annotated[
        str | None,
        typer.Option(help="Show one cluster in full: a preset, `local:4`, or a .toml file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what this machine offers, what was measured on it, and which clusters can be named."""
    from graphwright.report import diagnose

    with Console(stderr=True).status("Looking at this machine"):
        diagnosis = diagnose(cluster)
    outputs.print_result(diagnosis, as_json)
