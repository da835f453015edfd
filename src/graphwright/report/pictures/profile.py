"""A profile as a picture: the least time for each number of devices (TensorOpt, figure 8).

    time   | x                         x  the fastest plan that fits
           |  `x.                      .  ideal: as many times faster as there are devices more
           |    ` x____x____x
    memory | x___x___x___x----x        -  the memory of a device
           +---1---2---4---8---16-- devices

The ideal line starts at the smallest number of devices that a plan fits on. Where rows have a cost,
a third panel shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from graphwright.errors import InvalidMeasurement
from graphwright.ir import format_bytes
from graphwright.plans import format_seconds, time_unit
from graphwright.report.pictures import style
from graphwright.simulate import version

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 9.0
MARKERS = "osD^vPX"


class ProfileRow(Protocol):
    """The best plan for so many devices; `time` and `memory` are None where none fits.

    `cost` is that of one step, in whatever currency the devices are paid, None without a price.
    """

    @property
    def num_devices(self) -> int: ...
    @property
    def time(self) -> float | None: ...
    @property
    def memory(self) -> int | None: ...
    @property
    def cost(self) -> float | None: ...


Rows = Sequence[ProfileRow]


def plot_profile(
    rows: Rows | Mapping[str, Rows],
    path: str | Path,
    *,
    title: str | None = None,
    memory_limit: int | None = None,
    caption: str = "",
) -> None:
    """Draw time and memory against the number of devices into a .png or .svg file.

    `rows` may be several profiles by name, to compare. `memory_limit` is what a device has;
    `caption` names the machine, model and seed.
    """
    path = style.check_suffix(path)
    style.save_figure(
        draw_profile(rows, title=title, memory_limit=memory_limit, caption=caption), path
    )


def draw_profile(
    rows: Rows | Mapping[str, Rows],
    *,
    title: str | None = None,
    memory_limit: int | None = None,
    caption: str = "",
) -> Figure:
    """The picture as a Matplotlib figure."""
    named = dict(rows) if isinstance(rows, Mapping) else {"": rows}
    series = {name: sorted(some, key=lambda r: r.num_devices) for name, some in named.items()}
    everything = [row for some in series.values() for row in some]
    if not everything:
        raise InvalidMeasurement(
            "a profile without rows cannot be drawn; profile one device count or more"
        )
    priced = any(row.cost is not None for row in everything)
    heights = [3.2, 1.7, 1.7] if priced else [3.2, 1.7]
    figure = style.new_figure(WIDTH, sum(heights) + 1.2)
    panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    _draw_time(panels[0], series, everything)
    _draw_memory(panels[1], series, memory_limit)
    if priced:
        _draw_cost(panels[2], series)
    counts = sorted({row.num_devices for row in everything})
    _set_counts(panels[-1], counts)
    for axes in panels:
        style.plain(axes)
    _mark_missing(panels[0], series)
    figure.align_ylabels(panels)
    style.add_title(panels[0], title or _title(series))
    style.add_caption(figure, (" · ".join(filter(None, (f"graphwright {version()}", caption))),))
    return figure


def _title(series: Mapping[str, Sequence[ProfileRow]]) -> str:
    rows = [row for some in series.values() for row in some]
    times = [(row.time, row.num_devices) for row in rows if row.time is not None]
    if not times:
        return "No plan fits on any number of devices"
    time, count = min(times)
    noun = "device" if count == 1 else "devices"
    return f"Time against devices: {format_seconds(time)} at best, on {count} {noun}"


def _known(rows: Sequence[ProfileRow], field: str) -> tuple[list[int], list[float]]:
    pairs = [(row.num_devices, getattr(row, field)) for row in rows]
    kept = [(count, float(value)) for count, value in pairs if value is not None]
    return [count for count, _ in kept], [value for _, value in kept]


def _draw_time(
    axes: Axes, series: Mapping[str, Sequence[ProfileRow]], everything: list[ProfileRow]
) -> None:
    times = [row.time for row in everything if row.time is not None]
    unit, scale = time_unit(max(times, default=1.0))
    first: tuple[int, float] | None = None
    for at, (name, rows) in enumerate(series.items()):
        counts, values = _known(rows, "time")
        _line(axes, at, counts, [v / scale for v in values], name or "fastest plan that fits")
        if counts and (first is None or (counts[0], values[0]) < first):
            first = counts[0], values[0]
    if first is not None:
        last = max(row.num_devices for row in everything)
        counts = [c for c in sorted({r.num_devices for r in everything} | {last}) if c >= first[0]]
        ideal = [first[1] * first[0] / c / scale for c in counts]
        axes.plot(
            counts, ideal, color=style.GREY, linestyle="--", linewidth=1, label="ideal", zorder=1
        )
        low, high = min([*ideal, *(t / scale for t in times)]), max(t / scale for t in times)
        if high / low >= 4:
            axes.set_yscale("log")
            axes.set_ylim(low / 1.25, high * 1.25)
            style.plain_ticks(axes, "y")
        else:
            axes.set_ylim(0, high * 1.1)
    axes.set_ylabel(f"time of one step ({unit})")
    if any(row.time is None for row in everything):
        axes.plot([], [], linestyle="none", marker="x", color=style.GREY, label="no plan fits")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8.5)


def _draw_memory(axes: Axes, series: Mapping[str, Sequence[ProfileRow]], limit: int | None) -> None:
    known = [m for rows in series.values() for m in _known(rows, "memory")[1]]
    most = max([*known, *([] if limit is None else [limit])], default=1)
    size, unit = style.byte_unit(most)
    for at, rows in enumerate(series.values()):
        counts, values = _known(rows, "memory")
        _line(axes, at, counts, [v / size for v in values], "")
    if limit is not None:
        axes.axhline(limit / size, color=style.LIMIT, linestyle="--", linewidth=1.2)
        axes.annotate(
            f"a device has {format_bytes(limit)}", (1, limit / size), xytext=(0, 2),
            xycoords=axes.get_yaxis_transform(), textcoords="offset points",
            ha="right", va="bottom", fontsize=8, color=style.LIMIT,
        )  # fmt: skip
    axes.set_ylim(0, 1.2 * most / size)
    axes.set_ylabel(f"peak memory ({unit})")


def _draw_cost(axes: Axes, series: Mapping[str, Sequence[ProfileRow]]) -> None:
    for at, rows in enumerate(series.values()):
        counts, values = _known(rows, "cost")
        _line(axes, at, counts, values, "")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("cost of one step")


def _line(axes: Axes, at: int, counts: list[int], values: list[float], label: str) -> None:
    axes.plot(
        counts, values, color=style.HUES[at % len(style.HUES)], marker=MARKERS[at % len(MARKERS)],
        markersize=5.5, linewidth=1.6, label=label or None, zorder=3,
    )  # fmt: skip


def _set_counts(axes: Axes, counts: list[int]) -> None:
    """Number the devices; counts that span a lot are spaced by their ratio."""
    from matplotlib.ticker import FixedLocator, NullLocator

    if counts[-1] / counts[0] > 4 and len(counts) < counts[-1] - counts[0] + 1:
        axes.set_xscale("log")
        axes.set_xlim(counts[0] / 1.12, counts[-1] * 1.12)
    else:
        axes.set_xlim(counts[0] - 0.5, counts[-1] + 0.5)
    step = next(s for s in (1, 2, 4, 8, 16, 10**9) if len(counts) <= 20 * s)
    shown = counts if step == 1 else [c for c in counts if c % step == 0 or c == counts[0]]
    axes.xaxis.set_major_locator(FixedLocator([float(c) for c in shown]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel("devices")


def _mark_missing(axes: Axes, series: Mapping[str, Sequence[ProfileRow]]) -> None:
    """A cross on the ground where nothing fits on so many devices."""
    for at, rows in enumerate(series.values()):
        counts = [row.num_devices for row in rows if row.time is None]
        if counts:
            axes.plot(
                counts, [0.04 + 0.05 * at] * len(counts), linestyle="none", marker="x",
                markersize=5, color=style.HUES[at % len(style.HUES)],
                transform=axes.get_xaxis_transform(), clip_on=False,
            )  # fmt: skip
