"""Measure what operators take on this machine, and keep it where the cost model finds it.

    calls  ->  distinct, without views and constants  ->  known to the store?  ->  sampled, run, timed, stored one by one
               all of them in three sweeps, and the median counts: a machine that others use has slow moments, which last longer than a call is timed

A call that fails or does not fit into memory is told, not raised, and stored nowhere. What was stored before an
interruption stays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from time import perf_counter
from typing import TypeAlias

import torch

from graphwright.aten import call_kernel, tensor_type
from graphwright.describe import Types, types_of
from graphwright.errors import GraphwrightError
from graphwright.ir import Attr, Attrs, Graph, format_bytes
from graphwright.machine import Device, Measurement, Store
from graphwright.plans import Plan
from graphwright.run.measure.hardware import Target, find_target, free_memory
from graphwright.run.measure.samples import sample_inputs
from graphwright.run.measure.timing import measure
from graphwright.run.program import keep_freed_memory, touch_memory
from graphwright.simulate import (
    Calibration,
    CostModel,
    Row,
    Skipped,
    measured_with,
    spell_types,
    torch_version,
)
from graphwright.tasks import place_all

Call: TypeAlias = tuple[str, Mapping[str, Attr], Types]
"""Operator, attributes and local types."""

_Call: TypeAlias = Callable[[], tuple[torch.Tensor, ...]]

Progress: TypeAlias = Callable[[int, int, str], None]
"""Told before each call: how many are done, of how many, and the operator that is next."""

_Key: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Distinct:
    """A call, how often it is made, the seconds that it takes by the roofline, and what the store knows it by."""

    op: str
    attrs: Attrs
    types: Types
    count: int
    roofline: float
    key: _Key


_FAILURES = (
    GraphwrightError, RuntimeError, TypeError, ValueError, IndexError, AssertionError,
)  # fmt: skip
"""What a kernel raises when it does not take a call."""

LONG_CALL = 2e-4
"""Seconds from which on a call is measured beside others."""

CACHES, COPIES = 64 << 20, 16
"""Bytes of inputs in all with which a call is made in turns, and the most copies of them."""

SWEEPS = 3
"""How often every call is measured, with all others in between."""

MEMORY_SHARE = 0.8
"""Of the free memory: a call that needs more is not run."""


def calls_of(graph: Graph) -> list[Call]:
    """The calls of a graph, one for every node."""
    return [(node.op, node.attrs, types_of(graph, node)) for node in graph.nodes]


def calls_of_plan(graph: Graph, plan: Plan) -> list[Call]:
    """The calls that devices make of a graph's nodes under a plan: those of their parts."""
    return [
        (node.op, part.attrs, part.types)
        for node, placed in zip(graph.nodes, place_all(graph, plan), strict=True)
        for part in placed.classes
    ]


def calibrate(
    calls: Iterable[Call],
    *,
    device: str = "cpu",
    store: Store | None = None,
    figures: Device | None = None,
    limit: int | None = None,
    seconds: float = 0.2,
    progress: Progress | None = None,
) -> Calibration:
    """Measure the distinct calls on a device of this machine; a call that the store knows is not run again.

    `device` is "cpu", "local:4" (one of four processes), "cuda" or "cuda:1"; `figures` what the roofline goes by, if not those known of the device. With
    `limit`, only so many calls are looked at, those first that take longest by the roofline. Each call is timed for about
    `seconds`.
    """
    target = find_target(device, figures)
    store = store or Store()
    known = store.load_compute(target.figures.name, measured_with())
    wanted, num_free = _distinct(calls, target.figures)
    wanted = wanted[:limit]
    new = [one for one in wanted if one.key not in known]
    if target.device.type == "cpu":
        keep_freed_memory()  # as in a step
    measured, failed = _sweep(new, target, store, seconds, progress)
    rows: list[Row] = []
    skipped: list[Skipped] = []
    for one in wanted:
        found = measured.get(one.key) or known.get(one.key)
        if found is None:
            skipped.append(
                Skipped(
                    op=one.op, attrs=one.attrs, types=one.types, count=one.count, reason=failed[one.key],
                )
            )  # fmt: skip
        else:
            rows.append(
                Row(
                    op=one.op, attrs=one.attrs, types=one.types, count=one.count, measured=found.seconds,
                    spread=found.spread, repeats=found.repeats, roofline=one.roofline, new=one.key in measured,
                )
            )  # fmt: skip
    return Calibration(
        device=target.figures.name,
        figures=target.figures,
        torch=torch_version(),
        rows=tuple(sorted(rows, key=lambda row: -row.measured * row.count)),
        skipped=tuple(skipped),
        num_free=num_free,
    )


def _sweep(
    calls: Sequence[_Distinct],
    target: Target,
    store: Store,
    seconds: float,
    progress: Progress | None,
) -> tuple[dict[_Key, Measurement], dict[_Key, str]]:
    """Measure calls in sweeps over all of them, each stored at once; what they take, and why those that fail do."""
    found: dict[_Key, list[Measurement]] = {}
    failed: dict[_Key, str] = {}
    total = len(calls) * SWEEPS
    for done, one in enumerate([*calls] * SWEEPS):
        if progress is not None:
            progress(done, total, one.op)
        if one.key in failed:
            continue
        result = _try_to_measure(one.op, one.attrs, one.types, target, seconds / SWEEPS)
        if isinstance(result, str):
            failed[one.key] = result
        else:
            found.setdefault(one.key, []).append(result)
            middle = _middle(found[one.key])
            store.put_compute(target.figures.name, measured_with(), *one.key, middle)
    if progress is not None:
        progress(total, total, "")
    return {key: _middle(each) for key, each in found.items()}, failed


