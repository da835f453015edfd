"""A frontier as a picture: time against peak memory, with baselines (TensorOpt, figure 6).

    time |  x                :            x  a plan; the line is what such a device can do
         |   \\___x           :   D        o  the turning point
         |       \\___o_____x_:____x      D  a baseline
         |...................:.........   :  the memory of a device
         +-------------------:--------- memory

An axis is logarithmic where its largest value is `SPREAD` times its smallest or more. Dotted lines
are the parts of the time that the busiest device computes and the busiest link carries; they
overlap, so they need not add up to it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graphwright.ir import format_bytes
from graphwright.plans import Figures, Frontier, Plan, format_seconds, time_unit
from graphwright.report.pictures import style
from graphwright.simulate import caption

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SPREAD = 8.0
FAR = 3.0
"""A limit of more than so many times the largest plan is said, not drawn."""
MARKERS = "sD^vPX*<>ph"
WIDTH, HEIGHT = 10.0, 5.6


def plot_frontier(frontier: Frontier, path: str | Path, title: str | None = None) -> None:
    """Draw a frontier and the plans that it is compared with into a .png or .svg file."""
    path = style.check_suffix(path)
    style.save_figure(draw_frontier(frontier, title), path)


def draw_frontier(frontier: Frontier, title: str | None = None) -> Figure:
    """The picture as a Matplotlib figure."""
    figure = style.new_figure(WIDTH, HEIGHT)
    axes = figure.add_subplot()
    plans = [_figures(plan) for plan in frontier.plans]
    others = {name: _figures(plan) for name, plan in frontier.others.items()}
    everything = [*plans, *others.values()]
    size, memory_unit = style.byte_unit(max(f.memory for f in everything))
    unit, scale = time_unit(max(f.time for f in everything))
    limit = min(device.memory for device in frontier.plans[0].cluster.devices)
    near = limit <= FAR * max(f.memory for f in everything)

    _set_scales(axes, everything, limit if near else None, size, scale)
    _draw_line(axes, plans, size, scale)
    _draw_turning_point(axes, frontier, size, scale)
    for at, (name, f) in enumerate(others.items()):
        axes.plot(
            f.memory / size, f.time / scale, linestyle="none", marker=MARKERS[at % len(MARKERS)],
            markersize=10, markerfacecolor="none", markeredgewidth=1.8,
            markeredgecolor=style.HUES[1 + at % (len(style.HUES) - 1)], zorder=4,
            label=_say(name, f), clip_on=False,
        )  # fmt: skip
    _draw_parts(axes, plans, size, scale)
    if near:
        _draw_limit(axes, limit / size, f"a device has {format_bytes(limit)}")
    axes.set(xlabel=f"peak memory of the fullest device ({memory_unit})")
    axes.set(ylabel=f"time of one step ({unit})")
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=8.5, labelspacing=0.8
    )
    style.plain(axes)
    style.add_title(axes, title or _title(frontier))
    far = "" if near else f"a device has {format_bytes(limit)}, far to the right"
    style.add_caption(figure, (*frontier.notes, _where(frontier.plans, far)))
    return figure


def _figures(plan: Plan) -> Figures:
    assert plan.figures is not None  # a frontier has no others
    return plan.figures


def _title(frontier: Frontier) -> str:
    cluster = frontier.plans[0].cluster
    noun = "plan" if len(frontier) == 1 else "plans"
    devices = "1 device" if cluster.num_devices == 1 else f"{cluster.num_devices} devices"
    return f"Time against memory: {len(frontier)} {noun} on {devices} of {cluster.name}"


def _where(plans: tuple[Plan, ...], far: str) -> str:
    """Where the picture comes from: algorithms, seed, machine and graph."""
    first = plans[0]
    algorithms = ", ".join(dict.fromkeys(plan.algorithm for plan in plans))
    seeds = {plan.seed for plan in plans}
    seed = first.seed if len(seeds) == 1 else None
    line = caption(first.cluster.name, algorithms, seed, first.graph_hash)
    return f"{line} · {far}" if far else line


def _say(name: str, f: Figures) -> str:
    return f"{name}\n{format_seconds(f.time)}, {format_bytes(f.memory)}"


def _set_scales(
    axes: Axes, everything: list[Figures], limit: int | None, size: float, scale: float
) -> None:
    memory = [f.memory / size for f in everything if f.memory > 0]
    time = [f.time / scale for f in everything if f.time > 0]
    if limit is not None:
        memory.append(limit / size)
    for which, values in (("x", memory), ("y", time)):
        if not values:
            continue
        low, high = min(values), max(values)
        set_limits = axes.set_xlim if which == "x" else axes.set_ylim
        if high / low >= SPREAD:
            (axes.set_xscale if which == "x" else axes.set_yscale)("log")
            room = (high / low) ** 0.08
            set_limits(low / room, high * room)
            style.plain_ticks(axes, which)
        elif which == "x":
            room = (high - low) * 0.08 or high * 0.1
            set_limits(max(0.0, low - room), high + room)
        else:
            set_limits(0, high * 1.08)


def _draw_line(axes: Axes, plans: list[Figures], size: float, scale: float) -> None:
    """The plans, and what can be done with the memory between: as the smaller one does it."""
    x, y = [f.memory / size for f in plans], [f.time / scale for f in plans]
    right, top = axes.get_xlim()[1], axes.get_ylim()[1]
    axes.plot(
        [x[0], *x, right], [top, *y, y[-1]],
        drawstyle="steps-post", color=style.HUES[0], linewidth=1.6, alpha=0.75, zorder=2,
    )  # fmt: skip
    ends = f"{format_seconds(plans[-1].time)} to {format_seconds(plans[0].time)}"
    axes.plot(
        x, y, linestyle="none", marker="o", color=style.HUES[0], zorder=3,
        label=f"frontier\n{ends}", markersize=5.5 if len(plans) <= 60 else 3.0,
    )  # fmt: skip


def _draw_parts(axes: Axes, plans: list[Figures], size: float, scale: float) -> None:
    """Computation and communication of the plans, where they are known and not far below."""
    x = [f.memory / size for f in plans]
    parts = (
        ("computing, busiest device", [f.compute_time for f in plans], style.HUES[2]),
        ("moving, busiest link", [f.communication_time for f in plans], style.HUES[3]),
    )
    for label, values, colour in parts:
        if len(plans) > 1 and max(values) > 0:
            axes.plot(
                x, [v / scale for v in values],
                linestyle=":", color=colour, linewidth=1.6, label=label, zorder=1,
            )  # fmt: skip
    shown = [v / scale for _, values, _ in parts for v in values if v > 0]
    if axes.get_yscale() == "log" and shown:
        low, high = axes.get_ylim()
        axes.set_ylim(max(min(low, min(shown) * 0.8), low / 20), high)
        style.plain_ticks(axes, "y")


def _draw_turning_point(axes: Axes, frontier: Frontier, size: float, scale: float) -> None:
    if len(frontier) < 3:
        return
    f = _figures(frontier.turning_point())
    axes.plot(
        f.memory / size, f.time / scale, linestyle="none", marker="o", markersize=13,
        markeredgewidth=1.8, markerfacecolor="none", markeredgecolor=style.INK, zorder=5,
        label=_say("turning point", f),
    )  # fmt: skip


def _draw_limit(axes: Axes, limit: float, words: str) -> None:
    """The memory of a device, and behind it what does not fit."""
    right = axes.get_xlim()[1]
    axes.axvline(limit, color=style.LIMIT, linewidth=1.2, linestyle="--", zorder=1)
    if right > limit:
        axes.axvspan(limit, right, color=style.LIMIT, alpha=0.04, linewidth=0, zorder=0)
    axes.annotate(
        words, (limit, 1), xycoords=axes.get_xaxis_transform(), xytext=(-4, -3),
        textcoords="offset points", rotation=90, ha="right", va="top",
        fontsize=8, color=style.LIMIT,
    )  # fmt: skip
