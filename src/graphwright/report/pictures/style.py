"""What the pictures share: files of two kinds, colours, plain axes, captions."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from graphwright.errors import GraphFileError
from graphwright.ir import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")
DPI = 150
INK, FAINT, GREY, LIMIT = "#333333", "#e4e4e4", "#777777", "#b00020"
HUES = (
    "#4c78a8",
    "#f2a541",
    "#5aa469",
    "#d1495b",
    "#7b5ea7",
    "#2a9d8f",
    "#e29ac0",
    "#8a817c",
    "#a3b545",
    "#3d405b",
)


def check_suffix(path: str | Path) -> Path:
    """The path of a picture; refused before anything is drawn unless it ends in .png or .svg."""
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise GraphFileError(f"{path}: the name of a picture has to end in {' or '.join(SUFFIXES)}")
    return path


def new_figure(width: float, height: float) -> Figure:
    """An empty figure that no window belongs to."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.08))
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure: all of it, or nothing; the same figure makes the same file."""
    from matplotlib import rc_context

    kind = path.suffix.removeprefix(".")
    made = BytesIO()
    with rc_context({"svg.hashsalt": "graphwright", "svg.fonttype": "none"}):
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(made, format=kind, dpi=DPI, metadata=metadata)
    write_atomically(path, made.getvalue())


def add_caption(figure: Figure, lines: Iterable[str]) -> None:
    """Put small lines under a figure."""
    text = "\n".join(line for line in lines if line)
    figure.supxlabel(text, fontsize=8, color=GREY, x=0.01, ha="left", linespacing=1.4)


def add_title(axes: Axes, title: str, pad: float = 12) -> None:
    """Put the title over axes, on the left, with `pad` points between."""
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", color=INK, pad=pad)


def plain(axes: Axes, grid: str = "both") -> None:
    """Take away what says nothing: the frame and the ticks; a faint grid stays."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set(color=INK, linewidth=0.6)
    axes.tick_params(which="both", length=0, colors=INK)
    axes.grid(axis=grid, color=FAINT, linewidth=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def byte_unit(count: float) -> tuple[float, str]:
    """The unit to write so many bytes in: its bytes, and its name."""
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= size:
            return size, unit
    return 1.0, "bytes"


def plain_ticks(axes: Axes, which: str) -> None:
    """Write ticks of a logarithmic axis as plain numbers, on a short one those of 2 and 5 too."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    steps: tuple[float, ...] = (1.0,) if high / low > 1000 else (1.0, 2.0, 5.0)
    if high / low < 8:
        steps = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
    axis.set_major_locator(LogLocator(subs=steps, numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
