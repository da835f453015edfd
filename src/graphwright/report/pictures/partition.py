"""A partition as a picture: which device has which tile of every tensor (Tofu, figure 11).

               layer1.0          layer1.1 to 2   x2
    weights    +--+--+  +-----+  +--+--+            tiles in the colour of the device that has them;
               |0 |1 |  |0    |  |0 |1 |            a tile of several devices is striped,
               +--+--+  +-----+  +--+--+            one that all devices have is grey
               |2 |3 |  |1    |  |2 |3 |
               +--+--+  +-----+  +--+--+
    data       batch down, channel across

Weights have their output channels down and their input channels across. A dim that is split takes
the place of one that is not, so that every cut is seen; what is cut along a third dim is said in
words. Sizes grow with the logarithm of the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphwright.ir import Graph
from graphwright.plans import Plan, boxes
from graphwright.report.pictures import style
from graphwright.report.pictures.partition_tensors import DrawnLayer, DrawnTensor, Run, find_runs
from graphwright.simulate import caption

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Colour = tuple[float, float, float] | str
Polygon = list[tuple[float, float]]
Rectangular = tuple[float, float, float, float]

COLUMN, GAP, RUN_GAP = 1.25, 0.1, 0.3
HEAD, ROW = 0.5, 1.5
LINE = HEAD + 2 * ROW + 0.2
STRIPE = 0.09
ACROSS = 12
"""Columns in one line of the picture."""
EVERY = "#dcdcdc"
MOST_NAMED = 16


@dataclass(frozen=True, slots=True)
class Tile:
    """A part of a rectangle, as shares of its two sides, and the devices that have it."""

    top: float
    left: float
    bottom: float
    right: float
    owners: tuple[int, ...]


def plot_partition(
    graph: Graph, plan: Plan, path: str | Path, *, num: int = 36, title: str | None = None
) -> None:
    """Draw how a plan cuts weights and activations into a .png or .svg file.

    Repeated blocks are drawn once. Of more than `num` weights those of the largest blocks are
    shown.
    """
    path = style.check_suffix(path)
    style.save_figure(draw_partition(graph, plan, num=num, title=title), path)


def draw_partition(graph: Graph, plan: Plan, *, num: int = 36, title: str | None = None) -> Figure:
    """The picture as a Matplotlib figure."""
    every = find_runs(graph, plan)
    runs = _largest(every, num)
    lines = _lines(runs)
    width = max([_width(line) for line in lines], default=COLUMN * 4)
    width, height = max(width, 6.0), LINE * max(1, len(lines))
    figure = style.new_figure(width + 1.0, height + 1.25)
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_xlim(-0.75, width + 0.1)
    axes.set_ylim(height - 0.05, -0.05)
    axes.set_aspect("equal")
    colours = device_colours(plan.cluster.num_devices)
    sizes = _sizes(runs)
    for at, line in enumerate(lines):
        _draw_line(axes, line, at * LINE, colours, sizes)
    style.add_title(axes, title or f"Who has what: {plan.algorithm} on {plan.cluster.name}", pad=28)
    _add_legend(axes, colours)
    shown, there = (sum(len(run.layers) for run in some) for some in (runs, every))
    left_out = (
        f"{shown} of {there} weights shown, those of the largest blocks" if shown < there else ""
    )
    where = caption(plan.cluster.name, plan.algorithm, plan.seed, plan.graph_hash)
    style.add_caption(figure, (left_out, where))
    return figure


def device_colours(count: int) -> list[Colour]:
    """A colour for every device."""
    if count <= len(style.HUES):
        return list(style.HUES[:count])
    from colorsys import hls_to_rgb

    shades = (0.42, 0.6, 0.75)
    return [hls_to_rgb(d / count, shades[d % 3], 0.55) for d in range(count)]


def tiles(tensor: DrawnTensor) -> tuple[tuple[int, int], list[Tile], str]:
    """The dims to draw, down and across; the tiles along them; cuts along other dims, in words."""
    shape, sharding = tensor.type.shape, tensor.sharding
    split = [dim for dim in range(len(shape)) if sharding.ways(dim) > 1]
    down, across = _usual_dims(tensor)
    for dim in split:
        if dim in (down, across):
            continue
        if across not in split:
            across = dim
        elif down not in split:
            down = dim
    down, across = min(down, across), max(down, across)
    more = [f"{tensor.names[d]} ÷{sharding.ways(d)}" for d in split if d not in (down, across)]
    if sharding.is_partial:
        more.append("terms of a sum")
    owners: dict[tuple[int, int, int, int], list[int]] = {}
    held = boxes(sharding, shape)
    for device, box in zip(sharding.mesh.devices, held.tolist(), strict=True):
        corner = (*box[down], *box[across]) if down != across else (0, 1, *box[across])
        owners.setdefault(corner, []).append(device)
    high, wide = (shape[down] if down != across else 1), shape[across]
    cut = [
        Tile(top / high, left / wide, bottom / high, right / wide, tuple(sorted(devices)))
        for (top, bottom, left, right), devices in owners.items()
        if bottom > top and right > left
    ]
    return (down, across), cut, ", ".join(more)


def _usual_dims(tensor: DrawnTensor) -> tuple[int, int]:
    """Batch and channel of an activation, output and input channel of a weight."""
    rank = tensor.type.rank
    if rank < 2:
        return 0, 0
    return (0, rank - 1) if tensor.names[-1] == "channel" else (0, 1)


def _largest(runs: tuple[Run, ...], num: int) -> tuple[Run, ...]:
    """Runs of no more than `num` weights together, the largest, in their order."""
    order = sorted(
        range(len(runs)), key=lambda r: -sum(b.weight.type.nbytes for b in runs[r].layers)
    )
    kept: list[int] = []
    room = num
    for at in order:
        if len(runs[at].layers) <= room or not kept:
            kept.append(at)
            room -= len(runs[at].layers)
    return tuple(runs[at] for at in sorted(kept))


def _lines(runs: tuple[Run, ...]) -> list[list[Run]]:
    """The runs in lines of about equal length."""
    total = sum(len(run.layers) for run in runs)
    aim = ceil(total / max(1, ceil(total / ACROSS)))
    lines: list[list[Run]] = []
    used = 0
    for run in runs:
        for start in range(0, len(run.layers), ACROSS):
            part = Run(run.path, run.last, run.count, run.layers[start : start + ACROSS])
            if not lines or used + len(part.layers) > aim + 1:
                lines.append([])
                used = 0
            lines[-1].append(part)
            used += len(part.layers)
    return lines


def _width(line: list[Run]) -> float:
    return sum(len(run.layers) for run in line) * (COLUMN + GAP) + RUN_GAP * len(line)


def _sizes(runs: tuple[Run, ...]) -> tuple[float, float]:
    """The logarithms of the smallest and the largest tensor's bytes."""
    layers = [layer for run in runs for layer in run.layers]
    tensors = [t for layer in layers for t in (layer.weight, layer.data) if t is not None]
    sizes = [log(max(1, tensor.type.nbytes)) for tensor in tensors] or [0.0]
    return min(sizes), max(sizes)


