"""The supervisor of a run: start worker processes, hear from them, end them, in bounded time.

    start ---> WorkerProcess ---> poll: Returned | Raised | Died
                          `-----> ask_for_stacks: where a silent one is

After the first failure the others have some seconds' grace; then whatever still runs is ended,
with all that it started. One thread talks to each worker, so that a worker that stops in the
middle of a message holds nobody up.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from multiprocessing import get_context
from pathlib import Path
from typing import cast
from unittest.mock import patch

from graphwright.errors import InvalidLaunch
from graphwright.run.processes.worker import READY, Raised, Returned, run_worker

POLL_SECONDS = 0.1
END_SECONDS = 1.0
"""How long a worker has to end by itself once told to."""
ANSWER_SECONDS = 5.0
"""How long a worker may take to say where it is, and its last words to arrive."""

_starting = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """The process left no result: its exit code (minus a signal's number), its stack if known."""

    exit_code: int
    began: bool
    traceback: str
    time: float
    lost_peer: bool = False


class WorkerProcess:
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
            target=run_worker,
            args=(self._other, threads, str(stack)),
            name=f"graphwright rank {rank}",
        )
        self._thread = threading.Thread(target=self._talk, daemon=True)

    def start(self) -> None:
        """Start the process, with its variables set, and the thread."""
        try:
            # Modules that it imports see its variables, as under torchrun.
            with _starting, patch.dict(os.environ, self._variables):
                self.process.start()
        except OSError as error:
            raise InvalidLaunch(
                f"the system starts no process for rank {self.rank}: {error}; launch fewer workers"
            ) from error
        self._other.close()
        self._thread.start()

    def poll(self) -> bool:
        """Whether what came of the work is known by now."""
        exit_code = self.process.exitcode
        if exit_code is not None and self._message is None:
            self.signal(signal.SIGKILL)  # what it started holds its end of the pipe open
            self._thread.join(ANSWER_SECONDS)
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
        if self._thread.ident is not None:
            self._thread.join(END_SECONDS)
        if self.process.exitcode is not None:
            self.process.close()

    def _talk(self) -> None:
        with suppress(EOFError, OSError), self._connection as connection:
            if connection.recv_bytes() == READY:
                self._began = True
                connection.send_bytes(self._packed)
                self._message = connection.recv()
        self._changed.set()


def await_workers(
    workers: Sequence[WorkerProcess], changed: threading.Event, timeout: float | None, grace: float
) -> list[WorkerProcess]:
    """Wait for all, or `timeout` seconds, or `grace` seconds after a failure.

    Returns those that failed, the cause before its consequences.
    """
    failed: list[WorkerProcess] = []
    deadline = inf if timeout is None else time.monotonic() + timeout
    while pending := [worker for worker in workers if worker.outcome is None]:
        changed.wait(POLL_SECONDS)
        changed.clear()
        # A death and what it made others say are seen in one round: the death comes first.
        fresh = [w for w in pending if w.poll() and not isinstance(w.outcome, Returned)]
        fresh.sort(key=lambda w: (not isinstance(w.outcome, Died), _failure(w).time))
        if fresh and not failed:
            deadline = min(deadline, time.monotonic() + grace)
        failed += fresh
        if time.monotonic() > deadline:
            break
    return sorted(failed, key=lambda w: _failure(w).lost_peer)


def ask_for_stacks(workers: Sequence[WorkerProcess]) -> dict[int, str]:
    """Ask workers that have said nothing where they are: rank -> stack, innermost call first."""
    for worker in workers:
        if worker.process.exitcode is None:
            with suppress(ProcessLookupError):
                os.kill(cast(int, worker.process.pid), signal.SIGUSR1)
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline and not all(w.read_stack() for w in workers):
        time.sleep(POLL_SECONDS)
    return {worker.rank: worker.read_stack() for worker in workers}


def end_workers(workers: Sequence[WorkerProcess], *, grace: float = 0.0) -> None:
    """End every worker and all that it started: wait for `grace` seconds, terminate, kill."""
    workers = [worker for worker in workers if worker.process.pid is not None]
    try:
        _await_end(workers, grace)
        for worker in workers:
            if worker.process.exitcode is None:
                worker.signal(signal.SIGTERM)
        _await_end(workers, END_SECONDS)
    finally:
        for worker in workers:
            worker.signal(signal.SIGKILL)
        _await_end(workers, ANSWER_SECONDS)
        for worker in workers:
            worker.close()


def _await_end(workers: Sequence[WorkerProcess], seconds: float) -> None:
    # Not `join`: it waits for what a worker has forked as well.
    deadline = time.monotonic() + seconds
    while any(w.process.exitcode is None for w in workers) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS / 5)


def _failure(worker: WorkerProcess) -> Raised | Died:
    assert isinstance(worker.outcome, Raised | Died)
    return worker.outcome
