"""One substitution as a picture: source and target graph side by side, inputs at the top.

A node is below all that it reads, and above what reads it; nodes of one depth share a row.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from graphwright.report.pictures.style import (
    FAINT,
    HUES,
    INK,
    add_caption,
    add_title,
    check_suffix,
    new_figure,
    save_figure,
)
from graphwright.rewrite import substitutions

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_rule(rule: substitutions.Rule, path: str | Path) -> None:
    """Draw a rule into a .png or .svg file."""
    path = check_suffix(path)
    item = rule.substitution
    figure = new_figure(9, 4.5)
    for axes, title, outputs in zip(
        figure.subplots(1, 2), ("source", "target"), (item.source, item.target), strict=True
    ):
        _draw(axes, outputs)
        add_title(axes, title)
    guard = f"where {', '.join(map(str, item.guards))}" if item.guards else ""
    add_caption(figure, [f"rule {rule.number}: {item}"[:150], guard])
    save_figure(figure, path)


def _draw(axes: Axes, outputs: tuple[substitutions.Expression, ...]) -> None:
    places = _places(outputs)
    for e, (x, y) in places.items():
        for arg in e.args if isinstance(e, substitutions.Term) else ():
            start = places[substitutions.operator_of(arg)]
            axes.annotate(
                "", (x, y + 0.16), (start[0], start[1] - 0.16),
                arrowprops={"arrowstyle": "-|>", "color": INK, "linewidth": 0.8},
            )  # fmt: skip
        given = isinstance(e, substitutions.Input)
        text = e.name if isinstance(e, substitutions.Input) else e.label.replace("split0", "split")
        box = {"boxstyle": "round,pad=0.35", "facecolor": FAINT if given else HUES[0]}
        axes.text(
            x, y, text, ha="center", va="center", fontsize=9, color=INK if given else "white",
            bbox={**box, "edgecolor": "none"},
        )  # fmt: skip
    for number, output in enumerate(outputs):
        x, y = places[substitutions.operator_of(output)]
        axes.text(x + 0.12 * number, y - 0.32, f"output {number}", ha="center", fontsize=8)
    rows = [y for _, y in places.values()]
    axes.set(xlim=(-0.15, 1.15), ylim=(min(rows) - 0.6, max(rows) + 0.5))
    axes.axis("off")


def _places(
    outputs: tuple[substitutions.Expression, ...],
) -> dict[substitutions.Expression, tuple[float, float]]:
    """Where every node is: its row is the longest way from an input."""
    depth: dict[substitutions.Expression, int] = {}
    for e in substitutions.subterms(*outputs):
        e = substitutions.operator_of(e)
        args = e.args if isinstance(e, substitutions.Term) else ()
        depth[e] = 1 + max((depth[substitutions.operator_of(arg)] for arg in args), default=-1)
    rows: dict[int, list[substitutions.Expression]] = defaultdict(list)
    for e, row in depth.items():
        rows[row].append(e)
    return {
        e: ((n + 0.5) / len(row), -float(d)) for d, row in rows.items() for n, e in enumerate(row)
    }
