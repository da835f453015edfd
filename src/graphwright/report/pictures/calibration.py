"""A calibration as a picture: measured against roofline, a point per distinct call, by family.

measured |      .  .  -          .  a call
         |   . .-  /             /  as fast as the roofline says
         |  -   /                -  the median ratio
         +------------ roofline
"""

from __future__ import annotations

from pathlib import Path

from graphwright.report.pictures.style import add_caption, check_suffix, new_figure, save_figure
from graphwright.report.tables import families
from graphwright.simulate import Calibration
from graphwright.version import __version__


def plot_calibration(calibration: Calibration, path: str | Path) -> None:
    """Draw a calibration into a .png or .svg file."""
    path = check_suffix(path)
    figure = new_figure(7, 6)
    axes = figure.add_subplot()
    for family in families(calibration):
        axes.scatter(
            [call.roofline for call in family.calls],
            [call.measured for call in family.calls],
            s=18,
            alpha=0.7,
            label=f"{family.name} ({family.quartiles[1]:.2f})",
        )
    calls = calibration.rows
    ends = [value for call in calls for value in (call.roofline, call.measured)] or [1e-6, 1.0]
    low, high = min(ends) / 2, max(ends) * 2
    ratio = calibration.median_ratio
    axes.plot([low, high], [low, high], color="black", linewidth=0.8)
    axes.plot([low, high], [low * ratio, high * ratio], color="grey", linewidth=0.8, linestyle="--")
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    axes.set(xlabel="roofline, seconds", ylabel="measured, seconds")
    axes.set_title(f"{len(calls)} calls, median measured / roofline {ratio:.2f}", loc="left")
    if calls:
        axes.legend(fontsize="x-small", title="family (median ratio)", title_fontsize="x-small")
    where = f"{calibration.device}, PyTorch {calibration.torch}, Graphwright {__version__}"
    add_caption(figure, [where])
    save_figure(figure, path)
