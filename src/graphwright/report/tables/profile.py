"""A profile as a table and as data: the least time for each number of devices."""

from __future__ import annotations

from rich.console import Console

from graphwright.ir import format_bytes
from graphwright.partition import Profile
from graphwright.plans import format_seconds
from graphwright.report.tables.layout import headed_plainly, number_column


def show(profile: Profile, console: Console, title: str) -> None:
    """Print the least time for each number of devices, and how well more of them pay."""
    priced = any(row.cost is not None for row in profile)
    title = f"{title}: the fastest plan that fits, on {profile.cluster.name}"
    headings = ("devices", "time", "speed-up", "efficiency", "memory", *["cost"] * priced)
    table = headed_plainly(*map(number_column, headings), "", title=title)
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
        cells += [format_seconds(row.time), f"{speed:.3g}", f"{share:.0%}"]
        cells += [format_bytes(row.memory)]
        cells += ["" if row.cost is None else f"{row.cost:.3g}"] * priced
        best = {"fastest": fastest, "cheapest": cheapest}
        table.add_row(*cells, ", ".join(word for word, other in best.items() if row is other))
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


def to_dict(profile: Profile) -> dict[str, object]:
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
