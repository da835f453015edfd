"""A timeline as a picture: a row per device and busy link, below them the fullest device's memory.

    gpu 0       |####==##====####    |  what it computes, by phase            64%
    gpu 1       |####==##====####    |
    gpu 0 out   |      ++     ++ +++ |  what it carries, by kind of transfer
    memory      |   __---````---__   |  by category, with the device's limit
                +--------------------+ time

A row has as many columns as the picture has pixels. A bar of a column or more is drawn as it is;
what is shorter is gathered column by column into one bar of the class that has most of it, as wide
as all of them together (`merge`). So a row of a million tasks is a few thousand bars, and what
looks busy is busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphwright.ir import Phase, format_bytes, write_atomically
from graphwright.machine import PICOSECONDS
from graphwright.plans import CATEGORIES, HANDLING, KINDS, format_seconds, time_unit, transfers
from graphwright.simulate.timeline.summary import words
from graphwright.simulate.timeline.trace import check_devices

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from graphwright.simulate.timeline.timeline import Timeline

DEFAULT_DEVICES = 64
MOST_LINKS = 16
COLUMNS = 1800
WIDTH, DPI = 14.0, 150
MOST_SHAPES = 20_000
"""More than so many bars are put into an .svg as an image."""

CLASSES = (*Phase, *KINDS[1:])
COLOURS = {
    "forward": "#4c78a8",
    "backward": "#f2a541",
    "update": "#5aa469",
    **{kind.name: kind.colour for kind in transfers.TRANSFERS},
    "swap_out": "#8c6bb1",
    "swap_in": "#2a9d8f",
    HANDLING: "#6c757d",
    "parameter": "#264653",
    "gradient": "#e07a5f",
    "optimizer_state": "#81b29a",
    "activation": "#a9c6de",
    "communication": "#b8a1d9",
}
INK, FAINT, LIMIT = "#333333", "#e4e4e4", "#b00020"


def save_gantt(timeline: Timeline, path: Path, *, devices: Sequence[int] | None = None) -> None:
    """Draw the picture into a .png or .svg file."""
    figure = draw(timeline, check_devices(timeline, devices, DEFAULT_DEVICES))
    from matplotlib import rc_context

    kind = path.suffix.removeprefix(".")
    made = BytesIO()
    with rc_context({"svg.hashsalt": "graphwright", "svg.fonttype": "none"}):
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(made, format=kind, dpi=DPI, metadata=metadata)
    write_atomically(path, made.getvalue())


def draw(timeline: Timeline, devices: tuple[int, ...]) -> Figure:
    """The picture as a Matplotlib figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    links, busy_links = _busiest_links(timeline)
    rows = [*devices, *links]
    row_height = float(np.interp(len(rows), [8, 80], [0.3, 0.13]))
    heights = [max(1.2, row_height * len(rows)), 1.8]
    figure = Figure(figsize=(WIDTH, sum(heights) + 1.9), layout="constrained")
    FigureCanvasAgg(figure)
    chart, memory = figure.subplots(2, 1, sharex=True, height_ratios=heights)
    unit, scale = time_unit(timeline.makespan)
    _draw_rows(timeline, chart, rows, row_height, scale)
    _draw_memory(timeline, memory, scale)
    memory.set_xlabel(f"time ({unit})")
    memory.set_xlim(0, (timeline.makespan or scale) / scale)
    chart.set_title(
        f"One step: {format_seconds(timeline.makespan)} on {timeline.cluster.name}",
        loc="left", fontsize=13, fontweight="bold", color=INK, pad=28,
    )  # fmt: skip
    notes = [timeline.caption]
    if len(devices) < timeline.num_devices:
        notes.append(f"{len(devices)} of {timeline.num_devices} devices shown")
    if len(links) < busy_links:
        notes.append(f"the {len(links)} busiest of {busy_links} links shown")
    figure.supxlabel(" · ".join(notes), fontsize=8, color="#777777", x=0.01, ha="left")
    return figure


