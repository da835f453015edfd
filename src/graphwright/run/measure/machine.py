"""What N processes of this machine are, measured by all of them at once: the figures of `local:N`.

    python -m graphwright.run.measure.machine 4        about ten seconds; run on first use

    all ranks    products in three dtypes, a copy, a tiny addition: the shares of cores and memory
    all ranks    transfers in a few sizes: latency, bandwidth, and a table for the cost model

Processes that outnumber the cores take turns on them here as they do in a step, so their rates are
what is left to each; otherwise the time in which other programs had a core is taken off. The
figures are those of large calls: plans measure their own beside (`pipeline.plan_here`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, median
from time import perf_counter

import torch

from graphwright.errors import GraphwrightError
from graphwright.frozen import FrozenDict
from graphwright.machine import (
    Cluster,
    Store,
    estimated_cluster,
    from_toml,
    note_of,
    num_cores,
    to_toml,
)
from graphwright.run.measure.links import (
    LinkTime,
    LinkTimes,
    measure_links,
    store_times,
    world_groups,
)
from graphwright.run.measure.strain import save_strain
from graphwright.run.measure.timing import seconds_without_core
from graphwright.run.processes import World, launch, world

SIZES = tuple(2**n for n in (10, 14, 18, 22))
REPEATS, SWEEPS = 2, 2
PRODUCT, COPIED, STIRRED = 512, 1 << 26, 1 << 18
"""The size of matrices that are multiplied, the bytes that are copied, and those that are copied
between small calls, which are not as quick in a step as in a row."""
SECONDS, SAMPLES = 0.4, 8
"""How long each call is made, and in how many samples."""
DTYPES = (torch.float32, torch.float64, torch.bfloat16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one process gets: operations/s by dtype, bytes/s of memory, seconds to start a call."""

    rates: dict[str, float]
    bandwidth: float
    launch: float


def measure_machine(processes: int, store: Store | None = None) -> Cluster:
    """Measure so many processes of this machine, and keep the figures; their cluster."""
    store, before = store or Store(), estimated_cluster(processes)
    found = launch(processes, timeout=150.0)(_measure_share, to_toml(before))
    shares, links = [share for share, _ in found], found[0][1]
    times = () if links is None else links.times
    cluster = figures_of_machine(before, shares, times)
    store.put_note(note_of(processes), to_toml(cluster))
    if links is not None:
        store_times(cluster, times, store)
        save_strain(store, cluster, links.strain)
    return cluster


def figures_of_machine(
    before: Cluster, shares: Sequence[Share], times: Sequence[LinkTime]
) -> Cluster:
    """The cluster with measured figures in place of the estimates."""
    rates = {name: fmean(share.rates[name] for share in shares) for name in shares[0].rates}
    device = replace(
        before.devices[0],
        rates=FrozenDict(rates),
        bandwidth=fmean(share.bandwidth for share in shares),
        launch=fmean(share.launch for share in shares),
    )
    level = before.levels[0]
    messages = sorted((t.nbytes, t.seconds) for t in times if t.kind == "send")
    if messages:
        (least, latency), (most, longest) = messages[0], messages[-1]
        rate = (most - least) / max(longest - latency, 1e-9)
        level = replace(level, latency=latency, bandwidth=rate)
    return replace(
        before,
        levels=(level,),
        devices=(device,) * before.num_devices,
        source=f"measured by {before.num_devices} processes at once",
    )


def _measure_share(text: str) -> tuple[Share, LinkTimes | None]:
    """What every worker does."""
    from graphwright.run.links.collectives import GroupLinks

    cluster, here = from_toml(text), world()
    times: LinkTimes | None = None
    if here.size > 1:
        links = GroupLinks(world_groups(cluster))
        times = measure_links(cluster, here, links, sizes=SIZES, repeats=REPEATS, sweeps=SWEEPS)
        torch.distributed.barrier()
    return _probe(here), times


def _probe(here: World) -> Share:
    """The figures of this process, from a few calls that all processes make at the same time."""
    rates: dict[str, float] = {}
    for dtype in DTYPES:
        a = torch.rand(PRODUCT, PRODUCT).to(dtype)
        each = _seconds_each(here, partial(torch.mm, a, a))
        rates[str(dtype).removeprefix("torch.")] = 2 * PRODUCT**3 / each
    source, target = torch.ones(2, COPIED, dtype=torch.uint8)
    copy = _seconds_each(here, partial(target.copy_, source))
    few, memory = torch.ones(16, 16), torch.ones(2, STIRRED, dtype=torch.uint8)

    def stir() -> None:
        memory[0].copy_(memory[1])

    def start_some() -> None:
        stir()
        few.mm(few), few.add(few), few.sum(0), few.t().contiguous(), few.relu()

    launch = (_seconds_each(here, start_some) - _seconds_each(here, stir)) / 5
    return Share(rates=rates, bandwidth=2 * COPIED / copy, launch=max(launch, 1e-7))


def _seconds_each(here: World, call: Callable[[], object]) -> float:
    """What a call takes while all processes make it, in the median of some samples.

    Waiting for each other's cores is included. Nobody stops before all have had their time.
    """
    call()
    if here.size > 1:
        torch.distributed.barrier()
    began, samples = perf_counter(), list[float]()
    while perf_counter() - began < SECONDS:
        start, waited, count = perf_counter(), seconds_without_core(), 0
        while perf_counter() - start < SECONDS / SAMPLES:
            call()
            count += 1
        elapsed, delayed = perf_counter() - start, seconds_without_core() - waited
        own = here.size <= num_cores() and 0 < delayed < elapsed
        samples.append((elapsed - delayed if own else elapsed) / count)
    each = median(samples)
    while perf_counter() - began < 1.25 * SECONDS:  # the others still count
        call()
    return each


def main() -> int:
    """Measure as many processes as the first argument says, and tell of it on stderr."""
    from rich.console import Console

    processes, console = int(sys.argv[1]), Console(stderr=True, highlight=False)
    what = f"measuring {processes} process{'es' * (processes > 1)} of this machine, once"
    try:
        with console.status(f"{what} (GRAPHWRIGHT_MEASURE=0 leaves it out)"):
            cluster = measure_machine(processes)
    except GraphwrightError as error:
        print(f"graphwright: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    device, level = cluster.devices[0], cluster.levels[0]
    words = [
        f"{device.rate('float32') / 1e9:.3g} Gflop/s and {device.bandwidth / 1e9:.3g} GB/s each",
        f"{device.launch * 1e6:.3g} us to start an operator",
    ]
    if processes > 1:
        words.append(
            f"{level.bandwidth / 1e9:.3g} GB/s between them after {level.latency * 1e6:.3g} us"
        )
    console.print(
        f"graphwright: measured {cluster.name}: {', '.join(words)}; kept in {Store().path}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
