"""Several copies of a model on one GPU: what partitioning its memory does to latency.

    graph, memory, counts --memory plans--> servers --simulate.serve--> latency at each rate

A model's part of the memory is planned by `gw.swap`; its predicted time is that of a batch. Where
models take turns with all of the memory, a batch takes as long as alone, and a model that is not
there is loaded first: its parameters and buffers come from the host in one copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from graphwright.errors import InvalidOption
from graphwright.ir import Graph, format_bytes
from graphwright.machine import Cluster
from graphwright.memory import GraphProblem
from graphwright.plans import MemoryTooSmall, parse_limit
from graphwright.run import SwapPlan, swap
from graphwright.simulate import REQUESTS, Served, Server, check_rate, serve, step_size
from graphwright.tasks import Costs

SHARES = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Of what the model can do alone: the rates, if none are given."""
SEARCHES = ("belady", "greedy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Servers, and what requests experience at each rate; `samples` are those of a request.

    `refused` says, for numbers of models, why their part of the memory is too small.
    """

    cluster: str
    memory: int
    samples: int
    weights: int
    servers: tuple[Server, ...]
    served: tuple[tuple[Served, ...], ...]
    refused: dict[int, str]
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON-ready data."""
        return {
            "cluster": self.cluster,
            "memory": self.memory,
            "samples_per_request": self.samples,
            "bytes_of_parameters": self.weights,
            "seed": self.seed,
            "servers": [
                {
                    **asdict(server),
                    "rates": [{**asdict(one), "saturated": one.saturated} for one in row],
                }
                for server, row in zip(self.servers, self.served, strict=True)
            ],
            "refused": {str(count): why for count, why in self.refused.items()},
        }


def serve_models(
    graph: Graph,
    memory: int | str,
    *,
    models: Sequence[int] = (4, 16),
    cluster: Cluster | str | None = None,
    rates: Sequence[float] = (),
    requests: int = REQUESTS,
    seed: int = 0,
    costs: Costs | None = None,
) -> Serving:
    """Simulate one GPU that serves copies of an inference graph, for each number of `models`.

    `memory` is what all of them have together. `rates` are requests per second.
    """
    limit = parse_limit(memory)
    for count in models:
        if count < 1:
            raise InvalidOption(f"models={count}: give numbers of models, as 4,16")
    for rate in rates:
        check_rate(rate)
    if graph.updates:
        raise InvalidOption(
            "serving is for inference: capture with inputs=..., without an optimizer"
        )
    alone = _planned(graph, limit, cluster, costs, seed)
    servers, refused = _servers(alone, graph, limit, models, cluster, costs, seed)
    chosen = tuple(rates) or tuple(share / alone.time for share in SHARES)
    served = tuple(
        tuple(serve(server, rate, requests=requests, seed=seed) for rate in chosen)
        for server in servers
    )
    return Serving(
        cluster=alone.cluster.name,
        memory=limit,
        samples=max(1, step_size(graph).samples),
        weights=weights_of(alone.given),
        servers=servers,
        served=served,
        refused=refused,
        seed=seed,
    )


def weights_of(given: GraphProblem) -> int:
    """Bytes of what a model brings along: parameters and buffers."""
    return sum(s.nbytes for s in given.problem.storages if s.begins_on_host and not s.is_data)


def load_time(weights: int, cluster: Cluster) -> float:
    """Seconds to bring so many bytes from the host in one copy, while nothing goes there."""
    way = cluster.from_host(0)
    return way.latency + weights / way.bandwidth


def _planned(
    graph: Graph, memory: int, cluster: Cluster | str | None, costs: Costs | None, seed: int
) -> SwapPlan:
    return swap(graph, memory, cluster=cluster, costs=costs, seed=seed, search=SEARCHES)


def _servers(
    alone: SwapPlan,
    graph: Graph,
    memory: int,
    models: Sequence[int],
    cluster: Cluster | str | None,
    costs: Costs | None,
    seed: int,
) -> tuple[tuple[Server, ...], dict[int, str]]:
    weights = weights_of(alone.given)
    load = load_time(weights, alone.cluster)
    working = max(0, alone.needs - weights)
    room = max(1, (memory - working) // max(1, weights))
    servers = [Server(name="alone", num_models=1, memory=memory, seconds=alone.time)]
    refused: dict[int, str] = {}
    for count in models:
        if count == 1:
            continue
        part = memory // count
        try:
            planned = _planned(graph, part, cluster, costs, seed)
        except MemoryTooSmall as error:
            refused[count] = f"{format_bytes(part)} for each model: {error}"
        else:
            servers.append(
                Server(name="partitioned", num_models=count, memory=part, seconds=planned.time)
            )
        servers += [
            Server(
                name=name, num_models=count, memory=memory, seconds=alone.time, load=load,
                room=min(most, count),
            )
            for name, most in (("shared", 1), ("cached", room))
        ]  # fmt: skip
    if not any(server.name == "partitioned" for server in servers) and refused:
        raise MemoryTooSmall("; ".join(f"{n} models, {why}" for n, why in refused.items()))
    return tuple(servers), refused
