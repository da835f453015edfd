"""What operators take on a machine, measured against the roofline: as tables and as data."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from graphwright.describe import find
from graphwright.plans import format_seconds
from graphwright.report.tables.layout import headed, name_column, number_column, text_column
from graphwright.simulate import Calibration, MeasuredCall, Skipped, quartiles
from graphwright.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The calls of one file of the library of descriptions."""

    name: str
    calls: tuple[MeasuredCall, ...]

    @property
    def measured(self) -> float:
        """Seconds of all of them, by measurement."""
        return sum(call.measured * call.count for call in self.calls)

    @property
    def roofline(self) -> float:
        """Seconds of all of them, by the roofline."""
        return sum(call.roofline * call.count for call in self.calls)

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """Of measured over roofline."""
        return quartiles([call.ratio for call in self.calls])


def families(calibration: Calibration) -> list[Family]:
    """The families of a calibration, the longest first."""
    groups: dict[str, list[MeasuredCall]] = {}
    for row in calibration.rows:
        groups.setdefault(family_of(row.op), []).append(row)
    made = (Family(name=name, calls=tuple(calls)) for name, calls in groups.items())
    return sorted(made, key=lambda family: -family.measured)


def family_of(op: str) -> str:
    """The file of the library that describes an operator; its namespace where none does."""
    description = find(op)
    if description is None:
        return op.partition(".")[0]
    return description.function.__module__.rpartition(".")[2]


def to_dict(calibration: Calibration) -> dict[str, object]:
    """A calibration as JSON-ready data."""
    low, middle, high = calibration.quartiles
    figures = calibration.figures
    return {
        "version": __version__,
        "device": calibration.device,
        "torch": calibration.torch,
        "figures": {
            "memory": figures.memory,
            "bandwidth": figures.bandwidth,
            "launch": figures.launch,
            "rates": dict(figures.rates),
        },
        "calls": len(calibration.rows),
        "new": calibration.num_new,
        "free": calibration.num_free,
        "disturbed": calibration.num_disturbed,
        "ratio": {"median": middle, "quartiles": [low, high], "spread": high - low},
        "measured": calibration.measured,
        "roofline": calibration.roofline,
        "families": [
            {
                "family": family.name,
                "calls": len(family.calls),
                "measured": family.measured,
                "roofline": family.roofline,
                "ratio": family.quartiles[1],
                "quartiles": [family.quartiles[0], family.quartiles[2]],
            }
            for family in families(calibration)
        ],
        "rows": [
            _call_dict(row)
            | {
                "outputs": [str(t) for t in row.types.outputs],
                "measured": row.measured,
                "spread": row.spread,
                "repeats": row.repeats,
                "roofline": row.roofline,
                "ratio": row.ratio,
                "new": row.new,
            }
            for row in calibration.rows
        ],
        "skipped": [_call_dict(skip) | {"reason": skip.reason} for skip in calibration.skipped],
    }


def _call_dict(call: MeasuredCall | Skipped) -> dict[str, object]:
    return {
        "op": call.op,
        "attrs": call.attrs.text,
        "inputs": [None if t is None else str(t) for t in call.types.inputs],
        "count": call.count,
    }


def show(calibration: Calibration, console: Console, rows: int = 12) -> None:
    """Print the longest calls, the families and the sums."""
    device, calls = calibration.device, calibration.rows
    if calls:
        console.print(_calls_table(calibration, rows))
        console.print(_families_table(calibration))
        low, middle, high = calibration.quartiles
        measured, roofline = calibration.measured, calibration.roofline
        console.print(
            f"{device}, PyTorch {calibration.torch}: {len(calls)} distinct calls, "
            f"{calibration.num_new} measured now; {calibration.num_free} calls are views or "
            "constants, which take no time."
        )
        console.print(
            f"Measured / roofline: median {middle:.2f}, half of the calls between {low:.2f} and "
            f"{high:.2f}. All calls in turn: {format_seconds(measured)} measured, "
            f"{format_seconds(roofline)} by the roofline ({measured / roofline:.2f})."
        )
        if calibration.num_disturbed:
            console.print(
                f"{calibration.num_disturbed} of them vary by more than a tenth: the machine was "
                "busy with other work, or its clock rate changed. A store of its own (--store) "
                "takes measurements anew."
            )
    else:
        console.print(f"{device}: nothing was measured.")
    for skip in calibration.skipped:
        call = f"{skip.op}({_inputs_text(skip)})"
        console.print(f"  not measured: {call}: {skip.reason}", highlight=False)


def _inputs_text(call: MeasuredCall | Skipped) -> str:
    return ", ".join("-" if t is None else str(t) for t in call.types.inputs)


def _calls_table(calibration: Calibration, rows: int) -> Table:
    numbers = map(number_column, ("times", "measured", "roofline", "ratio"))
    title = f"The longest calls on {calibration.device}"
    table = headed(title, name_column("operator"), text_column("inputs"), *numbers)
    for row in calibration.rows[:rows]:
        table.add_row(
            row.op,
            _inputs_text(row),
            str(row.count),
            f"{format_seconds(row.measured)} ± {row.spread / row.measured:.0%}",
            format_seconds(row.roofline),
            f"{row.ratio:.3g}",
        )
    return table


def _families_table(calibration: Calibration) -> Table:
    headings = ("calls", "measured", "roofline", "median ratio", "quartiles")
    table = headed(
        "Families of operators", name_column("family", no_wrap=True), *map(number_column, headings)
    )
    for family in families(calibration):
        low, middle, high = family.quartiles
        table.add_row(
            family.name,
            str(len(family.calls)),
            format_seconds(family.measured),
            format_seconds(family.roofline),
            f"{middle:.3g}",
            f"{low:.3g} to {high:.3g}",
        )
    return table
