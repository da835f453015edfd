"""A frontier as a table and as data: its plans, which one to take, what it is compared with."""

from __future__ import annotations

from rich.console import Console

from graphwright.errors import DoesNotFit
from graphwright.ir import format_bytes
from graphwright.plans import Frontier, Plan, figures_of, format_seconds
from graphwright.report.tables import plan as plan_tables
from graphwright.report.tables.layout import headed_plainly, number_column, text_column


def show(frontier: Frontier, console: Console, title: str, limit: int) -> None:
    """Print the plans by memory, those to look at marked, and below what they are compared with.

    `limit` is what a plan may take of a device.
    """
    first = frontier.plans[0]
    where = f"{plan_tables.num_devices(first)} of {first.cluster.name}"
    rate = f"{figures_of(first).unit}/s"
    numbers = map(number_column, ("", "memory", "estimate", "time", "estimate", rate, "moved"))
    title = f"{title}: time against memory on {where}"
    table = headed_plainly(*numbers, text_column(""), title=title)
    best = _fitting(frontier, limit)
    for number, plan in enumerate(frontier, 1):
        table.add_row(str(number), *_figures(plan), _mark(frontier, plan, best, limit))
    if frontier.others:
        table.add_section()
        table.add_row("", "", "", "", "", "", "", "[dim]compared with[/]")
    for name, plan in frontier.others.items():
        table.add_row("", *_figures(plan), f"{name}{_against(plan, best, limit)}")
    console.print(table)
    shown = best or frontier.smallest()
    which = "the fastest plan that fits" if best is not None else "the smallest plan"
    if best is None:
        need = format_bytes(figures_of(shown).memory)
        console.print(
            f"[bold red]nothing fits[/]: a plan may take {format_bytes(limit)} of a device, "
            f"the smallest needs {need}",
            highlight=False,
        )
    console.print(f"{which}: {plan_tables.made_up(figures_of(shown))}", highlight=False)
    words = plan_tables.throughput_words(figures_of(shown), shown.cluster)
    if words:
        console.print(f"it trains {words}", highlight=False)
    for note in frontier.notes:
        console.print(f"[dim]note: {note}[/]", highlight=False)


def _fitting(frontier: Frontier, limit: int) -> Plan | None:
    try:
        return frontier.fastest(limit)
    except DoesNotFit:
        return None


def _figures(plan: Plan) -> tuple[str, ...]:
    f = figures_of(plan)
    return (
        format_bytes(f.memory),
        "" if f.estimate_memory is None else f"[dim]{format_bytes(f.estimate_memory)}[/]",
        format_seconds(f.time),
        "" if f.estimate_time is None else f"[dim]{format_seconds(f.estimate_time)}[/]",
        plan_tables.short(rate) if (rate := f.rate(plan.cluster.num_devices)) else "",
        format_bytes(f.nbytes),
    )


def _mark(frontier: Frontier, plan: Plan, best: Plan | None, limit: int) -> str:
    marks = []
    if plan is best:
        marks.append(f"[bold green]fastest within {format_bytes(limit)}[/]")
    if len(frontier) > 2 and plan is frontier.turning_point():
        marks.append("turning point")
    if plan.algorithm != "frontier":
        marks.append(f"by {plan.algorithm}")
    return ", ".join(marks)


def _against(plan: Plan, best: Plan | None, limit: int) -> str:
    """How a plan compares with the best."""
    if figures_of(plan).memory > limit:
        return ": does not fit"
    if best is None or not figures_of(best).time:
        return ""
    ratio = figures_of(plan).time / figures_of(best).time
    return f": {ratio:.3g} times as long" if ratio > 1.005 else ": as fast"


def to_dict(frontier: Frontier, limit: int) -> dict[str, object]:
    """A frontier as JSON-ready data, without strategies; numbers are those that `--pick` takes."""
    best = _fitting(frontier, limit)
    turning = frontier.turning_point()
    first = frontier.plans[0]
    return {
        "cluster": first.cluster.name,
        "devices": first.cluster.num_devices,
        "graph": first.graph_hash,
        "memory_limit": limit,
        "fastest_that_fits": None if best is None else 1 + frontier.plans.index(best),
        "turning_point": 1 + frontier.plans.index(turning),
        "plans": [plan_tables.to_dict(plan) for plan in frontier],
        "others": {name: plan_tables.to_dict(plan) for name, plan in frontier.others.items()},
        "notes": list(frontier.notes),
    }
