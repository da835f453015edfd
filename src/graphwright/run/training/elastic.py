"""Go on with the workers that are left: when one is lost, start again from the last checkpoint.

    4 workers  step 1 2 3 [saved] 4 5 x            rank 2 is killed, so the others are ended too
    3 workers                     4 5 6 [saved] x  starts from what was saved, planned for three
    2 workers                                   7 8 9

Only the end of a process counts as a loss (killed, out of memory, `os._exit`); an exception would
come again with fewer workers, so it ends the run at once. Each start has one worker fewer than the
one before, so their number is bounded.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from graphwright.errors import InvalidLaunch, WorkerFailed, WorkerTimedOut
from graphwright.run.checkpoint import latest
from graphwright.run.processes import launch

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start: its number from 0, its workers and checkpoint, and what ended the one before."""

    number: int
    num_workers: int
    checkpoint: Path | None
    failure: WorkerFailed | None = None


Prepare = Callable[[Attempt], tuple[object, ...]]
"""Makes the function's arguments for a start, in the parent: a plan for so many workers, say."""
Newest = Callable[[Path], Path | None]
"""Finds the newest checkpoint of a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elastic:
    """Processes that can be started again with fewer: call it with a function and a `Prepare`."""

    num_workers: int
    directory: Path
    min_workers: int
    max_restarts: int
    threads: int | None
    timeout: float | None = None
    newest: Newest = latest

    def __call__(
        self,
        function: Callable[..., Result],
        prepare: Prepare,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> list[Result]:
        """Call the function in every worker until all return; the first start has `checkpoint`.

        Later ones have the newest checkpoint of the directory, or the first's if there is none yet.
        """
        first = None if checkpoint is None else Path(checkpoint)
        attempt = Attempt(number=0, num_workers=self.num_workers, checkpoint=first)
        while True:
            arguments = prepare(attempt)
            try:
                start = launch(attempt.num_workers, threads=self.threads, timeout=self.timeout)
                return start(function, *arguments)
            except WorkerFailed as error:
                if not is_loss(error) or not self._may_go_on(attempt):
                    raise
                attempt = Attempt(
                    number=attempt.number + 1,
                    num_workers=attempt.num_workers - 1,
                    checkpoint=self.newest(self.directory) or first,
                    failure=error,
                )

    def _may_go_on(self, attempt: Attempt) -> bool:
        return attempt.number < self.max_restarts and attempt.num_workers > self.min_workers


def elastic(
    num_workers: int,
    directory: str | os.PathLike[str],
    *,
    min_workers: int = 1,
    max_restarts: int | None = None,
    threads: int | None = None,
    timeout: float | None = None,
    newest: Newest = latest,
) -> Elastic:
    """Prepare processes that outlast the loss of some; the function saves in `directory`.

    `newest` finds what it saved there, where that is in another form than `step.save`'s. `timeout`
    limits each start, in seconds.

    >>> def prepare(attempt):                   # here: plan for as many as there are
    ...     plan = gw.plan(graph, f"local:{attempt.num_workers}", objective="time")
    ...     return plan, attempt.checkpoint
    >>> elastic(4, "checkpoints")(train, prepare)       # train(plan, checkpoint) in every worker
    """
    launch(num_workers, threads=threads, timeout=timeout)  # the same checks
    if not 1 <= min_workers <= num_workers:
        raise InvalidLaunch(
            f"min_workers={min_workers!r}; give a number from 1 to num_workers={num_workers}"
        )
    if max_restarts is not None and max_restarts < 0:
        raise InvalidLaunch(f"max_restarts={max_restarts!r}; give 0 or more, or None")
    return Elastic(
        num_workers=num_workers,
        directory=Path(directory),
        min_workers=min_workers,
        max_restarts=num_workers - min_workers if max_restarts is None else max_restarts,
        threads=threads,
        timeout=timeout,
        newest=newest,
    )


def is_loss(error: WorkerFailed) -> bool:
    """Whether a process ended by itself or by a signal, rather than raising or taking too long."""
    return error.exit_code is not None and not isinstance(error, WorkerTimedOut)
