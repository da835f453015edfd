r"""Processes that act together: each does its part, and where one fails all of them raise the same error.

    rank 0   work() -> a      \                  / [a, b]
    rank 1   work() -> b      /  all_gather ->   \ [a, b]        or, on both, the error of the first that failed

Without this, the process that fails leaves and the others wait for it until a time limit ends them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from graphwright.errors import GraphwrightError
from graphwright.run.processes.notices import telling

T = TypeVar("T")


def rank_and_size() -> tuple[int, int]:
    """The number of this process and how many there are; (0, 1) without a process group."""
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


def together(work: Callable[[], T]) -> list[T]:
    """Run `work` in every process and return all results by rank; an error of one is raised in all."""
    import torch.distributed as dist

    outcome: T | GraphwrightError | OSError
    try:
        outcome = work()
    except (GraphwrightError, OSError) as error:
        outcome = error
    outcomes = [outcome]
    rank, size = rank_and_size()
    if size > 1:
        outcomes = [outcome] * size
        with telling(rank):
            dist.all_gather_object(outcomes, outcome)
    results = []
    for found in [outcome, *outcomes]:  # its own error first: that one still has its traceback
        if isinstance(found, GraphwrightError | OSError):
            raise found
        results.append(found)
    return results[1:]


@contextmanager
def alone_is_meant() -> Iterator[None]:
    """Without PyTorch's warning that there is no process group."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        yield
