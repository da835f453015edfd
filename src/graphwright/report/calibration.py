"""What operators take on a machine, measured against the roofline: tables, JSON, a scatter plot."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from rich.console import Console
from rich.table import Table

from graphwright.describe import find
from graphwright.errors import GraphFileError
from graphwright.ir import write_atomically
from graphwright.simulate import Calibration, Row, quartiles
from graphwright.version import __version__

PLOT_SUFFIXES = (".png", ".svg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The calls of one file of the library of descriptions, with all of their seconds."""

    name: str
    num_calls: int
    measured: float
    roofline: float
    quartiles: tuple[float, float, float]

    @property
    def ratio(self) -> float:
        """The median of measured over roofline."""
        return self.quartiles[1]


def families(found: Calibration) -> list[Family]:
    """The families of a calibration, the longest first."""
    groups: dict[str, list[Row]] = {}
    for row in found.rows:
        groups.setdefault(family_of(row.op), []).append(row)
    rows = [
        Family(
            name=name,
            num_calls=len(group),
            measured=sum(row.measured * row.count for row in group),
            roofline=sum(row.roofline * row.count for row in group),
            quartiles=quartiles([row.ratio for row in group]),
        )
        for name, group in groups.items()
    ]
    return sorted(rows, key=lambda family: -family.measured)


def family_of(op: str) -> str:
    """The file of the library that describes an operator; its namespace where none does."""
    description = find(op)
    if description is None:
        return op.partition(".")[0]
    return description.function.__module__.rpartition(".")[2]


def calibration_dict(found: Calibration) -> dict[str, object]:
    """A calibration as JSON-ready data."""
    low, middle, high = found.quartiles
    figures = found.figures
    return {
        "version": __version__,
        "device": found.device,
        "torch": found.torch,
        "figures": {
            "memory": figures.memory,
            "bandwidth": figures.bandwidth,
            "launch": figures.launch,
            "rates": dict(figures.rates),
        },
        "calls": len(found.rows),
        "new": found.num_new,
        "free": found.num_free,
        "disturbed": found.num_disturbed,
        "ratio": {"median": middle, "quartiles": [low, high], "spread": high - low},
        "measured": found.measured,
        "roofline": found.roofline,
        "families": [
            {
                "family": family.name,
                "calls": family.num_calls,
                "measured": family.measured,
                "roofline": family.roofline,
                "ratio": family.ratio,
                "quartiles": [family.quartiles[0], family.quartiles[2]],
            }
            for family in families(found)
        ],
        "rows": [
            {
                "op": row.op,
                "attrs": row.attrs.text,
                "inputs": [None if t is None else str(t) for t in row.types.inputs],
                "outputs": [str(t) for t in row.types.outputs],
                "count": row.count,
                "measured": row.measured,
                "spread": row.spread,
                "repeats": row.repeats,
                "roofline": row.roofline,
                "ratio": row.ratio,
                "new": row.new,
            }
            for row in found.rows
        ],
        "skipped": [
            {
                "op": skip.op,
                "attrs": skip.attrs.text,
                "inputs": [None if t is None else str(t) for t in skip.types.inputs],
                "count": skip.count,
                "reason": skip.reason,
            }
            for skip in found.skipped
        ],
    }


# -- as tables ----------------------------------------------------------------------------------------


