"""How long a hop's transfers take: by a formula over the links, or by a table of what was measured
(TensorOpt section 3.2).

The formula, for transfers that start together and share links:

    seconds = sum over the levels crossed  of  phases * ceil(log2 span) * latency
            + max over links               of  load / bandwidth

An all-reduce has two phases (reduce-scatter, then all-gather), every other transfer one. A message
passes one path, so it waits for the outermost level alone; over an explicit link it waits for that
link.

A table holds seconds at sizes of 2^i bytes, for one kind of collective over one device
partitioning: `spans` says how many members of every level a group spans, `contenders` how many
groups share the busiest link. Between two measured sizes the *bandwidth* is interpolated, below the
first the time stays what it is (latency), above the last the bandwidth does:

    bandwidth |            ,----o........      o  measured
              |        ,o-'                    -  interpolated
              |   ,o--'                        .  beyond the table
              +------------------------> bytes
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, isfinite, log2, prod

from graphwright.errors import InvalidMeasurement
from graphwright.machine import Cluster, CollectiveKey, Measurement, Store, preset_collectives
from graphwright.plans import transfers
from graphwright.tasks import Traffic

COLLECTIVES = tuple(kind.name for kind in transfers.TRANSFERS)
"""What can be measured between devices."""


def analytic(traffic: Traffic) -> float:
    """Seconds by the formula; no bytes, no time."""
    if traffic.loads.size == 0 or int(traffic.loads.max()) == 0:
        return 0.0
    used = traffic.loads > 0
    bandwidths = traffic.cluster.resource_bandwidths[traffic.resources[used]]
    return latency(traffic) + max(
        traffic.floor, float((traffic.loads[used] / bandwidths).max(initial=0.0))
    )


def latency(traffic: Traffic) -> float:
    """Seconds before the last byte could arrive on links of any bandwidth."""
    cluster, spans = traffic.cluster, traffic.spans
    lowest = int(traffic.resources.min(initial=cluster.num_resources))
    if cluster.host is not None and cluster.first_host_link <= lowest < cluster.num_resources:
        return cluster.host.latency
    first = cluster.first_link
    if first <= lowest < cluster.first_host_link:
        slowest = max(cluster.links[(int(r) - first) // 2].latency for r in traffic.resources)
        return _rounds(traffic.kind, prod(spans)) * slowest
    total = 0.0
    for span, level in zip(spans, cluster.levels, strict=True):
        if span > 1:
            if isinstance(traffic.kind, transfers.Send):
                return level.latency
            total += _rounds(traffic.kind, span) * level.latency
    return total


def _rounds(kind: transfers.TransferKind, span: int) -> int:
    return kind.phases * ceil(log2(span)) if span > 1 else 0


# -- measured tables -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Table:
    """Seconds measured at growing sizes in bytes."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    def time(self, nbytes: int) -> float:
        """Seconds for a size, by the bandwidths measured at the sizes around it."""
        if nbytes <= 0:
            return 0.0
        after = bisect_right(self.sizes, nbytes)
        if after == 0:
            return self.seconds[0]
        low, least = self.sizes[after - 1], self.seconds[after - 1]
        if after == len(self.sizes) or nbytes == low:
            return least * (nbytes / low)
        high, most = self.sizes[after], self.seconds[after]
        share = (nbytes - low) / (high - low)
        return nbytes / (low / least * (1 - share) + high / most * share)


def signature(spans: tuple[int, ...], contenders: int) -> str:
    """How the store names a device partitioning: `2x4, 8 contenders`."""
    return f"{'x'.join(map(str, spans))}, {contenders} contenders"


def load_tables(store: Store, cluster: Cluster) -> dict[tuple[str, str], Table]:
    """All tables of a cluster, by kind and signature: the user's own before those of a preset."""
    own = store.load_collective(cluster.hash)
    return {**_tables(preset_collectives(cluster)), **_tables(own)}


def _tables(measured: Mapping[CollectiveKey, Measurement]) -> dict[tuple[str, str], Table]:
    points: dict[tuple[str, str], dict[int, float]] = {}
    for (kind, group, exponent), measurement in measured.items():
        points.setdefault((kind, group), {})[2**exponent] = measurement.seconds
    return {
        key: Table(tuple(sorted(times)), tuple(times[size] for size in sorted(times)))
        for key, times in points.items()
    }


def load_handling(store: Store, cluster: Cluster) -> tuple[float, float] | None:
    """What transfers were measured to take of a device of a cluster: seconds for each, and for each
    byte that it receives; None if that was not measured."""
    text = store.load_note(_handling_note(cluster))
    if text is None:
        return None
    try:
        each, per_byte = (float(word) for word in text.split())
    except ValueError:
        each = per_byte = -1.0
    return _checked(each, per_byte, f"{store.path}: handling on {cluster.name}")


def record_handling(store: Store, cluster: Cluster, each: float, per_byte: float) -> None:
    """Keep what transfers take of a device of a cluster."""
    each, per_byte = _checked(each, per_byte, f"handling on {cluster.name}")
    store.put_note(_handling_note(cluster), f"{each!r} {per_byte!r}")


def _handling_note(cluster: Cluster) -> str:
    return f"handling on {cluster.hash}, 1"


def _checked(each: float, per_byte: float, where: str) -> tuple[float, float]:
    if not all(isfinite(value) and value >= 0 for value in (each, per_byte)):
        raise InvalidMeasurement(
            f"{where}: {each!r} s for a transfer and {per_byte!r} s for a byte are no measurement; "
            "measure again with `graphwright calibrate --cluster`"
        )
    return each, per_byte


def record_collectives(
    store: Store,
    cluster: Cluster,
    kind: str,
    spans: tuple[int, ...],
    contenders: int,
    seconds: Mapping[int, float],
) -> None:
    """Keep measured seconds by size, a power of two of bytes, for one kind and partitioning."""
    where = f"{kind} over {signature(tuple(spans), contenders)} of {cluster.name}"
    if kind not in COLLECTIVES:
        raise InvalidMeasurement(
            f"there is no collective {kind!r}; there are {', '.join(COLLECTIVES)}"
        )
    names = [level.name for level in cluster.levels]
    if len(spans) != len(names) or any(type(n) is not int or n < 1 for n in spans):
        raise InvalidMeasurement(
            f"{where}: give one span, 1 or more, for each of the levels {', '.join(names)}; "
            f"got {spans!r}"
        )
    if type(contenders) is not int or contenders < 1:
        raise InvalidMeasurement(f"{where}: {contenders!r} groups on a link; 1 is the least")
    for size, time in seconds.items():
        if type(size) is not int or size < 1 or size & (size - 1):
            raise InvalidMeasurement(f"{where}: measured at {size!r} bytes; sizes are powers of 2")
        if not (isfinite(time) and time > 0):
            raise InvalidMeasurement(f"{where}: {size} bytes in {time!r} seconds is no measurement")
    group = signature(tuple(spans), contenders)
    for size, time in sorted(seconds.items()):
        measured = Measurement(seconds=float(time), spread=0.0, repeats=1)
        store.put_collective(cluster.hash, kind, group, size.bit_length() - 1, measured)
