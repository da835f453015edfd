"""One plan as a table, as data and in a line: what it takes, and what that is made up of."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from graphwright.ir import format_bytes
from graphwright.plans import Figures, Plan, figures_of, format_seconds


def show(plan: Plan, console: Console, title: str) -> None:
    """Print what one plan takes."""
    f = figures_of(plan)
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("cluster", f"{plan.cluster.name}, {num_devices(plan)}")
    table.add_row("one step takes", _beside(format_seconds(f.time), f.estimate_time))
    estimate = None if f.estimate_memory is None else format_bytes(f.estimate_memory)
    have = format_bytes(min(d.memory for d in plan.cluster.devices))
    memory = f"{format_bytes(f.memory)} of {have} on the fullest device"
    table.add_row("memory", memory + (f" (estimate {estimate})" if estimate else ""))
    table.add_row("moved between devices", format_bytes(f.nbytes))
    table.add_row("made up of", made_up(f))
    table.add_row(
        "found by", plan.algorithm if plan.seed is None else f"{plan.algorithm}, seed {plan.seed}"
    )
    table.add_row(
        "strategies",
        f"{len(set(plan.strategies.values()))} distinct, for {len(plan.strategies):,} operators",
    )
    console.print(table)


def _beside(text: str, estimate: float | None) -> str:
    return text if estimate is None else f"{text} (estimate {format_seconds(estimate)})"


def num_devices(plan: Plan) -> str:
    """`8 devices`."""
    count = plan.cluster.num_devices
    return "1 device" if count == 1 else f"{count} devices"


def headline(plan: Plan) -> str:
    """A plan in one line: `frontier on 8 devices of dgx-h100: 12.5 ms, 14.5 GB, 3 GB moved`."""
    return f"{plan.algorithm} on {num_devices(plan)} of {plan.cluster.name}: {figures_of(plan)}"


def to_dict(plan: Plan) -> dict[str, object]:
    """What a plan takes, as JSON-ready data."""
    return {
        "algorithm": plan.algorithm,
        "seed": plan.seed,
        "cluster": plan.cluster.name,
        "devices": plan.cluster.num_devices,
        "graph": plan.graph_hash,
        **figures_of(plan).to_json(),
    }


def made_up(f: Figures) -> str:
    """What the time and the memory of a plan are made up of."""
    held = sorted(f.breakdown.items(), key=lambda item: -item[1])
    memory = ", ".join(f"{name.replace('_', ' ')} {format_bytes(n)}" for name, n in held if n)
    time = f.time or 1.0
    return (
        f"{format_seconds(f.time)}, of which the busiest device computes "
        f"{f.compute_time / time:.0%} and the busiest link moves "
        f"{f.communication_time / time:.0%}, partly at once"
        + (f"; memory: {memory}" if memory else "")
    )
