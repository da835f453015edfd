"""Measure one call of an operator: sample its inputs, run it as a step would, time it.

On a CPU the call reads other inputs each time, and writes other memory, so that caches hold little
of both, and where other processes will compute beside it, threads make the same call meanwhile.
What reads a learning rate is an update: it writes over the weight, as in programs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from time import perf_counter
from typing import TypeAlias

import torch

from graphwright.aten import bind_kernel, overload_of, tensor_type, tensors_made
from graphwright.describe import Types
from graphwright.errors import GraphwrightError
from graphwright.ir import Attrs, TensorType, format_bytes
from graphwright.machine import Measurement
from graphwright.run.measure.calls.samples import sample_inputs
from graphwright.run.measure.hardware import Target, free_memory
from graphwright.run.measure.timing import measure
from graphwright.run.program import find_in_place, touch_memory, written_by

_Run: TypeAlias = Callable[[], object]

FAILURES = (
    GraphwrightError, RuntimeError, TypeError, ValueError, IndexError, AssertionError,
)  # fmt: skip
"""What a kernel raises when it does not take a call."""

LONG_CALL = 2e-4
"""Seconds from which on a call is measured beside others."""
CACHES, COPIES = 64 << 20, 16
"""Bytes of inputs that a call goes through in turns, and the most copies of them."""
MEMORY_SHARE = 0.8
"""Of the free memory: a call that needs more is not run."""


def try_to_measure(
    op: str, attrs: Attrs, types: Types, target: Target, seconds: float
) -> Measurement | str:
    """A measurement, or the reason why there is none."""
    device, needed = target.device, needed_memory(types) * (1 + target.others)
    try:
        free = free_memory(device)
        if needed > MEMORY_SHARE * free:
            return f"needs {format_bytes(needed)} of memory; {format_bytes(free)} are free"
        with torch.no_grad(), target.occupied(), _clean(device):
            if device.type == "cpu" and (wide := 2 * (needed + CACHES)) <= MEMORY_SHARE * free:
                touch_memory(wide)
            make = partial(_make_call, op, attrs, types, device)
            call = make()
            outputs = [tensor_type(t) for t in tensors_made(call())]
            # What else a kernel keeps differs by device, and some updates return nothing.
            if outputs[:1] != [*types.outputs[:1]] and update_of(op, types) is None:
                return f"makes {outputs[0] if outputs else 'nothing'}, not {types.outputs[0]}"
            with _beside_others(call, make, target.others):
                return measure(call, device, seconds)
    except MemoryError:
        return "does not fit into memory"
    except FAILURES as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"


def _make_call(op: str, attrs: Attrs, types: Types, device: torch.device) -> _Run:
    """A call with inputs of its own; on a CPU with others each time: caches are cold in a step.

    So is the memory of results: some of them are kept, and the oldest one makes room for the next.
    """
    inputs = sample_inputs(op, attrs, types, device)
    op = update_of(op, types) or op
    if device.type != "cpu":
        return bind_kernel(op, inputs, attrs, device)
    nbytes, made = (sum(t.nbytes for t in ts if t is not None) for ts in (inputs, types.outputs))
    count = max(1, min(COPIES, CACHES // max(1, nbytes)))
    copies = [[None if t is None else t.clone() for t in inputs] for _ in range(count - 1)]
    following = cycle([bind_kernel(op, each, attrs, device) for each in (inputs, *copies)])
    kept = deque[object](maxlen=min(COPIES, CACHES // max(1, made)))

    def call() -> object:
        outputs = next(following)()
        kept.append(outputs)
        return outputs

    return call


def update_of(op: str, types: Types) -> str | None:
    """The variant of an update that writes over weights and state; None for all other calls.

    An update reads a weight, a gradient and a rate, so that the weight moves on by equal steps.
    """
    if TensorType((), "float64") not in types.inputs or len(types.inputs) < 3:
        return None
    variant = find_in_place(overload_of(op))
    if variant is None:
        return None
    written = [types.inputs[place] for place in written_by(variant)]
    if written != [*types.outputs] or not all(type.shape for type in types.outputs):
        return None
    name, dot, version = op.removeprefix(f"{variant.namespace}.").partition(".")
    return f"{variant.namespace}.{name}_{dot}{version}"


@contextmanager
def _beside_others(call: _Run, make: Callable[[], _Run], count: int) -> Iterator[None]:
    """Let `count` threads make the same call meanwhile, as other processes will in a step.

    Short calls are made alone: threads wait for Python's lock, processes do not.
    """
    began = perf_counter()
    call()
    if count == 0 or perf_counter() - began < LONG_CALL:
        yield
        return
    over, calling = threading.Event(), threading.Semaphore(0)
    threads = torch.get_num_threads()

    def repeat(own: _Run) -> None:
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
        for _ in others:  # nothing is measured before all of them are busy
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
    """Leave the user's random generators as they were, and a GPU's memory and errors behind."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            if device.type == "cuda":
                torch.cuda.synchronize(device)
                torch.cuda.empty_cache()
