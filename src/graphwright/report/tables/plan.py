"""One plan as a table, as data and in a line: what it takes, and what that is made up of."""

from __future__ import annotations

from rich.console import Console

from graphwright.ir import format_bytes
from graphwright.machine import Cluster
from graphwright.plans import Figures, Plan, figures_of, format_seconds
from graphwright.report.tables.layout import facts
from graphwright.simulate import throughput


def show(plan: Plan, console: Console, title: str) -> None:
    """Print what one plan takes."""
    f = figures_of(plan)
    have = format_bytes(min(d.memory for d in plan.cluster.devices))
    memory = f"{format_bytes(f.memory)} of {have} on the fullest device"
    time = format_seconds(f.time)
    if f.estimate_time is not None:
        time += f" (estimate {format_seconds(f.estimate_time)})"
    if f.estimate_memory is not None:
        memory += f" (estimate {format_bytes(f.estimate_memory)})"
    distinct = len(set(plan.strategies.values()))
    rows = {
        "cluster": f"{plan.cluster.name}, {num_devices(plan)}",
        "one step takes": time,
        "trains": throughput_words(f, plan.cluster) or "unknown",
        "memory": memory,
        "moved between devices": format_bytes(f.nbytes),
        "made up of": made_up(f),
        "found by": plan.algorithm + ("" if plan.seed is None else f", seed {plan.seed}"),
        "strategies": f"{distinct} distinct, for {len(plan.strategies):,} operators",
    }
    console.print(facts(title, rows.items()))


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
        **throughput(figures_of(plan), plan.cluster),
    }


def throughput_words(f: Figures, cluster: Cluster) -> str:
    """`12,234 tokens/s on each device, 43% of its arithmetic, $0.92 for a billion tokens`."""
    rate = f.rate(cluster.num_devices)
    if not rate:
        return ""
    words = [f"{short(rate)} {f.unit}/s on each device"]
    if f.utilisation is not None:
        words.append(f"{f.utilisation:.0%} of its rate in the model's arithmetic")
    price = None if cluster.price is None else f.price(cluster.price, cluster.num_devices)
    if price is not None:
        many = "a billion tokens" if f.tokens else "a million samples"
        words.append(f"{short(price)} USD for {many}")
    return ", ".join(words)


def short(value: float) -> str:
    """Three digits, or all in front of the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


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
