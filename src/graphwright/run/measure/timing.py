"""How long a call takes on a device: the median of many, and their spread.

    warm-up | batch | batch | batch ...     a sample is a batch of calls, long enough for the clock;
                                            samples go on for long enough, or until there are enough

On a CPU, the time in which other programs had the core is taken off (Linux). Short calls follow
others there, as they do in a step, which leaves them neither caches nor predicted branches; what
those others take alone is taken off. On a GPU, events time the replays of a CUDA graph of some
calls: what the device takes, without the time that Python needs to launch them. A call that cannot
be recorded is timed with its launch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import ceil, nan
from pathlib import Path
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

SHORT_CALL = 2e-4
"""Seconds up to which a call on a CPU is timed among others."""
STIRRED = 1 << 18
"""Bytes that those others copy: more than a first-level cache holds."""

LEAST = 1e-7
"""No call takes less."""

MAX_ROUNDS = 3
"""How often samples are taken that something disturbs."""


def measure(call: Callable[[], object], device: torch.device, seconds: float = 0.2) -> Measurement:
    """Time a call: the median of samples of `seconds` in all, and half the distance of quartiles.

    The quickest of up to three rounds, until one is calm, counts: other work only adds time.
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
        return _measure(call, _cuda_clock(device), device, seconds)
    began = perf_counter()
    call()
    call()
    is_short = perf_counter() - began < 2 * SHORT_CALL
    return _measure(call, _clock_among_others if is_short else _cpu_clock, device, seconds)


def _measure(
    call: Callable[[], object], clock: Clock, device: torch.device, seconds: float
) -> Measurement:
    first = clock(call, 1)
    began = perf_counter()
    guess = first if first > seconds else min(first, clock(call, 1))
    length = max(guess, perf_counter() - began, 1e-7)  # others that it is timed among included
    batch = min(MAX_BATCH, max(1, ceil(SAMPLE_SECONDS.get(device.type, 2e-4) / length)))
    if first <= seconds:
        clock(call, batch)  # caches, allocators and clock rates settle
    best: Measurement | None = None
    is_short = clock is _clock_among_others
    least = MIN_SAMPLES if is_short or guess < seconds else 3
    for _ in range(1 if is_short else MAX_ROUNDS):
        measured = _round(call, clock, batch, seconds, least)
        if best is None or measured.seconds < best.seconds:
            best = measured
        if measured.spread <= CALM * measured.seconds:
            break
    assert best is not None
    return best


def _round(
    call: Callable[[], object], clock: Clock, batch: int, seconds: float, least: int
) -> Measurement:
    samples: list[float] = []
    began = perf_counter()
    while len(samples) < least or (perf_counter() - began < seconds and len(samples) < MAX_SAMPLES):
        samples.append(clock(call, batch) / batch)
    low, middle, high = quartiles(samples)
    return Measurement(seconds=middle, spread=(high - low) / 2, repeats=len(samples) * batch)


def seconds_without_core() -> float:
    """How long this thread was ready to run so far, but did not (Linux); else not a number."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return nan


def _cpu_clock(call: Callable[[], object], repeats: int) -> float:
    """Without the time in which other programs had the core."""
    without_core, begin = seconds_without_core(), perf_counter()
    for _ in range(repeats):
        call()
    elapsed = perf_counter() - begin
    waited = seconds_without_core() - without_core
    return elapsed - waited if 0 < waited < elapsed else elapsed


def _clock_among_others(call: Callable[[], object], repeats: int) -> float:
    """The difference of other calls with this one among them, and without."""
    stir = _make_stir()

    def both() -> None:
        stir()
        call()

    with_it, alone = _cpu_clock(both, repeats), _cpu_clock(stir, repeats)
    return max(with_it - alone, LEAST * repeats)


@cache
def _make_stir() -> Callable[[], None]:
    """Some small calls, and a copy."""
    few, memory = torch.ones(16, 16), torch.ones(2, STIRRED, dtype=torch.uint8)

    def stir() -> None:
        memory[0].copy_(memory[1])
        few.mm(few), few.add(few), few.sum(0), few.t().contiguous(), few.relu()

    return stir


def _record(call: Callable[[], object], device: torch.device) -> Callable[[], object] | None:
    """Some calls as one CUDA graph; None if the operator waits for the device or copies from it."""
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
    make: Callable[..., torch.cuda.Event] = torch.cuda.Event
    start, end = (make(enable_timing=True) for _ in range(2))

    def clock(call: Callable[[], object], repeats: int) -> float:
        with torch.cuda.device(device):
            start.record()
            for _ in range(repeats):
                call()
            end.record()
            end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    return clock
