"""A timeline's figures: a few lines to read, and all of them as data."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from graphwright.ir import format_bytes
from graphwright.machine import Cluster
from graphwright.plans import Figures, format_seconds

if TYPE_CHECKING:
    from graphwright.simulate.timeline.timeline import Timeline

LONGEST_STEPS = 20


def summary(timeline: Timeline) -> str:
    """The figures that matter most, in a few lines."""
    used, peak = timeline.utilisation, timeline.memory.peak
    fullest = int(peak.argmax()) if len(peak) else 0
    lines = [
        f"{format_seconds(timeline.makespan)} for one step on {timeline.cluster.name} "
        f"({timeline.num_devices} devices)",
        f"devices compute {percentages(used)} of it; "
        f"{format_bytes(timeline.moved_bytes)} move between devices",
        f"critical path: {shares(timeline.critical_time, timeline.makespan)}",
    ]
    if len(peak):
        held = timeline.memory.breakdown(fullest)
        parts = ", ".join(f"{format_bytes(n)} {words(name)}" for name, n in held.items() if n)
        lines.append(
            f"peak memory: {format_bytes(int(peak[fullest]))} on "
            f"{timeline.tasks.resource_names[fullest]}" + (f" ({parts})" if parts else "")
        )
    return "\n".join(lines)


def to_dict(timeline: Timeline) -> dict[str, object]:
    """All figures as JSON-ready data; of the critical path the longest steps."""
    path = timeline.critical_path
    return {
        "makespan": timeline.makespan,
        "cluster": timeline.cluster.name,
        "plan": timeline.plan,
        "seed": timeline.seed,
        "graph": timeline.graph.hash,
        "tasks": len(timeline.tasks),
        "moved_bytes": timeline.moved_bytes,
        "fits": timeline.fits,
        "repeated_computing": timeline.repeated,
        "costs": timeline.costs,
        "price": timeline.price,
        **throughput(figures(timeline), timeline.cluster),
        "devices": [_device(timeline, device) for device in range(timeline.num_devices)],
        "links": [
            {
                "name": name,
                "bytes": timeline.link_bytes[name],
                "busy": float(timeline.busy[resource]),
            }
            for resource, name in enumerate(timeline.tasks.resource_names)
            if resource >= timeline.num_devices and name in timeline.link_bytes
        ],
        "phase_time": timeline.phase_time,
        "operator_time": timeline.operator_time,
        "transfer_time": timeline.transfer_time,
        "critical_path": {
            "steps": len(path),
            "time": timeline.critical_time,
            "longest": [asdict(s) for s in sorted(path, key=lambda s: -s.duration)[:LONGEST_STEPS]],
        },
    }


def figures(timeline: Timeline, estimate: tuple[float, float] | None = None) -> Figures:
    """What a plan keeps of its timeline, for a frontier to compare.

    Computing and communication are the busy times of the busiest device and link. `estimate` is the
    seconds and bytes that the search had expected.

    >>> plan = replace(plan, figures=figures(simulate(graph, plan)))
    """
    peak, busy = timeline.memory.peak, timeline.busy
    fullest = int(peak.argmax()) if len(peak) else 0
    held = timeline.memory.breakdown(fullest) if len(peak) else {}
    return Figures(
        time=timeline.makespan,
        memory=int(peak.max(initial=0)),
        nbytes=timeline.moved_bytes,
        estimate_time=None if estimate is None else float(estimate[0]),
        estimate_memory=None if estimate is None else round(estimate[1]),
        compute_time=float(timeline.computing.max(initial=0.0)),
        communication_time=float(busy[timeline.num_devices :].max(initial=0.0)),
        breakdown=held,
        samples=timeline.size.samples,
        tokens=timeline.size.tokens,
        utilisation=timeline.size.utilisation(timeline.makespan, timeline.cluster),
    )


def throughput(figures: Figures, cluster: Cluster) -> dict[str, object]:
    """How much a step trains in a second, of what the devices could, and what it costs: data."""
    price = cluster.price
    count = cluster.num_devices
    return {
        "samples": figures.samples,
        "tokens": figures.tokens,
        f"{figures.unit}_per_second_per_device": figures.rate(count),
        "model_flops_utilisation": figures.utilisation,
        "price_per_billion_tokens" if figures.tokens else "price_per_million_samples": (
            None if price is None else figures.price(price, count)
        ),
    }


def _device(timeline: Timeline, device: int) -> dict[str, object]:
    return {
        "name": timeline.tasks.resource_names[device],
        "busy": float(timeline.busy[device]),
        "utilisation": float(timeline.utilisation[device]),
        "exposed_communication": float(timeline.exposed_communication[device]),
        "memory_bytes": timeline.cluster.devices[device].memory,
        "peak_bytes": int(timeline.memory.peak[device]),
        "peak_bytes_by_category": timeline.memory.breakdown(device),
    }


def words(name: str) -> str:
    """A category or a kind of transfer, to be read: `optimizer state`."""
    return name.replace("_", " ")


def shares(times: dict[str, float], total: float, most: int = 5) -> str:
    """What part of the total each takes, the first few of them: `backward 61%, forward 30%`."""
    parts = [f"{words(name)} {seconds / (total or 1.0):.0%}" for name, seconds in times.items()]
    return ", ".join(parts[:most] + ["..."] * (len(parts) > most)) or "nothing"


def percentages(values: NDArray[np.float64]) -> str:
    """From the least to the greatest: `61% to 64%`."""
    if not len(values):
        return "0%"
    low, high = f"{values.min():.0%}", f"{values.max():.0%}"
    return low if low == high else f"{low} to {high}"