def _draw_line(
    axes: Axes, line: list[Run], top: float, colours: list[Colour], sizes: tuple[float, float]
) -> None:
    from matplotlib.patches import FancyBboxPatch

    for row, word in enumerate(("weights", "data")):
        y = top + HEAD + (row + 0.46) * ROW
        _write(axes, -0.45, y, word, 9, rotation=90, ha="center", fontweight="bold")
    x = 0.0
    for run in line:
        width = len(run.layers) * (COLUMN + GAP)
        box = FancyBboxPatch(
            (x - 0.05, top + 0.05), width + 0.1, LINE - 0.15,
            boxstyle="round,pad=0,rounding_size=0.06", linewidth=0.7, edgecolor="#c8c8c8",
            facecolor="#fafafa" if run.count == 1 else "#f1f5f9", zorder=0,
        )  # fmt: skip
        axes.add_patch(box)
        narrow = run.count == 1 and len(run.layers) == 1
        _write(axes, x + 0.05, top + 0.22, _short(run.title, 16 if narrow else 60), 8)
        if run.count > 1:
            times = f"×{run.count}"
            _write(axes, x + width, top + 0.22, times, 11, ha="right", fontweight="bold")
        for layer in run.layers:
            _draw_layer(axes, layer, x + (COLUMN + GAP) / 2, top, colours, sizes)
            x += COLUMN + GAP
        x += RUN_GAP


def _draw_layer(
    axes: Axes,
    layer: DrawnLayer,
    middle: float,
    top: float,
    colours: list[Colour],
    sizes: tuple[float, float],
) -> None:
    name = _short(layer.name, 22)
    _write(axes, middle, top + 0.46, name, 6.5, ha="center", color=style.GREY)
    for row, tensor in enumerate((layer.weight, layer.data)):
        if tensor is not None:
            _draw_tensor(axes, tensor, middle, top + HEAD + (row + 0.46) * ROW, colours, sizes)


