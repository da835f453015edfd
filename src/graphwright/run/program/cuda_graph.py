"""A module's run on one GPU, recorded once as a CUDA graph and replayed: its kernels follow each other without waiting for Python.

    call 1        as it is: kernels are chosen, compiled and loaded
    call 2        as it will be recorded, and watched: what waits for the GPU in between, to read a value, cannot be recorded
    call 3        recorded, then replayed
    call 4, ...   the batch and the learning rates are copied to where the recorded kernels read, the keys of random draws are written, and all is launched at once

Parameters and state stay at one place (their home), which a recording ends by writing to. What cannot be recorded, or only with
more memory than there is, goes on as in call 1.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from warnings import WarningMessage, catch_warnings, simplefilter, warn_explicit

import torch
from torch import Tensor, fx

from graphwright.run.program.module import Draw
from graphwright.run.random import Keys

SWITCH = "GRAPHWRIGHT_RECORD"
"""Set to 0, nothing is recorded."""
KEYS = 8
"""Keys for each random operator, at most; a complex normal number takes four."""

MARGIN, SPARE = 1.1, 1 << 26
"""How much more than it takes should be free before a step is recorded, as a factor and in bytes beside it."""

_WAITS = "called a synchronizing CUDA operation"
_EMPTY = "The CUDA Graph is empty"
_NEW = "Synchronization debug mode is a prototype feature"

Made = tuple[dict[str, Tensor], dict[str, Tensor]]


def may_record(device: torch.device) -> bool:
    """Whether a step that reaches no other process should be recorded on a device."""
    return device.type == "cuda" and os.environ.get(SWITCH, "1") != "0"


class Recorded:
    """Called as the module is, `(held, seed)`, with the same results; `kept` are the inputs that the caller keeps for the next call, where they are or new.

    `failure` is why it is not recorded, once that is known.
    """

    def __init__(self, module: fx.GraphModule, kept: Collection[str]) -> None:
        self.module, self.kept = module, frozenset(kept)
        self.recording: _Recording | None = None
        self.failure: str | None = None
        self.num_calls = 0

    def __call__(self, held: dict[str, Tensor], seed: int) -> Made:
        if self.num_calls == 2 and self.recording is None and self.failure is None:
            self._record(held)
        if self.recording is not None:
            return self.recording.replay(held, seed)
        watched = self.num_calls == 1
        updates, results = self._watch(held, seed) if watched else self.module(held, seed)
        self.num_calls += 1  # of those that went well
        return updates, results

    def _watch(self, held: dict[str, Tensor], seed: int) -> Made:
        keys = _keys(self.module, next(iter(held.values())).device, seed)
        before = torch.cuda.get_sync_debug_mode()
        with _told() as told:
            torch.cuda.set_sync_debug_mode("warn")
            try:
                updates, results = self.module(held, keys)
            finally:
                torch.cuda.set_sync_debug_mode(before)
        if _WAITS in told:
            self.failure = "it waits for the GPU in between"
        if keys.is_short:
            self.failure = "it draws under more keys than there is room for"
        return updates, results

    def _record(self, held: Mapping[str, Tensor]) -> None:
        try:
            if not _has_room(next(iter(held.values())).device):
                self.failure = "it would need more memory than is free"
                return
            with _told() as told:
                recording = _Recording(self.module, held, self.kept)
        except Exception as error:  # nothing has run, whatever it is: the module does
            self.failure = str(error)
        else:
            self.recording, self.failure = (None, _EMPTY) if _EMPTY in told else (recording, None)


class _Recording:
    def __init__(
        self, module: fx.GraphModule, held: Mapping[str, Tensor], kept: Collection[str]
    ) -> None:
        device = next(iter(held.values())).device
        self.homes = {n: v if n in kept else v.clone() for n, v in held.items()}
        self.keys = _keys(module, device)
        self.graph = torch.cuda.CUDAGraph()
        stream = _stream(device)
        with (
            torch.cuda.stream(stream),  # left also where what is in it fails
            torch.cuda.graph(self.graph, stream=stream, capture_error_mode="thread_local"),
        ):
            self.updated, self.results = run_at_home(module, self.homes, self.keys)

    def replay(self, held: dict[str, Tensor], seed: int) -> Made:
        for name, home in self.homes.items():
            value = held.pop(name)
            if value is not home:
                home.copy_(value)
        self.keys.write(seed)
        self.graph.replay()
        updates = {name: self.homes[name] for name in self.updated}
        return updates, {name: value.clone() for name, value in self.results.items()}


def _has_room(device: torch.device) -> bool:
    """Whether memory is free for all that a recording computes in, which is no more than what the last call has left to the allocator. To run out of it while recording can end the process."""
    needed = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    allowed = torch.cuda.get_per_process_memory_fraction(device) * total
    free = min(free, int(allowed) - torch.cuda.memory_reserved(device))
    return free >= MARGIN * needed + SPARE


def run_at_home(
    module: fx.GraphModule, homes: Mapping[str, Tensor], seed: int | Keys
) -> tuple[tuple[str, ...], dict[str, Tensor]]:
    """Run a module on values that stay where they are; those that it has changed, and its results."""
    updates, results = module(dict(homes), seed)
    moved = {n: v for n, v in updates.items() if v.data_ptr() != homes[n].data_ptr()}
    # A new value or a result may lie in the home of another value, which is written to next.
    taken = {_memory(home) for home in homes.values()}
    moved, results = (
        {n: v.clone() if _memory(v) in taken else v for n, v in values.items()}
        for values in (moved, results)
    )
    for name, value in moved.items():
        homes[name].copy_(value)
    return tuple(updates), results


@contextmanager
def _told() -> Generator[set[str], None, None]:
    """Which of the warnings that concern recording are given; others go on."""
    found: set[str] = set()
    told: list[WarningMessage] = []
    try:
        with catch_warnings(record=True) as told:
            simplefilter("always")
            yield found
    finally:
        for each in told:
            known = {words for words in (_WAITS, _EMPTY, _NEW) if words in str(each.message)}
            found |= known
            if not known:
                warn_explicit(each.message, each.category, each.filename, each.lineno)


def _memory(value: Tensor) -> int:
    return value.untyped_storage().data_ptr()


def _keys(module: fx.GraphModule, device: torch.device, seed: int | None = None) -> Keys:
    parts = [part for part in module.modules() if isinstance(part, fx.GraphModule)]
    draws = [n for part in parts for n in part.graph.nodes if isinstance(n.target, Draw)]
    return Keys(KEYS * len(draws), device, seed)


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
