"""The least time for each number of devices: how many are worth renting (TensorOpt's profiling)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from graphwright.errors import DoesNotFit, InvalidOption
from graphwright.ir import Graph, format_bytes
from graphwright.machine import Cluster
from graphwright.machine import cluster as find_cluster
from graphwright.partition.plan import plan, sizes_of
from graphwright.partition.progress import Progress
from graphwright.partition.registry import Algorithm
from graphwright.plans import Plan, figures_of, format_seconds
from graphwright.tasks import Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a number of devices takes: seconds, bytes on the fullest device, and the cost of one
    step in the cluster's currency.

    Without a plan nothing fits; `memory` is then what the smallest plan needs.
    """

    num_devices: int
    time: float | None
    memory: int
    cost: float | None
    plan: Plan | None


@dataclass(frozen=True, slots=True)
class Profile:
    """One row for each number of devices that the cluster can have."""

    rows: tuple[Row, ...]
    cluster: Cluster

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def fastest(self) -> Row | None:
        """The row with the least time."""
        return min(
            (r for r in self.rows if r.time is not None), key=lambda r: r.time or 0.0, default=None
        )

    def cheapest(self) -> Row | None:
        """The row with the least cost for a step, by price or, without one, by device-seconds."""
        fitting = [r for r in self.rows if r.time is not None]
        return min(fitting, key=lambda r: r.cost or r.num_devices * (r.time or 0.0), default=None)

    def __repr__(self) -> str:
        lines = [
            f"Profile({self.cluster.name})",
            f"  {'devices':>7}  {'time':>9}  {'memory':>9}  {'cost':>10}",
        ]
        for row in self.rows:
            time = "does not fit" if row.time is None else format_seconds(row.time)
            cost = "" if row.cost is None else f"{row.cost:.3g}"
            lines.append(
                f"  {row.num_devices:>7}  {time:>9}  {format_bytes(row.memory):>9}  {cost:>10}"
            )
        return "\n".join(lines)


def profile(
    graph: Graph,
    cluster: Cluster | str,
    *,
    devices: Iterable[int] | None = None,
    costs: Costs | None = None,
    report: Progress | None = None,
    **search: object,
) -> Profile:
    """The fastest plan that fits for each number of devices; without `devices`, for every size up
    to the cluster's own.

    Sizes that the cluster cannot have (11 devices of nodes with 8) are left out. `search` as for
    `plan`.

    >>> gw.profile(graph, "dgx-h100:8", devices=(1, 2, 4, 8, 16, 32, 64))
    """
    on = find_cluster(cluster)
    wanted = None if devices is None else list(devices)
    sizes = sizes_of(on, wanted)
    if not sizes:
        raise InvalidOption(f"{on.name} cannot have any of {wanted} devices")
    quick: dict[str, object] = {"points": 4, "baselines": ("data", "zero2")}
    if isinstance(search.get("algorithm"), Algorithm):  # which has points of its own
        del quick["points"]
    search = {**quick, **search}
    rows = []
    for number, (count, size) in enumerate(sorted(sizes.items())):
        if report is not None:
            report(f"{count} devices", number, len(sizes))
        try:
            fastest = plan(  # type: ignore[call-overload]
                graph, size, objective="time", costs=costs, **search
            )
        except DoesNotFit as error:
            rows.append(
                Row(num_devices=count, time=None, memory=error.needed, cost=None, plan=None)
            )
            continue
        figures = figures_of(fastest)
        cost = None if size.price is None else size.price * count * figures.time / 3600
        rows.append(
            Row(
                num_devices=count, time=figures.time, memory=figures.memory, cost=cost, plan=fastest
            )
        )
    return Profile(tuple(rows), on)
