"""Latency against throughput of several models on one GPU (SwapAdvisor, Figure 5.3).

    99% latency | shared 16 /   shared 4 /      / partitioned 16
                |          /            /     ,´   ,´ alone
                | ________/____________/___-´___-´
                +------------------------------- samples per second

Points at which requests come faster than they are served are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from graphwright.report.pictures import style
from graphwright.simulate import version

NAMES = ("alone", "partitioned", "cached", "shared")
LINES = ("-", "--", ":", "-.")


class Point(Protocol):
    """What requests at some rate experience, in seconds."""

    @property
    def rate(self) -> float: ...
    @property
    def p99(self) -> float: ...
    @property
    def saturated(self) -> bool: ...


def plot_serving(
    curves: Mapping[tuple[str, int], Sequence[Point]],
    path: str | Path,
    *,
    samples: int = 1,
    title: str = "",
    caption: str = "",
) -> None:
    """Draw the 99th percentile of latency against samples per second into a .png or .svg file.

    `curves` are by the name of a server and its number of models.
    """
    path = style.check_suffix(path)
    figure = style.new_figure(8.0, 4.8)
    axes = figure.subplots()
    numbers = sorted({count for _, count in curves})
    for (name, count), points in curves.items():
        kept = [point for point in points if not point.saturated]
        axes.plot(
            [samples * point.rate for point in kept],
            [1e3 * point.p99 for point in kept],
            label=name if count == 1 else f"{name}, {count} models",
            color=style.HUES[NAMES.index(name) if name in NAMES else -1],
            linestyle=LINES[numbers.index(count) % len(LINES)],
            marker="o",
            markersize=3.5,
            linewidth=1.6,
        )
    axes.set_yscale("log")
    axes.set_xlim(left=0)
    axes.set_xlabel("samples per second" if samples > 1 else "requests per second")
    axes.set_ylabel("99th percentile of latency (ms)")
    style.plain(axes)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8.5)
    style.add_title(axes, title)
    style.add_caption(figure, (" · ".join(filter(None, (f"graphwright {version()}", caption))),))
    style.save_figure(figure, path)
