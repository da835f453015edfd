"""A worker process of `launch`: receive a function, call it, send its result, end with the parent.

    parent                               worker
      | start (torchrun's variables set)   |  own process group, watch over the parent, threads
      | <------------- "ready" ----------- |
      | -- function and arguments -------> |  imports the module of the function
      | <------ Returned or Raised ------- |  then ends

When a signal ends the process, or the parent asks (SIGUSR1), its stack goes to a file that the
parent reads.
"""

from __future__ import annotations

import faulthandler
import io
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import cast

import torch

from graphwright.errors import GraphwrightError, NotSendable
from graphwright.run.processes.rendezvous import use_store_for_env
from graphwright.run.processes.world import leave
from graphwright.user_code import is_users

READY = b"ready"
LOST_PEER = ("closed by peer", "reset by peer", "Broken pipe", "pair closure")
"""What Gloo says when another rank is gone: such a failure follows from another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """The function's result, packed."""

    result: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """The function raised: one line about it, its traceback, when, and whether it lost a peer.

    `error` is the exception itself, packed, if it is one of ours.
    """

    headline: str
    traceback: str
    time: float
    lost_peer: bool
    error: bytes | None = None


def pack(value: object, what: str) -> bytes:
    """A value as bytes; tensors are copied whole, so nothing is shared and either side may end."""
    buffer = io.BytesIO()
    try:
        torch.save(value, buffer)
    except Exception as error:  # whatever a value's own methods raise
        raise NotSendable(f"{what} cannot be sent to another process: {error}") from error
    return buffer.getvalue()


def unpack(packed: bytes, *, device: str | None = None) -> object:
    """The value that `pack` packed, its tensors on the given device, or where they were."""
    try:
        # These bytes come from our own process and name functions; files are never read like this.
        return torch.load(io.BytesIO(packed), map_location=device, weights_only=False)
    except AttributeError as error:
        if "__mp_main__" not in str(error):
            raise
        raise NotSendable(
            f"a worker imports the program's file and does not find what it was sent ({error}); "
            "code under if __name__ == '__main__' does not run in workers, so define functions and "
            "classes before it"
        ) from None


def run_worker(connection: Connection, threads: int, stack_path: str) -> None:
    """What a worker process does."""
    os.setpgid(0, 0)  # what it starts can be ended with it, and Ctrl-C comes to the parent alone
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with Path(stack_path).open("w") as stack:
        faulthandler.enable(stack, all_threads=False)
        faulthandler.register(signal.SIGUSR1, stack, all_threads=False)
        outcome = _run(connection, threads)
        connection.send(outcome)
        connection.close()
        _leave()
        faulthandler.unregister(signal.SIGUSR1)
        faulthandler.disable()


def _run(connection: Connection, threads: int) -> Returned | Raised:
    try:
        connection.send_bytes(READY)
        packed = connection.recv_bytes()
        torch.set_num_threads(threads)
        use_store_for_env()
        function, arguments = cast(tuple[Callable[..., object], tuple[object, ...]], unpack(packed))
        return Returned(result=pack(function(*arguments), "the result"))
    except BaseException as error:  # sys.exit() and Ctrl-C are no results either
        return _describe(error)


def _describe(error: BaseException) -> Raised:
    inner = error.__traceback__.tb_next if error.__traceback__ is not None else None
    if isinstance(error, GraphwrightError):  # it says all itself: how it came there is of no use
        lines = _user_lines(error, inner)
    else:
        lines = traceback.format_exception(type(error), error, inner or error.__traceback__)
    said = "".join(traceback.format_exception_only(error))
    headline = next((line for line in said.splitlines() if line[:1].strip()), type(error).__name__)
    return Raised(
        headline=headline,
        traceback="".join(lines).rstrip(),
        time=time.monotonic(),
        lost_peer=any(words in said for words in LOST_PEER),
        error=_packed_if_ours(error),
    )


def _packed_if_ours(error: BaseException) -> bytes | None:
    with suppress(NotSendable):
        return pack(error, "the error") if isinstance(error, GraphwrightError) else None
    return None


def _user_lines(error: GraphwrightError, inner: TracebackType | None) -> list[str]:
    """The user's lines that led to an error of ours, and the error; [] if it says all itself."""
    frames = traceback.extract_tb(inner)
    while frames and not is_users(frames[-1].filename):
        frames.pop()
    said = traceback.format_exception_only(error)
    if not frames:
        return said if "\n" in str(error) else []
    return ["Traceback (most recent call last):\n", *traceback.format_list(frames), *said]


def _leave() -> None:
    """Leave a process group that the function left joined; a failure here changes no result."""
    try:
        leave()
    except RuntimeError:
        traceback.print_exc()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    while os.getppid() == parent.pid:
        if wait([parent.sentinel], timeout=1.0):
            break
    os.killpg(0, signal.SIGKILL)
