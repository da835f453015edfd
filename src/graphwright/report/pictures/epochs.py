r"""Training a graph network as pictures: load balance, and accuracy against time (ROC, 4.7).

busy seconds | ==\___ worker 0        |  new cut
             |  ___---worker 1        |
             +------------------- epoch
accuracy     |    .-----  whole graph
             |  .'  .---  sampled
             +------------------- seconds
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from graphwright.errors import InvalidMeasurement
from graphwright.plans import time_unit
from graphwright.report.pictures import style
from graphwright.simulate import version

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 9.0, 2.9


class EpochRow(Protocol):
    """One epoch; `busy` has the seconds of each layer for each worker."""

    @property
    def number(self) -> int: ...
    @property
    def busy(self) -> Sequence[Sequence[float]]: ...
    @property
    def bounds(self) -> Sequence[int]: ...
    @property
    def imbalance(self) -> float: ...
    @property
    def accuracy(self) -> Mapping[str, float]: ...
    @property
    def since_start(self) -> float: ...


def plot_balance(
    epochs: Sequence[EpochRow], path: str | Path, *, title: str | None = None, caption: str = ""
) -> None:
    """Draw how long each worker computes in each epoch into a .png or .svg file."""
    path = style.check_suffix(path)
    if not epochs:
        raise InvalidMeasurement("a training without epochs cannot be drawn; train one or more")
    figure = style.new_figure(WIDTH, HEIGHT + 1)
    _draw_busy(figure.subplots(), epochs)
    last = f"Load balance: the slowest worker takes {epochs[-1].imbalance:.2f} times the mean"
    _finish(figure, title or last, caption)
    style.save_figure(figure, path)


def plot_accuracy(
    trainings: Mapping[str, Sequence[EpochRow]], path: str | Path, *, mask: str = "test",
    title: str | None = None, caption: str = "",
) -> None:  # fmt: skip
    """Draw accuracy against the time of one or more trainings into a .png or .svg file."""
    path = style.check_suffix(path)
    curves = {
        name: [(e.since_start, e.accuracy[mask]) for e in epochs if mask in e.accuracy]
        for name, epochs in trainings.items()
    }
    if not any(curves.values()):
        raise InvalidMeasurement(
            f"no epoch says how many vertices of {mask!r} were right; evaluate now and then"
        )
    figure = style.new_figure(WIDTH, HEIGHT + 1)
    axes = figure.subplots()
    for (name, curve), hue in zip(curves.items(), style.HUES, strict=False):
        seconds, shares = [time for time, _ in curve], [100 * share for _, share in curve]
        axes.plot(seconds, shares, color=hue, marker="o", markersize=3, label=name)
    axes.set_xlabel("seconds of training")
    axes.set_ylabel(f"right of {mask}, %")
    axes.set_xlim(left=0)
    style.plain(axes)
    if len(curves) > 1:
        axes.legend(frameon=False)
    best = max(share for curve in curves.values() for _, share in curve)
    _finish(figure, title or f"Time to accuracy: {best:.1%} at best", caption)
    style.save_figure(figure, path)


def _draw_busy(axes: Axes, epochs: Sequence[EpochRow]) -> None:
    from matplotlib.ticker import MaxNLocator

    totals = [[sum(layers) for layers in epoch.busy] for epoch in epochs]
    unit, scale = time_unit(max(map(max, totals)))
    numbers = [epoch.number for epoch in epochs]
    for worker, hue in zip(range(len(totals[0])), style.HUES * 99, strict=False):
        taken = [row[worker] / scale for row in totals]
        axes.plot(numbers, taken, color=hue, linewidth=1.2, label=f"worker {worker}")
    for number in (b.number for a, b in pairwise(epochs) if a.bounds != b.bounds):
        axes.axvline(number - 0.5, color=style.GREY, linestyle=":", linewidth=1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("epoch (dotted: the graph is cut anew)")
    axes.set_ylabel(f"busy, {unit}")
    axes.set_ylim(0, 1.15 * max(max(row) for row in totals[1:] or totals) / scale)
    style.plain(axes)
    axes.legend(frameon=False, ncols=4, loc="lower right")


def _finish(figure: Figure, title: str, caption: str) -> None:
    style.add_title(figure.axes[0], title)
    style.add_caption(figure, (" · ".join(filter(None, (f"graphwright {version()}", caption))),))
