"""Measure collectives between running workers, for the cost model (TensorOpt section 3.2).

    every set of axes     all of its groups at once, as in a step: `spans` and `contenders` name it
    every kind            all_gather, reduce_scatter, all_reduce, all_to_all, send
    sizes 2^10 to 2^24    the median over repetitions, until the slowest rank is done, and none
                          more than that of a larger size
    sweeps                four, of which the second least counts: slow moments of a shared machine
                          last longer than the repetitions

To each is added what a transfer waits for in the midst of computing (`strain`). Where devices
compute while they communicate, what that takes of their cores is measured as well (`handling`).

What is timed is what runs: the same code as in a program, with its copies before and after, each
time after some computing, which leaves caches cold, as in a step. Copies depend on the dim (parts
along the first one lie in one piece), so the mean over the first and the last is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, cycle
from math import isqrt
from statistics import fmean, median, median_low
from time import perf_counter

import torch
from scipy.optimize import isotonic_regression

from graphwright.errors import InvalidMeasurement
from graphwright.ir import TensorType
from graphwright.lower import group_of, lower_hop
from graphwright.machine import Cluster, Store, from_toml, to_toml
from graphwright.plans import (
    Box,
    Exchange,
    Mesh,
    Sharding,
    Split,
    as_box,
    boxes,
    transfers,
    whole_mesh,
)
from graphwright.run.links import name_machine
from graphwright.run.measure.handling import Begin, measure_handling
from graphwright.run.measure.strain import Strain, measure_strain, save_strain
from graphwright.run.processes import World, gather_results, launch, world
from graphwright.run.program import Pending, Transport, keep_freed_memory
from graphwright.simulate import record_collectives, record_handling
from graphwright.tasks import Hop, groups_of, rings

SIZES = tuple(2**n for n in range(10, 25, 2))
SMALL, AT_ONCE = 2**20, 4
"""Up to so many bytes, so many transfers are begun before the first is waited for, as in a step."""
LONG_TRANSFER = 0.25
"""Seconds of a transfer beyond which larger ones are not timed: their bandwidth is the same."""
SWEEPS = 4
COMPUTING = 512
"""Products of matrices of this size are computed before what is timed."""
Kind = transfers.GroupKind | transfers.Send
KINDS = tuple(kind for kind in transfers.TRANSFERS if isinstance(kind, Kind))
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTime:
    """What one kind of collective takes at one size."""

    kind: str
    spans: tuple[int, ...]
    contenders: int
    nbytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTimes:
    """What transfers take, and by how much a step is longer than its parts.

    `handling` is what transfers take of a device that overlaps: seconds for each and for each byte.
    """

    times: tuple[LinkTime, ...]
    strain: Strain
    handling: tuple[float, float] | None = None


def axes_of(cluster: Cluster) -> Iterator[tuple[int, ...]]:
    """One set of axes for every way to span levels."""
    seen: set[object] = set()
    count = len(cluster.axes)
    for size in range(1, count + 1):
        for axes in combinations(range(count), size):
            ring = rings(cluster, whole_mesh(cluster), axes)
            case = (ring.spans, max(party.contenders for party in ring.parties))
            if case not in seen:
                seen.add(case)
                yield axes


def world_groups(cluster: Cluster) -> list[tuple[int, ...]]:
    """The groups of ranks between which transfers are measured."""
    mesh = whole_mesh(cluster)
    groups = {group_of(mesh, axes, rank) for axes in axes_of(cluster) for rank in mesh.devices}
    return sorted(groups)


def measure_links(
    cluster: Cluster,
    here: World,
    links: Transport,
    *,
    store: Store | None = None,
    sizes: Sequence[int] = SIZES,
    repeats: int = 5,
    sweeps: int = SWEEPS,
    progress: Progress | None = None,
) -> LinkTimes:
    """Time every kind of collective between all ranks; all call this, and rank 0 stores them."""
    keep_freed_memory()  # as in a step
    machines = gather_results(name_machine)
    one_clock = None not in machines and len(set(machines)) == 1
    matrix = torch.ones(COMPUTING, COMPUTING, device=here.device)
    cases = [(kind, axes, size) for kind in KINDS for axes in axes_of(cluster) for size in sizes]
    times: dict[tuple[Kind, tuple[int, ...], int], list[float]] = {case: [] for case in cases}
    for number, case in enumerate(cases * sweeps):
        if progress is not None:
            progress(number, len(cases) * sweeps, case[0].name)
        kind, axes, size = case
        smaller = [times[kind, axes, s] for s in sizes if s < size]
        if all(each and each[0] < LONG_TRANSFER for each in smaller):
            times[case].append(_time(cluster, here, links, *case, repeats, one_clock, matrix))
    cases = [case for case in cases if times[case]]
    strain, handling = Strain(), None
    if here.device.type == "cpu":  # GPUs compute while they wait
        everyone = group_of(whole_mesh(cluster), range(len(cluster.axes)), here.rank)
        strain = measure_strain(here, _small_sum(everyone, cluster, here, links))
        if here.size > 1 and all(device.overlaps for device in cluster.devices):
            begins = _small_and_large(everyone, cluster, here, links, max(sizes))
            handling = measure_handling(here, begins)
    named = make_monotone([_named(cluster, *case, median_low(times[case])) for case in cases])
    named = [replace(time, seconds=time.seconds + strain.delay) for time in named]
    if here.rank == 0 and store is not None:
        store_times(cluster, named, store)
        save_strain(store, cluster, strain)
        if handling is not None:
            record_handling(store, cluster, *handling)
    return LinkTimes(times=tuple(named), strain=strain, handling=handling)


def _small_and_large(
    group: tuple[int, ...], cluster: Cluster, here: World, links: Transport, largest: int
) -> list[tuple[tuple[Begin, float], tuple[Begin, float]]]:
    """A small and a large sum and gather, each with the bytes that a rank receives."""
    count, large = len(group), max(2 * SIZES[0], min(SMALL, largest) // 2)

    def of(kind: Kind, nbytes: int) -> tuple[Begin, float]:
        received = kind.phases * (count - 1) / count * nbytes
        return _prepare(kind, 0, group, cluster, here, links, nbytes), received

    kinds: tuple[Kind, ...] = (transfers.AllReduce(), transfers.AllGather())
    return [(of(kind, SIZES[0]), of(kind, large)) for kind in kinds]


def _small_sum(
    group: tuple[int, ...], cluster: Cluster, here: World, links: Transport
) -> Callable[[], None]:
    begin = _prepare(transfers.AllReduce(), 0, group, cluster, here, links, SIZES[0])

    def finish() -> None:
        pending = begin()
        if pending is not None:
            pending.wait()

    return finish


def _time(
    cluster: Cluster,
    here: World,
    links: Transport,
    kind: Kind,
    axes: tuple[int, ...],
    size: int,
    repeats: int,
    one_clock: bool,
    matrix: torch.Tensor,
) -> float:
    """The median seconds of a collective, from when the last rank begins to when the last ends."""
    import torch.distributed as dist

    group = group_of(whole_mesh(cluster), axes, here.rank)
    runs = [_prepare(kind, dim, group, cluster, here, links, size) for dim in (0, 1)]
    count = AT_ONCE if size <= SMALL else 1
    times: list[list[float]] = [[], []]
    for _ in range(repeats + 1):
        for dim, run in enumerate(runs):
            torch.mm(matrix, matrix)
            _settle(here.device)
            dist.barrier()
            start = perf_counter()
            for pending in [run() for _ in range(count)]:
                if pending is not None:
                    pending.wait()
            _settle(here.device)
            end = perf_counter()
            # Ranks do not leave a barrier at once; where clocks differ, the longest has to do.
            last = torch.tensor([start, end, end - start], dtype=torch.float64).to(here.device)
            dist.all_reduce(last, dist.ReduceOp.MAX)
            first, ended, longest = last.tolist()
            times[dim].append((ended - first if one_clock else longest) / count)
    return fmean(median(each[1:]) for each in times)


def _named(
    cluster: Cluster, kind: Kind, axes: tuple[int, ...], size: int, seconds: float
) -> LinkTime:
    """A time by the names that the cost model looks for."""
    if isinstance(kind, transfers.Send):
        spans, contenders = rings(cluster, whole_mesh(cluster), axes).spans, 1
    else:
        parties = groups_of(kind, cluster, whole_mesh(cluster), axes)
        spans, contenders = parties.spans, max(p.contenders for p in parties.parties)
    return LinkTime(
        kind=kind.name, spans=spans, contenders=contenders, nbytes=size, seconds=seconds
    )


def make_monotone(times: Sequence[LinkTime]) -> list[LinkTime]:
    """The same, but no size takes longer than a larger one of its kind (isotonic regression)."""
    cases: dict[object, list[LinkTime]] = {}
    for time in sorted(times, key=lambda t: t.nbytes):
        cases.setdefault((time.kind, time.spans, time.contenders), []).append(time)
    smooth: dict[LinkTime, LinkTime] = {}
    for case in cases.values():
        seconds = isotonic_regression([time.seconds for time in case]).x
        for time, value in zip(case, seconds.tolist(), strict=True):
            smooth[time] = replace(time, seconds=value)
    return [smooth[time] for time in times]


def _settle(device: torch.device) -> None:
    """Return once a device has done what it was told to."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def store_times(cluster: Cluster, times: Sequence[LinkTime], store: Store) -> None:
    """Put measured times into a store."""
    tables: dict[tuple[str, tuple[int, ...], int], dict[int, float]] = {}
    for time in times:
        tables.setdefault((time.kind, time.spans, time.contenders), {})[time.nbytes] = time.seconds
    for (kind, spans, contenders), seconds in tables.items():
        record_collectives(store, cluster, kind, spans, contenders, seconds)


