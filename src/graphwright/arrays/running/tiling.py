"""How the arrays of a program are tiled: a strategy for every operator, over all workers.

`plan_tilings` has the signature of the tiling planner. Until that is there it asks the planner of
training steps for the least time on workers that compute like this machine's cores and send to each
other over Dask, so that bytes and messages weigh far more than arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from graphwright.ir import Graph
from graphwright.machine import Cluster, Level, estimated_cluster
from graphwright.partition import plan
from graphwright.plans import Plan, Sharding

BANDWIDTH = 0.5e9
"""Bytes per second between two workers of Dask, serialised and copied on both sides."""
LATENCY = 2e-3
"""Seconds from a finished task to one that reads its result on another worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TilingPlan:
    """How every array of a program is tiled, as a plan for the workers."""

    plan: Plan


def plan_tilings(
    graph: Graph,
    workers: int,
    *,
    memory: float | None = None,
    fixed: Mapping[str, Sharding] | None = None,
) -> TilingPlan:
    """A plan for `workers` workers; `fixed` inputs live where they are, `memory` is a worker's."""
    cluster = worker_cluster(workers, memory)
    made = plan(graph, cluster, objective="time", algorithm="optcnn", baselines=())
    homes = {**made.inputs, **(fixed or {})}
    return TilingPlan(plan=replace(made, inputs=homes))


@lru_cache(maxsize=64)
def worker_cluster(workers: int, memory: float | None = None) -> Cluster:
    """The workers as a cluster: cores of this machine, between which Dask carries blocks."""
    base = estimated_cluster(workers)
    level = Level(name="worker", count=workers, bandwidth=BANDWIDTH, latency=LATENCY, shared=True)
    devices = base.devices
    if memory is not None:
        devices = tuple(replace(device, memory=int(memory)) for device in devices)
    return replace(
        base, name=f"dask:{workers}", levels=(level,), devices=devices, source="estimates"
    )
