"""What a transfer takes of a core that computes meanwhile: Gloo's threads, and the system's.

    alone      |--- computing ------------------|
    beside     |--- computing ----------------------|      the difference is the handling
               |- a transfer -|

Computing lasts twice as long as the transfer, so nobody waits for it. What counts is the time that
all threads of the process had a core, the system's work on their behalf included: it does not
depend on when messages arrive. Sums and gathers of two sizes each give both figures of

    handling = each + per_byte * bytes received      the mean over ranks and kinds counts

Only clusters whose devices overlap computing and communication need it: on the others computing
stops for as long as a transfer takes.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean, median
from time import perf_counter, process_time

import torch

from graphwright.run.measure.turns import Turns
from graphwright.run.processes import World
from graphwright.run.program import Pending

SIDE = 192
"""Products of this size are computed: a tenth of a millisecond each, so that ends do not matter."""
BLOCKS, ROUNDS = 3, 3
"""Rounds are timed in blocks, of which those count in which other programs had no core."""
LEAST = 2e-3
"""Computing lasts so many seconds at least."""
Begin = Callable[[], Pending | None]


def measure_handling(
    here: World, kinds: list[tuple[tuple[Begin, float], tuple[Begin, float]]]
) -> tuple[float, float]:
    """(seconds for each transfer, for each byte received); all ranks call this, and get the same.

    `kinds` are pairs of a small transfer and a large one, each with the bytes that a rank receives.
    """
    import torch.distributed as dist

    found = []
    for (small, few), (large, many) in kinds:
        least, most = (max(0.0, _extra(here, begin)) for begin in (small, large))
        per_byte = max(0.0, most - least) / (many - few)
        found.append((max(0.0, least - per_byte * few), per_byte))
    figures = torch.tensor([fmean(column) for column in zip(*found, strict=True)])
    figures = figures.to(torch.float64)
    dist.all_reduce(figures, dist.ReduceOp.SUM)
    each, per_byte = (figures / here.size).tolist()
    return each, per_byte


def _extra(here: World, begin: Begin) -> float:
    """By how many seconds computing is longer with a transfer under way."""
    import torch.distributed as dist

    matrix = torch.ones(SIDE, SIDE)

    def finish() -> None:
        pending = begin()
        if pending is not None:
            pending.wait()

    def seconds(action: Callable[[], object]) -> float:
        began = perf_counter()
        action()
        return perf_counter() - began

    def on_core(action: Callable[[], object]) -> float:
        began = process_time()
        action()
        return process_time() - began

    dist.barrier()
    finish()
    for _ in range(3):
        torch.mm(matrix, matrix)
    each = median(seconds(lambda: torch.mm(matrix, matrix)) for _ in range(9))
    alone = median(seconds(finish) for _ in range(5))
    longest = torch.tensor([max(2 * alone, LEAST) / each], dtype=torch.float64)
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    count = int(longest)

    def compute() -> None:
        for _ in range(count):
            torch.mm(matrix, matrix)

    def beside() -> None:
        pending = begin()
        compute()
        if pending is not None:
            pending.wait()

    def block() -> float:
        extra = []
        for _ in range(ROUNDS):
            dist.barrier()
            without = on_core(compute)
            dist.barrier()
            extra.append(on_core(beside) - without)
        return median(extra)

    turns = Turns[float](BLOCKS)
    while not turns.are_enough:
        turns.take(block)
    return median(turns.that_count)
