"""Three streams that work at once: compute, out, in. A CPU follows the order of the plan.

On a GPU every action is issued to its stream behind the events of what it waits for. Actions that
somebody waits for on another stream record an event. Events and streams are made once, and used in
every iteration. What kernels allocate is used on the compute stream alone, so the caching allocator
needs no `record_stream`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch

from graphwright.plans import STREAMS, Action


class Streams(Protocol):
    """Where actions are issued."""

    def begin(self) -> None:
        """An iteration begins: the streams wait for what the current stream has been given."""

    def issue(self, at: int) -> AbstractContextManager[Any]:
        """The context in which action `at` is issued, behind all that it waits for."""

    def issued(self, at: int) -> None:
        """Action `at` has been issued."""

    def end(self) -> None:
        """The iteration has been issued: the current stream waits for all streams."""


class CpuStreams:
    """One after the other."""

    def begin(self) -> None:
        pass

    def issue(self, at: int) -> AbstractContextManager[Any]:
        return nullcontext()

    def issued(self, at: int) -> None:
        pass

    def end(self) -> None:
        pass


class CudaStreams:
    """Three CUDA streams with an event for each action that another stream waits for."""

    def __init__(self, actions: Sequence[Action], device: torch.device) -> None:
        self.device = device
        self.streams = [torch.cuda.Stream(device) for _ in STREAMS]  # type: ignore[no-untyped-call]
        self.stream_of = [STREAMS.index(action.stream) for action in actions]
        self.after = [[n for n in action.after if n >= 0] for action in actions]
        awaited = {n for waits in self.after for n in waits}
        self.events = {n: torch.cuda.Event() for n in awaited}  # type: ignore[no-untyped-call]

    @property
    def compute(self) -> torch.cuda.Stream:
        return self.streams[0]

    def begin(self) -> None:
        current = torch.cuda.current_stream(self.device)
        for stream in self.streams:
            if stream != current:
                stream.wait_stream(current)

    def issue(self, at: int) -> AbstractContextManager[Any]:
        stream = self.streams[self.stream_of[at]]
        for before in self.after[at]:
            stream.wait_event(self.events[before])
        return torch.cuda.stream(stream)

    def issued(self, at: int) -> None:
        event = self.events.get(at)
        if event is not None:
            event.record(self.streams[self.stream_of[at]])

    def end(self) -> None:
        current = torch.cuda.current_stream(self.device)
        for stream in self.streams:
            if stream != current:
                current.wait_stream(stream)
