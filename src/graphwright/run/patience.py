"""Say that a rank waits for others, and where: a run that one rank has left silently is silent until its time limit.

graphwright: rank 1 has waited 30 s for rank 0 (train.py, line 41). All ranks have to come to the same call; one that is only slow needs nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

NOTICE = 30.0
"""Seconds of waiting before it is said: longer than most steps take, and much shorter than any time limit."""
_OURS = ("graphwright", "torch", "contextlib")


@contextmanager
def telling(rank: int) -> Iterator[None]:
    """Say once, if the block takes long, that this rank waits for others."""
    timer = Timer(NOTICE, tell, (rank, (), where()))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def tell(rank: int, others: Sequence[int], place: str) -> None:
    """Say that this rank waits for others, or for nobody knows whom."""
    whom = f"rank {', '.join(map(str, sorted(set(others))))}" if others else "other ranks"
    print(
        f"graphwright: rank {rank} has waited {NOTICE:.0f} s for {whom} ({place}). All ranks have to come to the same call; one that is only slow "
        "needs nothing.",
        file=sys.stderr,
        flush=True,
    )


def where() -> str:
    """The line of the user's own program that has led here."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}, line {frame.f_lineno}"