def show_calibration(found: Calibration, console: Console, rows: int = 12) -> None:
    """Print the longest calls, the families and the sums."""
    if found.rows:
        console.print(_calls_table(found, rows))
        console.print(_families_table(found))
        low, middle, high = found.quartiles
        console.print(
            f"{found.device}, PyTorch {found.torch}: {len(found.rows)} distinct calls, {found.num_new} measured now; "
            f"{found.num_free} calls are views or constants, which take no time."
        )
        console.print(
            f"Measured / roofline: median {middle:.2f}, half of the calls between {low:.2f} and {high:.2f}. All calls in "
            f"turn: {show_seconds(found.measured)} measured, {show_seconds(found.roofline)} by the roofline "
            f"({found.measured / found.roofline:.2f})."
        )
        if found.num_disturbed:
            console.print(
                f"{found.num_disturbed} of them vary by more than a tenth: the machine was busy with other work, or its clock "
                "rate changed. A store of its own (--store) takes measurements anew."
            )
    else:
        console.print(f"{found.device}: nothing was measured.")
    for skip in found.skipped:
        types = ", ".join("-" if t is None else str(t) for t in skip.types.inputs)
        console.print(f"  not measured: {skip.op}({types}): {skip.reason}", highlight=False)


def _calls_table(found: Calibration, rows: int) -> Table:
    table = Table(title=f"The longest calls on {found.device}", title_justify="left")
    table.add_column("operator", style="bold", overflow="fold")
    table.add_column("inputs", overflow="fold")
    for heading in ("times", "measured", "roofline", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in found.rows[:rows]:
        table.add_row(
            row.op,
            ", ".join("-" if t is None else str(t) for t in row.types.inputs),
            str(row.count),
            f"{show_seconds(row.measured)} ± {row.spread / row.measured:.0%}",
            show_seconds(row.roofline),
            f"{row.ratio:.3g}",
        )
    return table


def _families_table(found: Calibration) -> Table:
    table = Table(title="Families of operators", title_justify="left")
    table.add_column("family", style="bold", no_wrap=True)
    for heading in ("calls", "measured", "roofline", "median ratio", "quartiles"):
        table.add_column(heading, justify="right", no_wrap=True)
    for family in families(found):
        low, middle, high = family.quartiles
        table.add_row(
            family.name,
            str(family.num_calls),
            show_seconds(family.measured),
            show_seconds(family.roofline),
            f"{middle:.3g}",
            f"{low:.3g} to {high:.3g}",
        )
    return table


def show_seconds(seconds: float) -> str:
    """Write a time in the unit that suits it: `3.2 ms`."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 0.9995:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


# -- as a picture -------------------------------------------------------------------------------------


def plot_calibration(found: Calibration, path: str | Path) -> None:
    """Draw measured against roofline, one point per distinct call, into a .png or .svg file."""
    path = Path(path)
    if path.suffix not in PLOT_SUFFIXES:
        raise GraphFileError(f"{path}: the name has to end in {', '.join(PLOT_SUFFIXES)}")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 6), layout="constrained")
    axes = figure.add_subplot()
    points: dict[str, list[Row]] = {}
    for row in found.rows:
        points.setdefault(family_of(row.op), []).append(row)
    for family in families(found):
        rows = points[family.name]
        axes.scatter(
            [row.roofline for row in rows],
            [row.measured for row in rows],
            s=18,
            alpha=0.7,
            label=f"{family.name} ({family.ratio:.2f})",
        )
    ends = [value for row in found.rows for value in (row.roofline, row.measured)] or [1e-6, 1.0]
    low, high = min(ends) / 2, max(ends) * 2
    axes.plot([low, high], [low, high], color="black", linewidth=0.8)
    middle = found.median_ratio
    axes.plot(
        [low, high], [low * middle, high * middle], color="grey", linewidth=0.8, linestyle="--"
    )
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    axes.set(xlabel="roofline, seconds", ylabel="measured, seconds")
    axes.set_title(f"{len(found.rows)} calls, median measured / roofline {middle:.2f}", loc="left")
    if found.rows:
        axes.legend(fontsize="x-small", title="family (median ratio)", title_fontsize="x-small")
    figure.supxlabel(
        f"{found.device}, PyTorch {found.torch}, Graphwright {__version__}", fontsize="x-small"
    )
    buffer = BytesIO()
    kind = path.suffix.removeprefix(".")
    figure.savefig(buffer, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    write_atomically(path, buffer.getvalue())
