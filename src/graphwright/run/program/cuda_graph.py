"""A module's run on one GPU as a CUDA graph: kernels follow each other without waiting for Python.

    call 1        as it is: kernels are chosen, compiled and loaded
    call 2        as it will be recorded, and watched: a wait for the GPU cannot be recorded
    call 3        recorded, then replayed
    call 4, ...   the batch and the learning rates are copied to where the recorded kernels read,
                  the keys of random draws are written, and everything is launched at once

Parameters and state stay in one place, which a recording ends by writing to. What cannot be
recorded, or only with more memory than there is, goes on as in call 1.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from warnings import WarningMessage, catch_warnings, simplefilter, warn_explicit

import torch
from torch import Tensor, fx

from graphwright.run.program.targets import DrawPart
from graphwright.run.random import Keys

SWITCH = "GRAPHWRIGHT_RECORD"
"""Set to 0, nothing is recorded."""
KEYS_PER_OPERATOR = 8
"""Keys for each random operator, at most; a complex normal number takes four."""
MARGIN, SPARE = 1.1, 1 << 26
"""How much memory beyond the need must be free to record a step: a factor, and bytes on top."""

_WAITS = "called a synchronizing CUDA operation"
_EMPTY = "The CUDA Graph is empty"
_NEW = "Synchronization debug mode is a prototype feature"

UpdatesAndResults = tuple[dict[str, Tensor], dict[str, Tensor]]


def may_use_cuda_graph(device: torch.device) -> bool:
    """Whether a step that reaches no other process is recorded on a device."""
    return device.type == "cuda" and os.environ.get(SWITCH, "1") != "0"


class CudaGraphRunner:
    """Called as the module is, `(held, seed)`, with the same results.

    `kept` are the inputs that the caller keeps, in place or updated, for the next call; `failure`
    is why nothing is recorded, once that is known.
    """

    def __init__(self, module: fx.GraphModule, kept: Collection[str]) -> None:
        self.module, self.kept = module, frozenset(kept)
        self.recording: _Recording | None = None
        self.failure: str | None = None
        self.num_calls = 0

    def __call__(self, held: dict[str, Tensor], seed: int) -> UpdatesAndResults:
        if self.num_calls == 2 and self.recording is None and self.failure is None:
            self._record(held)
        if self.recording is not None:
            return self.recording.replay(held, seed)
        watched = self.num_calls == 1
        updates, results = self._watch(held, seed) if watched else self.module(held, seed)
        self.num_calls += 1  # of those that went well
        return updates, results

    def _watch(self, held: dict[str, Tensor], seed: int) -> UpdatesAndResults:
        keys = _keys(self.module, next(iter(held.values())).device, seed)
        before = torch.cuda.get_sync_debug_mode()
        with _recording_warnings() as warned:
            torch.cuda.set_sync_debug_mode("warn")
            try:
                updates, results = self.module(held, keys)
            finally:
                torch.cuda.set_sync_debug_mode(before)
        if _WAITS in warned:
            self.failure = "it waits for the GPU in between"
        if keys.is_short:
            self.failure = "it draws under more keys than there is room for"
        return updates, results

    def _record(self, held: Mapping[str, Tensor]) -> None:
        try:
            if not _has_room(next(iter(held.values())).device):
                self.failure = "it would need more memory than is free"
                return
            with _recording_warnings() as warned:
                recording = _Recording(self.module, held, self.kept)
        except Exception as error:  # nothing has run, whatever it is: the module does
            self.failure = str(error)
        else:
            self.recording, self.failure = (None, _EMPTY) if _EMPTY in warned else (recording, None)


class _Recording:
    def __init__(
        self, module: fx.GraphModule, held: Mapping[str, Tensor], kept: Collection[str]
    ) -> None:
        device = next(iter(held.values())).device
        self.static = {n: v if n in kept else v.clone() for n, v in held.items()}
        self.keys = _keys(module, device)
        self.graph = torch.cuda.CUDAGraph()
        stream = _stream(device)
        with (
            torch.cuda.stream(stream),  # left also where what is in it fails
            torch.cuda.graph(self.graph, stream=stream, capture_error_mode="thread_local"),
        ):
            self.updated, self.results = run_in_place(module, self.static, self.keys)

    def replay(self, held: dict[str, Tensor], seed: int) -> UpdatesAndResults:
        for name, memory in self.static.items():
            value = held.pop(name)
            if value is not memory:
                memory.copy_(value)
        self.keys.write(seed)
        self.graph.replay()
        updates = {name: self.static[name] for name in self.updated}
        return updates, {name: value.clone() for name, value in self.results.items()}


def _has_room(device: torch.device) -> bool:
    """Whether there is memory for a recording: as much as the last call left to the allocator.

    To run out of it while recording can end the process.
    """
    needed = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    allowed = torch.cuda.get_per_process_memory_fraction(device) * total
    free = min(free, int(allowed) - torch.cuda.memory_reserved(device))
    return free >= MARGIN * needed + SPARE


def run_in_place(
    module: fx.GraphModule, static: Mapping[str, Tensor], seed: int | Keys
) -> tuple[tuple[str, ...], dict[str, Tensor]]:
    """Run a module on tensors that stay where they are; the names of those updated, and results."""
    updates, results = module(dict(static), seed)
    moved = {n: v for n, v in updates.items() if v.data_ptr() != static[n].data_ptr()}
    # A new value or a result may lie in the memory of another one, which is written to next.
    taken = {_memory(tensor) for tensor in static.values()}
    moved, results = (
        {n: v.clone() if _memory(v) in taken else v for n, v in values.items()}
        for values in (moved, results)
    )
    for name, value in moved.items():
        static[name].copy_(value)
    return tuple(updates), results


@contextmanager
def _recording_warnings() -> Generator[set[str], None, None]:
    """Collect the warnings that concern recording; others pass."""
    collected: set[str] = set()
    warned: list[WarningMessage] = []
    try:
        with catch_warnings(record=True) as warned:
            simplefilter("always")
            yield collected
    finally:
        for each in warned:
            known = {words for words in (_WAITS, _EMPTY, _NEW) if words in str(each.message)}
            collected |= known
            if not known:
                warn_explicit(each.message, each.category, each.filename, each.lineno)


def _memory(value: Tensor) -> int:
    return value.untyped_storage().data_ptr()


def _keys(module: fx.GraphModule, device: torch.device, seed: int | None = None) -> Keys:
    parts = [part for part in module.modules() if isinstance(part, fx.GraphModule)]
    draws = [n for part in parts for n in part.graph.nodes if isinstance(n.target, DrawPart)]
    return Keys(KEYS_PER_OPERATOR * len(draws), device, seed)


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
