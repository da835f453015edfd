"""A simulated step as tables: how long it takes and why, what every device does and holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from graphwright.ir import format_bytes
from graphwright.plans import CATEGORIES, format_seconds
from graphwright.report.tables.layout import (
    facts,
    headed,
    headed_plainly,
    name_column,
    number_column,
    text_column,
)
from graphwright.report.tables.plan import throughput_words
from graphwright.simulate import figures as make_figures
from graphwright.simulate import percentages, shares, words

if TYPE_CHECKING:
    from graphwright.simulate import Timeline

ROWS = 8


def show(timeline: Timeline, console: Console, title: str) -> None:
    """Print a timeline's figures."""
    console.print(facts(title, _figures(timeline)))
    console.print(_devices(timeline))
    console.print(_times(timeline))
    console.print(_path(timeline))


def _figures(timeline: Timeline) -> Iterator[tuple[str, str]]:
    yield "one step takes", format_seconds(timeline.makespan)
    devices = "1 device" if timeline.num_devices == 1 else f"{timeline.num_devices} devices"
    yield "cluster", f"{timeline.cluster.name}, {devices}"
    fullest = int(timeline.memory.peak.argmax())
    need = format_bytes(int(timeline.memory.peak[fullest]))
    have = format_bytes(timeline.cluster.devices[fullest].memory)
    fits = "fits" if timeline.fits else "[bold red]does not fit[/]"
    yield "memory", f"{fits}: {timeline.tasks.resource_names[fullest]} needs {need} of its {have}"
    trained = throughput_words(make_figures(timeline), timeline.cluster)
    if trained:
        yield "trains", trained
    if timeline.price is not None:
        price = timeline.price
        yield "price", f"{price:.3g} for a step, {1000 * price:.3g} for a thousand"
    if timeline.costs:
        yield "times of operators", timeline.costs
    if timeline.plan:
        yield "plan", timeline.plan
    yield "tasks", f"{len(timeline.tasks):,}"
    yield "devices compute", f"{percentages(timeline.utilisation)} of the time"
    if timeline.repeated >= 0.01:
        share = f"{timeline.repeated:.0%}"
        yield "done more than once", f"{share} of the computing, on several devices alike"
    yield "moved between devices", format_bytes(timeline.moved_bytes)
    if timeline.link_bytes:
        link = int(timeline.busy[timeline.num_devices :].argmax()) + timeline.num_devices
        name = timeline.tasks.resource_names[link]
        busy = timeline.busy[link] / (timeline.makespan or 1.0)
        carried = format_bytes(timeline.link_bytes.get(name, 0))
        yield "busiest link", f"{name}: {carried}, {busy:.0%} of the time"
    yield "critical path", shares(timeline.critical_time, timeline.makespan)


def _devices(timeline: Timeline) -> Table:
    """The devices, alike ones in one row, the fullest first; categories are as of the peak."""
    held = [k for k in range(len(CATEGORIES)) if timeline.memory.at_peak[:, k].any()]
    rows: dict[tuple[str, ...], list[int]] = {}
    for device in range(timeline.num_devices):
        rows.setdefault(_device_row(timeline, device, held), []).append(device)
    peak = timeline.memory.peak
    fullest = sorted(rows.items(), key=lambda item: (-int(peak[item[1][0]]), item[1][0]))
    title = "What every device does and holds at its peak"
    if len(rows) > ROWS:
        title = f"The {ROWS} fullest of {len(rows)} kinds of {timeline.num_devices} devices"
    headings = ("busy", "waits", "peak", "full", *(_SHORT[CATEGORIES[k]] for k in held))
    columns = (name_column("device", no_wrap=True), *map(number_column, headings))
    table = headed_plainly(*columns, title=title)
    for row, devices in fullest[:ROWS]:
        table.add_row(_device_names(timeline, devices), *row)
    return table


_SHORT = {
    "parameter": "param.",
    "gradient": "grad.",
    "optimizer_state": "optim.",
    "activation": "activ.",
    "communication": "comm.",
}


def _device_row(timeline: Timeline, device: int, held: list[int]) -> tuple[str, ...]:
    full = timeline.memory.peak[device] / timeline.cluster.devices[device].memory
    return (
        f"{timeline.utilisation[device]:.0%}",
        format_seconds(max(0.0, float(timeline.exposed_communication[device]))),
        format_bytes(int(timeline.memory.peak[device])),
        f"[bold red]{full:.0%}[/]" if full > 1 else f"{full:.0%}",
        *(format_bytes(int(timeline.memory.at_peak[device, k])) for k in held),
    )


def _device_names(timeline: Timeline, devices: list[int]) -> str:
    """`gpu 0`, `gpu 0 to 7`, or how many there are besides the first."""
    first = timeline.tasks.resource_names[devices[0]]
    if len(devices) == 1:
        return first
    if devices[-1] - devices[0] == len(devices) - 1:
        return f"{first} to {devices[-1]}"
    return f"{first} and {len(devices) - 1} more"


def _times(timeline: Timeline) -> Table:
    """Where the devices' time goes, by phase and by operator; and transfers, which may overlap."""
    title = "Where the time goes, summed over the devices"
    table = headed(title, name_column("what"), number_column("time"), number_column("of computing"))
    total = sum(timeline.phase_time.values()) or 1.0
    operators = list(timeline.operator_time.items())[:ROWS]
    for what, seconds in (*timeline.phase_time.items(), *operators):
        if seconds:
            table.add_row(what, format_seconds(seconds), f"{seconds / total:.1%}")
    for kind, seconds in timeline.transfer_time.items():
        table.add_row(f"transfers: {words(kind)}", format_seconds(seconds), "")
    return table


_STARTED = {"needs": "its input was there", "queued": "its turn came", None: "the step began"}


def _path(timeline: Timeline) -> Table:
    path = timeline.critical_path
    title = f"The longest of {len(path):,} steps of the critical path"
    texts, numbers = map(text_column, ("step", "kind", "on")), map(number_column, ("at", "takes"))
    table = headed(title, *texts, *numbers, "started when")
    for step in sorted(path, key=lambda step: -step.duration)[:ROWS]:
        table.add_row(
            step.name,
            words(step.kind),
            step.resource,
            format_seconds(step.start),
            format_seconds(step.duration),
            _STARTED[step.waited],
        )
    return table
