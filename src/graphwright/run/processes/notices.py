"""Notices on stderr about what takes long: waiting for other ranks, and where; compiling.

graphwright: rank 1 has waited 30 s for rank 0 (train.py, line 41). All ranks must reach the
same call; if rank 0 is merely slow, ignore this.
graphwright: torch.compile has been at work for 30 s on the 3,602 operators of rank 0's program.
It runs once, before the first step, and can take minutes.

Without the first, a run that one rank has left would be silent until its time limit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from types import FrameType

from graphwright.user_code import is_users

NOTICE_SECONDS = 30.0
"""Waiting beyond this is mentioned: longer than most steps, much shorter than any time limit."""


@contextmanager
def notice_of_waiting(rank: int) -> Iterator[None]:
    """Print once, if the block takes long, that this rank waits for others."""
    with _after_a_while(print_waiting, rank, (), find_user_line()):
        yield


@contextmanager
def notice_of_compiling(rank: int, num_operators: int) -> Iterator[None]:
    """Print once, if the block takes long, that this rank's program is being compiled."""
    text = (
        f"torch.compile has been at work for {NOTICE_SECONDS:.0f} s on the {num_operators:,} "
        f"operators of rank {rank}'s program. It runs once, before the first step, and can take "
        "minutes."
    )
    with _after_a_while(_print, text):
        yield


@contextmanager
def _after_a_while(function: Callable[..., None], *arguments: object) -> Iterator[None]:
    timer = Timer(NOTICE_SECONDS, function, arguments)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def print_waiting(rank: int, others: Sequence[int], line: str) -> None:
    """Print that this rank waits for others, or for unknown ones, at a line of the user's."""
    names = f"rank {', '.join(map(str, sorted(set(others))))}" if others else "other ranks"
    at = f" ({line})" if line else ""
    slow = f"{names} {'is' if len(set(others)) == 1 else 'are'} merely slow"
    _print(
        f"rank {rank} has waited {NOTICE_SECONDS:.0f} s for {names}{at}. All ranks must reach the "
        f"same call; if {slow}, ignore this."
    )


def _print(text: str) -> None:
    with suppress(OSError, ValueError):  # stderr may be closed
        print(f"graphwright: {text}", file=sys.stderr, flush=True)


def find_user_line() -> str:
    """The line of the user's own program that led here, if there is one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if is_users(file):
            return f"{Path(file).name}, line {frame.f_lineno}"
        frame = frame.f_back
    return ""
