"""How long a call takes on a device: the median of many, and their spread.

    warm-up | batch | batch | batch ...        a sample is a batch of calls, long enough for the clock
                                               until there is time enough in them, or enough of them

On a GPU, some calls are recorded as a CUDA graph and events on the stream time its replays: what the device takes, without
the time that Python needs to launch them one by one. A call that cannot be recorded is timed with its launching.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from time import perf_counter

import torch

from graphwright.machine import Measurement
from graphwright.simulate import CALM, quartiles

Clock = Callable[[Callable[[], object], int], float]
"""Seconds that a number of calls take, one after another."""

MIN_SAMPLES, MAX_SAMPLES, MAX_BATCH = 5, 100, 1000

SAMPLE_SECONDS = {"cpu": 2e-4, "cuda": 1e-3}
"""The least length of a sample by kind of device."""

RECORDED = 20
"""Calls in one CUDA graph."""

MAX_ROUNDS = 3
"""How often samples are taken that something disturbs."""


def measure(call: Callable[[], object], device: torch.device, seconds: float = 0.2) -> Measurement:
    """Time a call: the median of samples that last `seconds` together, and half the distance of their quartiles.

    Of up to three rounds, until one is calm, the quickest counts: other work on the machine only ever adds time.
    """
    if device.type == "cuda":
        recorded = _record(call, device)
        if recorded is not None:
            many = _measure(recorded, _cuda_clock(device), device, seconds)
            return Measurement(
                seconds=many.seconds / RECORDED,
                spread=many.spread / RECORDED,
                repeats=many.repeats * RECORDED,
            )
    return _measure(
        call, _cuda_clock(device) if device.type == "cuda" else _cpu_clock, device, seconds
    )


def _measure(
    call: Callable[[], object], clock: Clock, device: torch.device, seconds: float
) -> Measurement:
    first = clock(call, 1)
    guess = first if first > seconds else min(first, clock(call, 1))
    batch = min(MAX_BATCH, max(1, ceil(SAMPLE_SECONDS.get(device.type, 2e-4) / max(guess, 1e-7))))
    if first <= seconds:
        clock(call, batch)  # caches, allocators and clock rates settle
    best: Measurement | None = None
    for _ in range(MAX_ROUNDS):
        found = _round(call, clock, batch, seconds, MIN_SAMPLES if guess < seconds else 3)
        if best is None or found.seconds < best.seconds:
            best = found
        if found.spread <= CALM * found.seconds:
            break
    assert best is not None
    return best


def _round(
    call: Callable[[], object], clock: Clock, batch: int, seconds: float, least: int
) -> Measurement:
    samples: list[float] = []
    while len(samples) < least or (sum(samples) * batch < seconds and len(samples) < MAX_SAMPLES):
        samples.append(clock(call, batch) / batch)
    low, middle, high = quartiles(samples)
    return Measurement(seconds=middle, spread=(high - low) / 2, repeats=len(samples) * batch)


def _cpu_clock(call: Callable[[], object], repeats: int) -> float:
    begin = perf_counter()
    for _ in range(repeats):
        call()
    return perf_counter() - begin


def _record(call: Callable[[], object], device: torch.device) -> Callable[[], object] | None:
    """Some calls as one CUDA graph; None if the operator waits for the device, or copies from it."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.device(device):
            torch.cuda.synchronize(device)  # the inputs are there
            side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            with torch.cuda.stream(side):
                call()
            torch.cuda.synchronize(device)
            with torch.cuda.graph(graph):
                for _ in range(RECORDED):
                    call()
    except RuntimeError:
        torch.cuda.synchronize(device)
        return None
    return graph.replay


def _cuda_clock(device: torch.device) -> Clock:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]

    def clock(call: Callable[[], object], repeats: int) -> float:
        with torch.cuda.device(device):
            start.record()
            for _ in range(repeats):
                call()
            end.record()
            end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    return clock
