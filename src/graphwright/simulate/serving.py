"""Several models served by one GPU, one batch at a time (SwapAdvisor section 5.3, Figure 5.3).

    requests     come at random (Poisson), each for one model, all models alike
    the GPU      serves them as they come; a request is a batch
    service      seconds of a batch; and of loading the model first, where it is not there:
                 `room` models are, those that were used last

    alone        one model: it is always there
    partitioned  every model has its part of the memory, in which its memory plan swaps
    shared       the model that is served has all of the memory; the next one is loaded
    cached       as many models stay as there is room for

Latency is from a request's coming to its result. Where requests come faster than they are served
latency grows without end: `Served.saturated`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphwright.errors import InvalidOption

Floats = NDArray[np.float64]
REQUESTS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A GPU and its models: seconds of a batch and to load a model, and room for how many.

    `memory` is what each model has, in bytes.
    """

    name: str
    num_models: int
    memory: int
    seconds: float
    load: float = 0.0
    room: int | None = None

    @property
    def label(self) -> str:
        return self.name if self.num_models == 1 else f"{self.name} {self.num_models}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What requests at some rate (of batches, per second) experience, in seconds."""

    rate: float
    utilisation: float
    mean: float
    median: float
    p99: float

    @property
    def saturated(self) -> bool:
        return self.utilisation >= 1


def serve(server: Server, rate: float, *, requests: int = REQUESTS, seed: int = 0) -> Served:
    """Serve so many requests at a rate; servers that are given one seed get the same requests."""
    check_rate(rate)
    if requests < 1:
        raise InvalidOption(f"requests={requests}: give at least 1")
    if server.room is not None and server.room < 1:
        raise InvalidOption(f"room={server.room}: a model that is served has to be there")
    gaps, models = draw_requests(server.num_models, rate, requests, seed)
    seconds = service_times(server, models)
    return summarise(rate, latencies(gaps, seconds), float(seconds.mean()) * rate)


def draw_requests(
    num_models: int, rate: float, requests: int, seed: int
) -> tuple[Floats, NDArray[np.int64]]:
    """Seconds between requests, the first one's own coming first, and the model of each."""
    random = np.random.default_rng(seed)
    gaps = random.exponential(size=requests) / rate
    return gaps, random.integers(num_models, size=requests)


def service_times(server: Server, models: NDArray[np.int64]) -> Floats:
    """Seconds that the GPU takes for each request."""
    times = np.full(len(models), server.seconds)
    if server.room is None or server.load == 0:
        return times
    there: OrderedDict[int, None] = OrderedDict()
    for at, model in enumerate(models.tolist()):
        if model in there:
            there.move_to_end(model)
            continue
        if len(there) == server.room:
            there.popitem(last=False)
        there[model] = None
        times[at] += server.load
    return times


def latencies(gaps: Floats, seconds: Floats) -> Floats:
    """Waiting and service of each request: w' = max(0, w + s - gap) (Lindley)."""
    # The wait is how far the sum of s - gap has risen above its least so far.
    steps = np.concatenate(([0.0], seconds[:-1] - gaps[1:]))
    total = np.cumsum(steps)
    waits = total - np.minimum.accumulate(total)
    return waits + seconds


def summarise(rate: float, seconds: Floats, utilisation: float) -> Served:
    """The figures of some latencies."""
    return Served(
        rate=rate,
        utilisation=utilisation,
        mean=float(seconds.mean()),
        median=float(np.quantile(seconds, 0.5)),
        p99=float(np.quantile(seconds, 0.99)),
    )


def check_rate(rate: float) -> None:
    """Refuse what is no rate."""
    if not 0 < rate < float("inf"):
        raise InvalidOption(f"a rate of {rate:g} requests per second: give more than 0")
