"""An iteration on a GPU, launched at once: a CUDA graph of the kernels and copies of all streams.

    iteration 1        makes the calls (`executor`)
    iteration 2        as it will be recorded
    iteration 3, ...   recorded for its turn, then replayed

There is a recording for each turn, as copies have fixed addresses on the host. They share the
memory that kernels need beside the arena. A step that waits for the GPU in between cannot be
recorded, nor one for which memory beside the arena is short; it goes on as in iteration 2.
`failure` says why.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from graphwright.run.program.cuda_graph import may_use_cuda_graph
from graphwright.run.program.swapping.streams import CudaStreams

FIRST_RECORDED = 1
"""Iterations that are issued one call after another before one is recorded."""


class Recorder:
    """Issues iterations, or replays them where it `records`; knows when each turn's have ended."""

    def __init__(self, streams: CudaStreams, turns: int, records: bool) -> None:
        self.streams, self.turns, self.records = streams, turns, records
        self.graphs: list[torch.cuda.CUDAGraph] = []
        self.failure: str | None = None
        self.num_issued = 0
        make: Callable[[], torch.cuda.Event] = torch.cuda.Event
        self._ended = [make() for _ in range(turns)]

    def wait_for(self, turn: int) -> None:
        """Wait until the last iteration of a turn has ended: its data can be overwritten."""
        self._ended[turn].synchronize()

    def run(self, issue: Callable[[int], None], turn: int) -> None:
        """One iteration."""
        if self._may_record():
            self._record(issue)
        if self.graphs:
            self.graphs[turn].replay()
        else:
            issue(turn)
            self.num_issued += 1
        self.note_end(turn)

    def note_end(self, turn: int) -> None:
        """An iteration has been issued to the current stream."""
        self._ended[turn].record(torch.cuda.current_stream(self.streams.device))

    def forget(self) -> None:
        """What was recorded serves no longer."""
        self.graphs, self.failure, self.num_issued = [], None, 0

    def _may_record(self) -> bool:
        return (
            self.records
            and not self.graphs
            and self.failure is None
            and self.num_issued >= FIRST_RECORDED
            and may_use_cuda_graph(self.streams.device)
        )

    def _record(self, issue: Callable[[int], None]) -> None:
        graphs: list[torch.cuda.CUDAGraph] = []
        compute = self.streams.compute
        try:
            for turn in range(self.turns):
                graph = torch.cuda.CUDAGraph()
                pool = graphs[0].pool() if graphs else None
                with (
                    torch.cuda.stream(compute),  # left also where what is in it fails
                    torch.cuda.graph(
                        graph, pool=pool, stream=compute, capture_error_mode="thread_local"
                    ),
                ):
                    issue(turn)
                graphs.append(graph)
        except Exception as error:  # nothing has run: it is issued call by call
            self.failure = str(error)
        else:
            self.graphs = graphs