def _draw_tensor(
    axes: Axes,
    tensor: DrawnTensor,
    x: float,
    y: float,
    colours: list[Colour],
    sizes: tuple[float, float],
) -> None:
    """A tensor as a rectangle around (x, y), its dims written at its sides."""
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Rectangle

    (down, across), cut, more = tiles(tensor)
    width, height = _sides(tensor, down, across, sizes)
    left, top = x - width / 2 + 0.06, y - height / 2
    shapes: list[Polygon] = []
    fills: list[Colour] = []
    for tile in cut:
        rectangle = (
            left + tile.left * width,
            top + tile.top * height,
            (tile.right - tile.left) * width,
            (tile.bottom - tile.top) * height,
        )
        hues = [colours[device] for device in tile.owners]
        if len(hues) == len(colours) > 1:
            hues = [EVERY]
        stripes = _stripes(rectangle, len(hues))
        shapes += stripes
        fills += [hues[at % len(hues)] for at in range(len(stripes))]
    # a hair's breadth over the edge, so that no light is seen between stripes
    fill = PolyCollection(shapes, facecolors=fills, edgecolors="face", linewidths=0.25)
    axes.add_collection(fill, autolim=False)
    edge = 0.9 if len(cut) <= 8 else 0.5 if len(cut) <= 64 else 0.2
    for tile in cut:
        corner = (left + tile.left * width, top + tile.top * height)
        size = ((tile.right - tile.left) * width, (tile.bottom - tile.top) * height)
        axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor="white", linewidth=edge))
    axes.add_patch(
        Rectangle((left, top), width, height, fill=False, edgecolor=style.INK, linewidth=0.9)
    )
    shape = tensor.type.shape
    if down != across:
        label = f"{tensor.names[down]} {shape[down]}"
        _write(axes, left - 0.04, y, label, 6, rotation=90, ha="right")
    label = f"{tensor.names[across]} {shape[across]}" + (f"\n{more}" if more else "")
    below = top + height + 0.03
    _write(axes, x + 0.06, below, label, 6, ha="center", va="top", linespacing=1.1)


def _write(axes: Axes, x: float, y: float, text: str, size: float, **how: Any) -> None:
    axes.text(x, y, text, fontsize=size, **{"va": "center", "color": style.INK} | how)


def _sides(
    tensor: DrawnTensor, down: int, across: int, sizes: tuple[float, float]
) -> tuple[float, float]:
    """Width and height: the area by the bytes, the proportions roughly the tensor's."""
    low, high = sizes
    share = (log(max(1, tensor.type.nbytes)) - low) / ((high - low) or 1.0)
    side = 0.55 + 0.4 * share
    shape = tensor.type.shape
    ratio = 1.0 if down == across else (max(1, shape[across]) / max(1, shape[down])) ** 0.1
    ratio = min(1.25, max(0.8, ratio))
    return side * ratio**0.5, side / ratio**0.5


def _stripes(rectangle: Rectangular, owners: int) -> list[Polygon]:
    """A rectangle in slanting stripes, as many for each owner."""
    left, top, width, height = rectangle
    if owners == 1:
        right, bottom = left + width, top + height
        return [[(left, top), (right, top), (right, bottom), (left, bottom)]]
    length = width + height
    count = owners * max(2, round(length / (owners * STRIPE)))
    return [
        [
            (left + x, top + y)
            for x, y in _between(width, height, at * length / count, (at + 1) * length / count)
        ]
        for at in range(count)
    ]  # fmt: skip


def _between(width: float, height: float, begin: float, end: float) -> Polygon:
    """What of a rectangle at the origin lies between the lines x + y = begin and x + y = end."""
    first, second = _ends(width, height, begin), _ends(width, height, end)
    over = [(width, 0.0)] if begin < width < end else []
    under = [(0.0, height)] if begin < height < end else []
    return [first[0], *over, second[0], second[1], *under, first[1]]


def _ends(width: float, height: float, at: float) -> Polygon:
    """Where the line x + y = at meets the rectangle: top or right, and left or bottom."""
    return [(min(at, width), max(0.0, at - width)), (max(0.0, at - height), min(at, height))]


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"…{text[-most + 1 :]}"


def _add_legend(axes: Axes, colours: list[Colour]) -> None:
    from matplotlib.patches import Patch

    count = len(colours)
    shown = (
        list(range(count))
        if count <= MOST_NAMED
        else [round(i * (count - 1) / 7) for i in range(8)]
    )
    handles = [
        Patch(color=colours[d], label=f"device {d}" if d == shown[0] else str(d)) for d in shown
    ]
    if count > 1:
        handles.append(Patch(facecolor=EVERY, edgecolor=style.FAINT, label="every device"))
    axes.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(handles), frameon=False,
        fontsize=8, handlelength=1, handleheight=1, columnspacing=0.9, borderaxespad=0.1,
    )  # fmt: skip
