"""A module's run on one GPU, recorded once as a CUDA graph and replayed: its kernels follow each other without waiting for Python.

    call 1        as it is: kernels are chosen, compiled and loaded
    call 2        recorded, then replayed
    call 3, ...   the batch and the learning rates are copied to where the recorded kernels read, the keys of random draws are written, and all is launched at once

Parameters and state stay at one place (their home), which a recording ends by writing to. What cannot be recorded, because it reads a value of the GPU in between or needs
more memory than there is, goes on as in call 1.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from warnings import catch_warnings, filterwarnings

import torch
from torch import Tensor, fx

from graphwright.run.counters import Keys
from graphwright.run.module import Draw

SWITCH = "GRAPHWRIGHT_RECORD"
"""Set to 0, nothing is recorded."""
KEYS = 8
"""Keys for each random operator, at most; a complex normal number takes four."""


def may_record(device: torch.device) -> bool:
    """Whether a step that reaches no other process should be recorded on a device."""
    return device.type == "cuda" and os.environ.get(SWITCH, "1") != "0"


class Recorded:
    """Called as the module is, `(held, seed)`, with the same results; `kept` are the inputs that the caller keeps for the next call, where they are or new."""

    def __init__(self, module: fx.GraphModule, kept: Collection[str]) -> None:
        self.module, self.kept = module, frozenset(kept)
        self.num_calls = 0
        self._recording: _Recording | None = None
        self._failed = False

    def __call__(
        self, held: dict[str, Tensor], seed: int
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        self.num_calls += 1
        if self._recording is None and self.num_calls > 1 and not self._failed:
            with catch_warnings():
                filterwarnings("ignore", "The CUDA Graph is empty")  # where the first kernel failed
                try:
                    self._recording = _Recording(self.module, held, self.kept)
                except RuntimeError:  # nothing has run: the module does
                    self._failed = True
        if self._recording is None:
            updates, results = self.module(held, seed)
            return updates, results
        return self._recording.replay(held, seed)


class _Recording:
    def __init__(
        self, module: fx.GraphModule, held: Mapping[str, Tensor], kept: Collection[str]
    ) -> None:
        device = next(iter(held.values())).device
        self.homes = {n: v if n in kept else v.clone() for n, v in held.items()}
        num_draws = sum(isinstance(node.target, Draw) for node in module.graph.nodes)
        self.keys = Keys(KEYS * num_draws, device)
        self.graph = torch.cuda.CUDAGraph()
        with (
            torch.cuda.device(device),
            torch.cuda.graph(self.graph, capture_error_mode="thread_local"),
        ):
            self.updated, self.results = run_at_home(module, self.homes, self.keys)

    def replay(
        self, held: dict[str, Tensor], seed: int
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        for name, home in self.homes.items():
            value = held.pop(name)
            if value is not home:
                home.copy_(value)
        self.keys.write(seed)
        self.graph.replay()
        updates = {name: self.homes[name] for name in self.updated}
        return updates, {name: value.clone() for name, value in self.results.items()}


def run_at_home(
    module: fx.GraphModule, homes: Mapping[str, Tensor], seed: int | Keys
) -> tuple[tuple[str, ...], dict[str, Tensor]]:
    """Run a module on values that stay where they are; those that it has changed, and its results."""
    updates, results = module(dict(homes), seed)
    moved = {n: v for n, v in updates.items() if v.data_ptr() != homes[n].data_ptr()}
    taken = {home.data_ptr() for home in homes.values()}
    # A new value may lie in another one's home, which is written to next.
    moved = {n: v.clone() if v.data_ptr() in taken else v for n, v in moved.items()}
    for name, value in moved.items():
        homes[name].copy_(value)
    return tuple(updates), results