def merge(
    start: NDArray[np.int64], end: NDArray[np.int64], kind: NDArray[Any], column: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[Any]]:
    """Begins, lengths and classes of the bars to draw for a row's tasks, none of them overlapping.

    What is shorter than a column is gathered in the column where it begins; the time in all stays
    as it is.
    """
    length = end - start
    wide = length >= column
    bars = [(start[wide].astype(np.float64), length[wide].astype(np.float64), kind[wide])]
    short = np.flatnonzero(~wide & (length > 0))
    if len(short):
        # A column is also left where a wide bar lies in it: what is on one side of it stays there.
        passed = np.cumsum(wide)[short]
        place = np.stack([(start[short] // column).astype(np.int64), passed])
        new = np.append(True, (place[:, 1:] != place[:, :-1]).any(axis=0))
        group = np.cumsum(new) - 1
        num_kinds = int(kind.max()) + 1
        time = np.bincount(
            group * num_kinds + kind[short],
            weights=length[short].astype(np.float64),
            minlength=(int(group[-1]) + 1) * num_kinds,
        ).reshape(-1, num_kinds)
        first = start[short][new].astype(np.float64)
        bars.append((first, time.sum(axis=1), time.argmax(axis=1).astype(kind.dtype)))
    begins, lengths, kinds = (np.concatenate(parts) for parts in zip(*bars, strict=True))
    order = np.argsort(begins, kind="stable")
    return _join(begins[order], lengths[order], kinds[order], column / 20)


def _join(
    begins: NDArray[np.float64], lengths: NDArray[np.float64], kinds: NDArray[Any], gap: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[Any]]:
    """Make one bar of neighbours of one class with next to nothing between them."""
    if not len(begins):
        return begins, lengths, kinds
    ends = begins + lengths
    new = np.append(True, (kinds[1:] != kinds[:-1]) | (begins[1:] - ends[:-1] > gap))
    last = np.append(new[1:], True)
    return begins[new], ends[last] - begins[new], kinds[new]


def _busiest_links(timeline: Timeline) -> tuple[list[int], int]:
    """The links to show, in the order of resources, and how many carry anything."""
    busy = timeline.busy[timeline.num_devices :]
    count = int(np.count_nonzero(busy))
    busiest = np.argsort(-busy, kind="stable")[: min(count, MOST_LINKS)]
    return (np.sort(busiest) + timeline.num_devices).tolist(), count


def _classes(timeline: Timeline) -> tuple[NDArray[np.uint8], int]:
    """The class of every node's tasks, and what turns a kind of transfer into its class."""
    phases = list(Phase)
    nodes = np.array([phases.index(node.phase) for node in timeline.graph.nodes], np.uint8)
    return nodes, len(phases) - 1


def _draw_rows(
    timeline: Timeline, axes: Axes, rows: list[int], row_height: float, scale: float
) -> None:
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Patch

    column = max(timeline.schedule.makespan / COLUMNS, 1.0)
    of_node, shift = _classes(timeline)
    corners: dict[int, list[NDArray[np.float64]]] = {}
    for y, resource in enumerate(rows):
        tasks, _ = timeline.served.by(resource)
        kinds = timeline.tasks.kind[tasks]
        classes = kinds + np.uint8(shift)
        computes = kinds == 0
        classes[computes] = of_node[timeline.tasks.node[tasks[computes]]]
        begins, lengths, drawn = merge(
            timeline.schedule.start[tasks], timeline.schedule.end[tasks], classes, column
        )
        for value in np.unique(drawn).tolist():
            mine = drawn == value
            corners.setdefault(value, []).append(_corners(begins[mine], lengths[mine], y))
    shapes = sum(len(part) for parts in corners.values() for part in parts)
    for value, parts in sorted(corners.items()):
        quads = np.concatenate(parts)
        quads[:, :, 0] /= PICOSECONDS * scale
        bars = PolyCollection(list(quads), facecolors=COLOURS[CLASSES[value]], linewidths=0)
        bars.set_snap(False)  # a bar of a tenth of a pixel tints it by a tenth
        bars.set_rasterized(shapes > MOST_SHAPES)
        axes.add_collection(bars, autolim=False)
    names = timeline.tasks.resource_names
    size = float(np.clip(row_height * 72 * 0.62, 5, 9))
    axes.set_yticks(range(len(rows)), [names[r] for r in rows], fontsize=size)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    num_devices = sum(resource < timeline.num_devices for resource in rows)
    if num_devices < len(rows):
        axes.axhline(num_devices - 0.5, color=INK, linewidth=0.6)
    for y, resource in enumerate(rows):
        share = timeline.busy[resource] / (timeline.makespan or 1.0)
        axes.annotate(
            f"{share:.0%}", (1, y), xytext=(4, 0), xycoords=axes.get_yaxis_transform(),
            textcoords="offset points", va="center", fontsize=size, color="#777777",
        )  # fmt: skip
    handles = [Patch(color=COLOURS[CLASSES[v]], label=words(CLASSES[v])) for v in sorted(corners)]
    if handles:
        _legend(axes, handles)
    _plain(axes)


def _corners(
    begins: NDArray[np.float64], lengths: NDArray[np.float64], y: int
) -> NDArray[np.float64]:
    """The four corners of each bar of a row."""
    left, right = begins, begins + lengths
    xs = np.stack([left, right, right, left], axis=1)
    ys = np.broadcast_to([y - 0.4, y - 0.4, y + 0.4, y + 0.4], xs.shape)
    return np.stack([xs, ys], axis=2)


def _draw_memory(timeline: Timeline, axes: Axes, scale: float) -> None:
    """The memory of the device that holds the most, by category, and its limit."""
    from matplotlib.patches import Patch

    peak = timeline.memory.peak
    device = int(peak.argmax())
    times, held = timeline.memory.curve(device)
    kept = [k for k in range(len(CATEGORIES)) if held[k].any()]
    times, held = _thin(
        np.append(times, timeline.makespan), np.append(held, held[:, -1:], axis=1),
        timeline.makespan / COLUMNS,
    )  # fmt: skip
    limit = timeline.cluster.devices[device].memory
    near = limit <= 4 * peak[device]
    most = max(int(peak[device]), limit) if near else int(peak[device])
    size, unit = _byte_unit(most)
    base = np.zeros(len(times))
    for k in kept:
        top = base + held[k] / size
        axes.fill_between(
            times / scale, base, top, step="post", color=COLOURS[CATEGORIES[k]], linewidth=0
        )
        base = top
    if near:
        axes.axhline(limit / size, color=LIMIT, linewidth=1.2, linestyle="--")
    axes.set_ylim(0, 1.12 * (most or 1) / size)
    least = format_bytes(int(peak.min()))
    others = f" (the emptiest {least})" if peak.min() < peak.max() else ""
    axes.set_title(
        f"memory of {timeline.tasks.resource_names[device]}, the fullest device: at most "
        f"{format_bytes(int(peak[device]))}{others}; limit "
        f"{format_bytes(limit)}{' (the line)' if near else ', far above'}",
        loc="left", fontsize=9, color=INK,
    )  # fmt: skip
    axes.set_ylabel(unit)
    handles = [Patch(color=COLOURS[CATEGORIES[k]], label=words(CATEGORIES[k])) for k in kept]
    if handles:
        _legend(axes, handles)
    _plain(axes)


def _thin(
    times: NDArray[np.float64], held: NDArray[np.int64], column: float
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Of the moments in each column, the one with the most memory, and the last."""
    if len(times) <= 2 * COLUMNS:
        return times, held
    place = (times // column).astype(np.int64)
    order = np.lexsort((held.sum(axis=0), place))
    fullest = order[np.append(place[order][1:] != place[order][:-1], True)]
    last = np.flatnonzero(np.append(place[1:] != place[:-1], True))
    kept = np.union1d(fullest, last)
    return times[kept], held[:, kept]


def _byte_unit(count: int) -> tuple[float, str]:
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= size:
            return size, unit
    return 1.0, "bytes"


def _legend(axes: Axes, handles: list[Any]) -> None:
    axes.legend(
        handles=handles, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(handles),
        frameon=False, fontsize=8, handlelength=1, handleheight=1, columnspacing=1.2,
        borderaxespad=0.2,
    )  # fmt: skip


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set(color=INK, linewidth=0.6)
    axes.tick_params(length=0, colors=INK)
    axes.grid(axis="x", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