def _prepare(
    kind: Kind,
    dim: int,
    group: tuple[int, ...],
    cluster: Cluster,
    here: World,
    links: Transport,
    nbytes: int,
) -> Callable[[], Pending | None]:
    """What a rank begins in one measurement.

    A size is that of the tensor that a group gathers or reduces, of what a device has before an
    exchange, or of a message.
    """
    count = len(group)
    if isinstance(kind, transfers.Send):
        side = max(count, isqrt(nbytes // 4) // count * count)
        return _send((side, side), group, group.index(here.rank), here, links)
    ends = [Split(e.dim ^ dim) if isinstance(e, Split) else e for e in (kind.before, kind.after)]
    between_parts = all(isinstance(end, Split) for end in ends)
    elements = nbytes // 4 * (count if between_parts else 1)
    side = max(count, isqrt(elements) // count * count)
    source, target = (Sharding(Mesh(group, (count,)), (end,)) for end in ends)
    hop, type = Hop(kind, source, target), TensorType((side, side), "float32")
    what = lower_hop(hop, "", type, cluster, here.rank, 0, 1, 0)
    held = as_box(boxes(source, type.shape)[group.index(here.rank)])
    shape = tuple(stop - start for start, stop in held)
    if isinstance(what, Exchange):
        value = torch.ones(shape, device=here.device)
        return lambda: links.exchange(what, value)
    collective = replace(what, free=kind.in_place)
    values = [torch.ones(shape, device=here.device) for _ in range(AT_ONCE if kind.in_place else 1)]
    turns = cycle(values)
    return lambda: links.collect(collective, next(turns))


def _send(
    shape: tuple[int, int], group: tuple[int, ...], own: int, here: World, links: Transport
) -> Callable[[], Pending | None]:
    """One message, from the first rank of every group to its second."""
    whole: Box = ((0, shape[0]), (0, shape[1]))
    value = torch.ones(shape, device=here.device)
    if own > 1:
        return lambda: None
    exchange = Exchange(
        tensor="", tag=1, value=0 if own == 0 else None, output=None if own == 0 else 1,
        type=TensorType(shape, "float32"),
        sends=((group[1], whole),) if own == 0 else (),
        receives=((group[0], whole),) if own == 1 else (),
        own=(),
    )  # fmt: skip
    return lambda: links.exchange(exchange, value if own == 0 else None)


def measure_local(
    cluster: Cluster,
    *,
    store: Store | None = None,
    sizes: Sequence[int] = SIZES,
    repeats: int = 5,
    sweeps: int = SWEEPS,
    timeout: float = 600.0,
) -> LinkTimes:
    """Measure between new processes of this machine, one for each device of, say, ``local:4``."""
    found = launch(cluster.num_devices, timeout=timeout)(
        _measure_here, to_toml(cluster), tuple(sizes), repeats, sweeps
    )[0]
    assert isinstance(found, LinkTimes)
    if store is not None:
        store_times(cluster, found.times, store)
        save_strain(store, cluster, found.strain)
    return found


def measure_joined(
    cluster: Cluster, *, store: Store | None = None, progress: Progress | None = None
) -> LinkTimes:
    """Measure between the ranks that torchrun has started, one for each device, on any hosts.

    All call this; rank 0 stores the times.
    """
    from graphwright.run.links.collectives import GroupLinks

    here = world()
    if here.size != cluster.num_devices:
        raise InvalidMeasurement(
            f"{cluster.name} has {cluster.num_devices} devices, but torchrun has started "
            f"{here.size} processes; start as many, or correct the counts in the cluster's file"
        )
    links = GroupLinks(world_groups(cluster))
    return measure_links(cluster, here, links, store=store, progress=progress)


def _measure_here(text: str, sizes: tuple[int, ...], repeats: int, sweeps: int) -> LinkTimes:
    """What every worker does."""
    from graphwright.run.links.collectives import GroupLinks

    cluster, here = from_toml(text), world()
    links = GroupLinks(world_groups(cluster))
    return measure_links(cluster, here, links, sizes=sizes, repeats=repeats, sweeps=sweeps)