def _middle(found: Sequence[Measurement]) -> Measurement:
    """The median of measurements of one call, the lower one of two; its spread is theirs where that is more than its own."""
    ordered = sorted(found, key=lambda one: one.seconds)
    middle = ordered[(len(found) - 1) // 2]
    between = (
        ordered[-1].seconds - ordered[0].seconds
    ) / 4  # half the distance of three's quartiles
    return replace(middle, spread=max(middle.spread, between))


def _distinct(calls: Iterable[Call], figures: Device) -> tuple[list[_Distinct], int]:
    """The distinct calls, the longest first; and how many take no time."""
    costs = CostModel(measured=False)
    counts: dict[tuple[str, Attrs, Types], int] = {}
    num_free = 0
    for op, attrs, types in calls:
        own = attrs if isinstance(attrs, Attrs) else Attrs(attrs)
        if costs.compute(op, own, types, figures) == 0:
            num_free += 1
        else:
            counts[op, own, types] = counts.get((op, own, types), 0) + 1
    found = [
        _Distinct(
            op, attrs, types, count, costs.compute(op, attrs, types, figures),
            (op, attrs.text, spell_types(types)),
        )
        for (op, attrs, types), count in counts.items()
    ]  # fmt: skip
    return sorted(found, key=lambda one: -one.roofline * one.count), num_free


def _try_to_measure(
    op: str, attrs: Attrs, types: Types, target: Target, seconds: float
) -> Measurement | str:
    """A measurement, or the reason why there is none."""
    device, needed = target.device, needed_memory(types) * (1 + target.others)
    try:
        free = free_memory(device)
        if needed > MEMORY_SHARE * free:
            return f"needs {format_bytes(needed)} of memory; {format_bytes(free)} are free"
        with torch.no_grad(), target.occupied(), _clean(device):
            if device.type == "cpu" and (wide := 2 * needed + CACHES) <= MEMORY_SHARE * free:
                touch_memory(wide)
            make = partial(_make_call, op, attrs, types, device)
            call = make()
            made = [tensor_type(t) for t in call()]
            if made[:1] != [*types.outputs[:1]]:  # what else a kernel keeps differs between devices
                return f"makes {made[0] if made else 'nothing'}, not {types.outputs[0]}"
            with _company(call, make, target.others):
                return measure(call, device, seconds)
    except MemoryError:
        return "does not fit into memory"
    except _FAILURES as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"


def _make_call(op: str, attrs: Attrs, types: Types, device: torch.device) -> _Call:
    """A call with inputs of its own; on a CPU with others each time, as in a step, where caches hold little of what a call reads."""
    inputs = sample_inputs(op, attrs, types, device)
    nbytes = sum(t.nbytes for t in inputs if t is not None)
    if device.type != "cpu" or 2 * nbytes > CACHES:
        return partial(call_kernel, op, inputs, attrs, device)
    count = min(COPIES, CACHES // max(1, nbytes))
    copies = [[None if t is None else t.clone() for t in inputs] for _ in range(count)]
    following = cycle(copies)
    return lambda: call_kernel(op, next(following), attrs, device)


@contextmanager
def _company(call: _Call, make: Callable[[], _Call], count: int) -> Iterator[None]:
    """Others that make the same call all the while, as other processes will: they share caches and memory.

    Short calls are made alone: these others wait for Python's lock, processes do not.
    """
    begun = perf_counter()
    call()
    if count == 0 or perf_counter() - begun < LONG_CALL:
        yield
        return
    over, calling = threading.Event(), threading.Semaphore(0)

    threads = torch.get_num_threads()

    def repeat(own: _Call) -> None:
        torch.set_num_threads(threads)  # a new thread computes with as many as there are cores
        with torch.no_grad():
            try:
                own()
            finally:
                calling.release()
            while not over.is_set():
                own()

    calls = [make() for _ in range(count)]
    others = [threading.Thread(target=repeat, args=(own,), daemon=True) for own in calls]
    for other in others:
        other.start()
    try:
        for _ in others:  # nothing is measured before all of them are at it
            calling.acquire()
        yield
    finally:
        over.set()
        for other in others:
            other.join()


def needed_memory(types: Types) -> int:
    """Bytes that a call is taken to need: its inputs, its outputs, and as much again to work in."""
    outputs = sum(t.nbytes for t in types.outputs)
    return sum(t.nbytes for t in types.inputs if t is not None) + 2 * outputs


@contextmanager
def _clean(device: torch.device) -> Iterator[None]:
    """Random draws leave the user's generators as they were; a GPU's errors and memory do not outlast a call."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            if device.type == "cuda":
                torch.cuda.synchronize(device)
                torch.cuda.empty_cache()
