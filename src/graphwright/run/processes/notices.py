"""Say what takes long: that a rank waits for others on its machine, and where, as a run that one rank has left silently is silent until its time limit; or that it compiles.

graphwright: rank 1 has waited 30 s for rank 0 (train.py, line 41). All ranks have to come to the same call; one that is only slow needs nothing.
graphwright: torch.compile has been at work for 30 s on the 3,602 operators of rank 0's program. It is once only, before the first step, and can take minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from types import FrameType

from graphwright.user_code import is_users

NOTICE = 30.0
"""Seconds of waiting before it is said: longer than most steps take, and much shorter than any time limit."""


@contextmanager
def telling(rank: int) -> Iterator[None]:
    """Say once, if the block takes long, that this rank waits for others."""
    with _after_a_while(tell, rank, (), where()):
        yield


@contextmanager
def telling_of_compiling(rank: int, num_operators: int) -> Iterator[None]:
    """Say once, if the block takes long, that this rank's program is being compiled."""
    words = (
        f"torch.compile has been at work for {NOTICE:.0f} s on the {num_operators:,} operators of rank {rank}'s program. "
        "It is once only, before the first step, and can take minutes."
    )
    with _after_a_while(_say, words):
        yield


@contextmanager
def _after_a_while(call: Callable[..., None], *given: object) -> Iterator[None]:
    timer = Timer(NOTICE, call, given)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def tell(rank: int, others: Sequence[int], place: str) -> None:
    """Say that this rank waits for others, or for nobody knows whom."""
    whom = f"rank {', '.join(map(str, sorted(set(others))))}" if others else "other ranks"
    at = f" ({place})" if place else ""
    _say(
        f"rank {rank} has waited {NOTICE:.0f} s for {whom}{at}. All ranks have to come to the same call; one that is only slow needs nothing."
    )


def _say(words: str) -> None:
    with suppress(OSError, ValueError):  # nobody reads it any more
        print(f"graphwright: {words}", file=sys.stderr, flush=True)


def where() -> str:
    """The line of the user's own program that has led here, if there is one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if is_users(file):
            return f"{Path(file).name}, line {frame.f_lineno}"
        frame = frame.f_back
    return ""
