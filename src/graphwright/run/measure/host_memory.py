"""What a memory plan has to know of a GPU beside the times of operators (`gw.swap`).

host link       rates of copies to and from pinned host memory, one way alone and both together
memory beside   what kernels need beside their operands and places: workspaces, and results of
                operators that cannot write into memory that is given; `gw.swap(reserve=...)`
"""

from __future__ import annotations

from time import perf_counter

import torch
from torch import Tensor

from graphwright.aten import call_kernel
from graphwright.describe import Types
from graphwright.errors import InvalidMeasurement
from graphwright.ir import Attrs, Graph
from graphwright.machine import HostLink
from graphwright.run.measure.calls import FAILURES, calls_of, sample_inputs
from graphwright.run.program import layouts_made, write_into, write_updates

COPIED, SMALL, REPEATS, RECORDED = 1 << 28, 512, 6, 200
"""Bytes of a large and of a small copy, how often each is made, and how many small ones at once."""


def measure_host_link(device: str = "cuda") -> HostLink:
    """The link between a GPU and pinned memory of its host."""
    where = _gpu(device)
    host = torch.empty(2, COPIED, dtype=torch.uint8).pin_memory()
    there = torch.empty(2, COPIED, dtype=torch.uint8, device=where)
    streams = [torch.cuda.Stream(where) for _ in range(2)]  # type: ignore[no-untyped-call]

    def seconds(out: bool, back: bool, nbytes: int, repeats: int) -> float:
        torch.cuda.synchronize(where)
        start = perf_counter()
        for _ in range(repeats):
            if out:
                with torch.cuda.stream(streams[0]):
                    host[0, :nbytes].copy_(there[0, :nbytes], non_blocking=True)
            if back:
                with torch.cuda.stream(streams[1]):
                    there[1, :nbytes].copy_(host[1, :nbytes], non_blocking=True)
        torch.cuda.synchronize(where)
        return (perf_counter() - start) / repeats

    seconds(True, True, COPIED, 1)  # memory is touched, clocks settle
    one_way = max(seconds(*way, COPIED, REPEATS) for way in ((True, False), (False, True)))
    both = seconds(True, True, COPIED, REPEATS)
    latency = _latency(host[0, :SMALL], there[0, :SMALL], where)
    rate = COPIED / one_way
    duplex = min(max(2 * COPIED / both, rate), 2 * rate)
    return HostLink(bandwidth=rate, duplex=duplex, latency=latency)


def _latency(host: Tensor, there: Tensor, device: torch.device) -> float:
    """Seconds of a small copy among others that are launched with it."""
    graph = torch.cuda.CUDAGraph()
    host.copy_(there, non_blocking=True)
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for _ in range(RECORDED):
            host.copy_(there, non_blocking=True)
    graph.replay()
    torch.cuda.synchronize(device)
    start = perf_counter()
    for _ in range(REPEATS):
        graph.replay()
    torch.cuda.synchronize(device)
    return (perf_counter() - start) / (REPEATS * RECORDED)


def memory_beside(graph: Graph, device: str = "cuda") -> int:
    """The most bytes that a kernel of a graph takes on a GPU beside its operands and results.

    Every distinct call is made once, on random inputs; those that fail count nothing.
    """
    where = _gpu(device)
    news = set(graph.updates.values())
    calls: dict[tuple[str, Attrs, Types], bool] = {}
    for node, (op, attrs, types) in zip(graph.nodes, calls_of(graph), strict=True):
        call = op, attrs if isinstance(attrs, Attrs) else Attrs(attrs), types
        calls[call] = calls.get(call, True) and news.issuperset(node.outputs)
    torch.cuda.synchronize(where)
    start, most = torch.cuda.memory_allocated(where), 0
    with torch.no_grad(), torch.random.fork_rng(devices=[where]):
        for (op, attrs, types), updates in calls.items():
            most = max(most, _beside(op, attrs, types, updates, where))
    kept = max(0, torch.cuda.memory_allocated(where) - start)  # workspaces of libraries
    return most + kept


def _beside(op: str, attrs: Attrs, types: Types, updates: bool, device: torch.device) -> int:
    try:
        inputs = sample_inputs(op, attrs, types, device)
        like = layouts_made(op, inputs, attrs)
        outs: list[Tensor] = []
        into = None
        if like is not None:
            outs = [torch.empty_like(t, device=device) for t in like]
            into = write_into(op, inputs, attrs, outs, False)
        if into is None and updates:
            into = write_updates(op, inputs, attrs)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        made = call_kernel(op, inputs, attrs, device) if into is None else into()
        peak = torch.cuda.max_memory_allocated(device) - before
        del made
        left = torch.cuda.memory_allocated(device) - before
    except FAILURES:
        return 0
    return max(0, peak - max(0, left))


def _gpu(device: str) -> torch.device:
    where = torch.device(device)
    if where.type != "cuda" or not torch.cuda.is_available():
        raise InvalidMeasurement(f"{device} is no GPU that PyTorch {torch.__version__} sees here")
    return where
