"""Frontiers, plans and profiles as tables and as data: what each takes, which one to take, and what it is compared with."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from graphwright.errors import DoesNotFit
from graphwright.ir import format_bytes
from graphwright.partition import Profile
from graphwright.plans import Figures, Frontier, Plan, figures_of, format_seconds

# -- frontiers ----------------------------------------------------------------------------------------


def show_frontier(frontier: Frontier, console: Console, title: str, limit: int) -> None:
    """Print a frontier: its plans by memory, those to look at marked, the ones that it is compared with below."""
    cluster = frontier.plans[0].cluster
    devices = "1 device" if cluster.num_devices == 1 else f"{cluster.num_devices} devices"
    table = Table(
        title=f"{title}: time against memory on {devices} of {cluster.name}",
        title_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
    )
    for name in ("", "memory", "estimate", "time", "estimate", "moved"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    best = _fitting(frontier, limit)
    for number, plan in enumerate(frontier, 1):
        table.add_row(str(number), *_figures(plan), _mark(frontier, plan, best, limit))
    if frontier.others:
        table.add_section()
        table.add_row("", "", "", "", "", "", "[dim]compared with[/]")
    for name, plan in frontier.others.items():
        table.add_row("", *_figures(plan), f"{name}{_against(plan, best, limit)}")
    console.print(table)
    shown = best or frontier.smallest()
    which = "the fastest plan that fits" if best is not None else "the smallest plan"
    if best is None:
        need = format_bytes(figures_of(shown).memory)
        console.print(
            f"[bold red]nothing fits[/]: a plan may take {format_bytes(limit)} of a device, the smallest needs {need}",
            highlight=False,
        )
    console.print(f"{which}: {_made_up(figures_of(shown))}", highlight=False)
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


def _made_up(f: Figures) -> str:
    """What the time and the memory of a plan are made up of."""
    held = sorted(f.breakdown.items(), key=lambda item: -item[1])
    memory = ", ".join(f"{name.replace('_', ' ')} {format_bytes(n)}" for name, n in held if n)
    time = f.time or 1.0
    return (
        f"{format_seconds(f.time)}, of which the busiest device computes {f.compute_time / time:.0%} and the busiest link moves "
        f"{f.communication_time / time:.0%}, partly at once"
        + (f"; memory: {memory}" if memory else "")
    )


def frontier_dict(frontier: Frontier, limit: int) -> dict[str, object]:
    """A frontier as JSON-ready data, without the strategies; numbers are those that `--pick` takes."""
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
        "plans": [plan_dict(plan) for plan in frontier],
        "others": {name: plan_dict(plan) for name, plan in frontier.others.items()},
        "notes": list(frontier.notes),
    }


# -- plans --------------------------------------------------------------------------------------------


def show_plan(plan: Plan, console: Console, title: str) -> None:
    """Print what one plan takes."""
    f = figures_of(plan)
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("cluster", f"{plan.cluster.name}, {_devices(plan)}")
    table.add_row("one step takes", _beside(format_seconds(f.time), f.estimate_time))
    estimate = None if f.estimate_memory is None else format_bytes(f.estimate_memory)
    have = format_bytes(min(d.memory for d in plan.cluster.devices))
    memory = f"{format_bytes(f.memory)} of {have} on the fullest device"
    table.add_row("memory", memory + (f" (estimate {estimate})" if estimate else ""))
    table.add_row("moved between devices", format_bytes(f.nbytes))
    table.add_row("made up of", _made_up(f))
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


def _devices(plan: Plan) -> str:
    count = plan.cluster.num_devices
    return "1 device" if count == 1 else f"{count} devices"


def plan_headline(plan: Plan) -> str:
    """A plan in one line: `frontier on 8 devices of dgx-h100: 12.5 ms, 14.5 GB, 3 GB moved`."""
    return f"{plan.algorithm} on {_devices(plan)} of {plan.cluster.name}: {figures_of(plan)}"


def plan_dict(plan: Plan) -> dict[str, object]:
    """What a plan takes, as JSON-ready data."""
    return {
        "algorithm": plan.algorithm,
        "seed": plan.seed,
        "cluster": plan.cluster.name,
        "devices": plan.cluster.num_devices,
        "graph": plan.graph_hash,
        **figures_of(plan).to_json(),
    }


# -- profiles -----------------------------------------------------------------------------------------


def show_profile(profile: Profile, console: Console, title: str) -> None:
    """Print the least time for each number of devices, and how well more of them pay."""
    priced = any(row.cost is not None for row in profile)
    table = Table(
        title=f"{title}: the fastest plan that fits, on {profile.cluster.name}",
        title_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
    )
    for name in (
        "devices",
        "time",
        "speed-up",
        "efficiency",
        "memory",
        *(["cost"] if priced else []),
    ):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    first = next((row for row in profile if row.time is not None), None)
    fastest, cheapest = profile.fastest(), profile.cheapest()
    for row in profile:
        cells = [str(row.num_devices)]
        if row.time is None or first is None or first.time is None:
            cells += ["-", "", "", format_bytes(row.memory)] + [""] * priced
            table.add_row(*cells, "[bold red]does not fit[/]")
            continue
        speed = first.time / row.time
        share = speed * first.num_devices / row.num_devices
        cells += [
            format_seconds(row.time),
            f"{speed:.3g}",
            f"{share:.0%}",
            format_bytes(row.memory),
        ]
        cells += ["" if row.cost is None else f"{row.cost:.3g}"] * priced
        marks = [
            word for word, best in (("fastest", fastest), ("cheapest", cheapest)) if row is best
        ]
        table.add_row(*cells, ", ".join(marks))
    console.print(table)
    if first is not None and first.num_devices > 1:
        console.print(
            f"speed-up is against {first.num_devices} devices, the fewest that it fits on",
            highlight=False,
        )
    if not priced:
        console.print(
            "[dim]cheapest is by device-seconds; the cluster has no price_per_device_hour[/]",
            highlight=False,
        )


def profile_dict(profile: Profile) -> dict[str, object]:
    """A profile as JSON-ready data."""
    return {
        "cluster": profile.cluster.name,
        "rows": [
            {
                "devices": row.num_devices,
                "time": row.time,
                "memory": row.memory,
                "cost": row.cost,
                "fits": row.time is not None,
                "algorithm": None if row.plan is None else row.plan.algorithm,
            }
            for row in profile
        ],
    }
