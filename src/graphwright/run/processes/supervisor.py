"""The worker processes of one run, as their parent sees them: start them, hear from them, end them, all in bounded time.

    start ----> Member ----> settle: Returned | Raised | Died      the first failure gives the others a last while,
                   \\-------> locate: where a silent one is         then all that still run are ended, and what they started

A thread for each member talks to it, so that one that stops in the middle of a message holds nobody up.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from multiprocessing import get_context
from pathlib import Path
from typing import cast

from graphwright.errors import InvalidLaunch
from graphwright.run.processes.worker import READY, Raised, Returned, work

POLL_SECONDS = 0.1
END_SECONDS = 1.0
"""How long a worker has to end by itself when told to."""

_starting = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """The process ended and left no result: its exit code, negative for a signal, and where it was if that is known."""

    exit_code: int
    began: bool
    traceback: str
    time: float
    lost_peer: bool = False


class Member:
    """One worker process and the thread that talks to it."""

    def __init__(
        self,
        rank: int,
        *,
        variables: Mapping[str, str],
        packed: bytes,
        threads: int,
        stack: Path,
        changed: threading.Event,
    ) -> None:
        self.rank = rank
        self.stack = stack
        self.outcome: Returned | Raised | Died | None = None
        self._message: Returned | Raised | None = None
        self._began = False
        self._changed = changed
        self._packed = packed
        self._variables = variables
        context = get_context("spawn")
        self._connection, self._other = context.Pipe()
        self.process = context.Process(
            target=work, args=(self._other, threads, str(stack)), name=f"graphwright rank {rank}"
        )
        self._attendant = threading.Thread(target=self._attend, daemon=True)

    def start(self) -> None:
        """Start the process, with its variables set, and the thread."""
        try:
            with _environment(self._variables):
                self.process.start()
        except OSError as error:
            raise InvalidLaunch(
                f"the system starts no process for rank {self.rank}: {error}; launch fewer workers"
            ) from error
        self._other.close()
        self._attendant.start()

    def settle(self) -> bool:
        """Whether what came of the work is known by now."""
        exit_code = self.process.exitcode
        if exit_code is not None and self._message is None:
            self.signal(signal.SIGKILL)  # what it started holds its end of the pipe open
            self._attendant.join(END_SECONDS)
        if self._message is not None:
            self.outcome = self._message
        elif exit_code is not None:
            self.outcome = Died(
                exit_code=exit_code,
                began=self._began,
                traceback=self.read_stack(),
                time=time.monotonic(),
            )
        return self.outcome is not None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the worker and to all that it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(cast(int, self.process.pid), number)
        if self.process.exitcode is None:  # perhaps it has no process group of its own yet
            with suppress(ProcessLookupError):
                os.kill(cast(int, self.process.pid), number)

    def read_stack(self) -> str:
        """Where the worker was when it was last asked, or when a signal ended it."""
        try:
            text = self.stack.read_text(errors="replace").strip()
        except OSError:
            return ""
        lines = text.splitlines()
        ours = next(
            (i for i, line in enumerate(lines) if "graphwright/run/processes/worker.py" in line), 0
        )
        return "\n".join(lines[:ours] if ours > 1 else lines)

    def close(self) -> None:
        """Forget the process, which has ended."""
        if self._attendant.ident is not None:
            self._attendant.join(END_SECONDS)
        if self.process.exitcode is not None:
            self.process.close()

    def _attend(self) -> None:
        with suppress(EOFError, OSError), self._connection as connection:
            if connection.recv_bytes() == READY:
                self._began = True
                connection.send_bytes(self._packed)
                self._message = connection.recv()
        self._changed.set()


def watch(
    members: Sequence[Member], changed: threading.Event, timeout: float | None, last_while: float
) -> list[Member]:
    """Wait for all, or for `timeout` seconds, or for `last_while` seconds after a failure; those that failed, the cause first."""
    failed: list[Member] = []
    deadline = inf if timeout is None else time.monotonic() + timeout
    while pending := [member for member in members if member.outcome is None]:
        changed.wait(POLL_SECONDS)
        changed.clear()
        # A death and what it made others say are seen in one round: the death comes first.
        fresh = [m for m in pending if m.settle() and not isinstance(m.outcome, Returned)]
        fresh.sort(key=lambda m: (not isinstance(m.outcome, Died), _failure(m).time))
        if fresh and not failed:
            deadline = min(deadline, time.monotonic() + last_while)
        failed += fresh
        if time.monotonic() > deadline:
            break
    return sorted(failed, key=lambda m: _failure(m).lost_peer)


def locate(members: Sequence[Member]) -> dict[int, str]:
    """Ask workers that have said nothing where they are: rank -> stack, innermost call first."""
    for member in members:
        if member.process.exitcode is None:
            with suppress(ProcessLookupError):
                os.kill(cast(int, member.process.pid), signal.SIGUSR1)
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline and not all(m.read_stack() for m in members):
        time.sleep(POLL_SECONDS)
    return {member.rank: member.read_stack() for member in members}


def end(members: Sequence[Member], *, patience: float = 0.0) -> None:
    """End every worker and all that they started: let those that are done go by themselves, then tell, then kill."""
    members = [member for member in members if member.process.pid is not None]
    try:
        _await_end(members, patience)
        for member in members:
            if member.process.exitcode is None:
                member.signal(signal.SIGTERM)
        _await_end(members, END_SECONDS)
    finally:
        for member in members:
            member.signal(signal.SIGKILL)
        _await_end(members, 5 * END_SECONDS)
        for member in members:
            member.close()


def _await_end(members: Sequence[Member], seconds: float) -> None:
    # Not `join`: it waits for what a worker has forked as well.
    deadline = time.monotonic() + seconds
    while any(m.process.exitcode is None for m in members) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS / 5)


def _failure(member: Member) -> Raised | Died:
    assert isinstance(member.outcome, Raised | Died)
    return member.outcome


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables while a process starts: modules that it imports first see them, as under torchrun."""
    with _starting:
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
