"""Call a function in several processes of this machine, as torchrun would, and return all results.

    launch(3)(function, x)        parent: makes a private folder, where workers find each other
         |-- rank 0: function(x)     every worker finds torchrun's variables, so that `world()` and
         |-- rank 1: function(x)     `torch.distributed.init_process_group()` work inside
         `-- rank 2: function(x)
         v
    [result of 0, of 1, of 2]     or WorkerFailed, with the traceback of the first that failed

Workers are new processes that import the function by its name. Whatever happens (an exception,
kill -9, a hang, Ctrl-C, the end of the parent itself), none of them outlives the call. Functions
and results go through pipes of parent and worker; no other user can join, read or write anything.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from graphwright.errors import (
    GraphwrightError,
    InvalidLaunch,
    NotSendable,
    WorkerFailed,
    WorkerTimedOut,
)
from graphwright.files import scratch_folder
from graphwright.ir import format_bytes
from graphwright.machine import free_host_memory, num_cores
from graphwright.run.processes.rendezvous import STORE, listen, name_loopback
from graphwright.run.processes.supervisor import (
    Died,
    WorkerProcess,
    ask_for_stacks,
    await_workers,
    end_workers,
)
from graphwright.run.processes.worker import Raised, Returned, pack, unpack

Result = TypeVar("Result")

LOOPBACK = "127.0.0.1"
JOIN_SECONDS = 5.0
WORKER_BYTES = 300 << 20
"""What a process has that imported PyTorch and joined others, and no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """Processes that can be started: call it with a function and its arguments."""

    num_workers: int
    timeout: float | None
    threads: int
    join_timeout: float

    def __call__(self, function: Callable[..., Result], *arguments: object) -> list[Result]:
        """Call the function in every worker; the results by rank, their tensors on the CPU."""
        _check_outside()
        _check_function(function)
        check_workers(self.num_workers)
        packed = pack((function, arguments), f"{_name(function)} with its arguments")
        changed = threading.Event()
        workers: list[WorkerProcess] = []
        with scratch_folder() as folder:
            shared = _shared_variables(folder, self.num_workers, self.threads)
            try:
                for rank in range(self.num_workers):
                    worker = WorkerProcess(
                        rank,
                        variables=shared | _rank_variables(rank),
                        packed=packed,
                        threads=self.threads,
                        stack=folder / f"rank-{rank}",
                        changed=changed,
                    )
                    workers.append(worker)
                    worker.start()
                failed = await_workers(workers, changed, self.timeout, self.join_timeout)
                silent = [worker for worker in workers if worker.outcome is None]
                if failed:
                    raise _failed(workers, failed)
                if silent:
                    raise _timed_out(workers, ask_for_stacks(silent), self.timeout or 0.0)
                end_workers(workers, grace=self.join_timeout)
            except BaseException:
                end_workers(workers)
                raise
        return [cast(Result, _result(worker)) for worker in workers]


def launch(
    num_workers: int,
    *,
    timeout: float | None = None,
    threads: int | None = None,
    join_timeout: float = JOIN_SECONDS,
) -> Launcher:
    """Prepare processes of this machine: ``launch(4)(function, *arguments)`` calls it in four.

    `timeout` limits the whole run in seconds (None: no limit). `join_timeout` is how long the
    others may go on once a worker has failed, and how long workers may take to end once all have
    returned. `threads` is PyTorch's in each worker (None: the cores divided among the workers).
    """
    if not _is_count(num_workers):
        raise InvalidLaunch(f"num_workers={num_workers!r}; give a whole number from 1 upwards")
    if threads is not None and not _is_count(threads):
        raise InvalidLaunch(f"threads={threads!r}; give a whole number from 1 upwards, or None")
    if timeout is not None and not timeout > 0:
        raise InvalidLaunch(f"timeout={timeout!r}; give seconds above 0, or None for no limit")
    if not join_timeout > 0:
        raise InvalidLaunch(f"join_timeout={join_timeout!r}; give seconds above 0")
    return Launcher(
        num_workers=num_workers,
        timeout=timeout,
        threads=threads or max(1, num_cores() // num_workers),
        join_timeout=join_timeout,
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _check_outside() -> None:
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        raise InvalidLaunch(
            f"this process is rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} already, and "
            'a worker cannot launch workers; call gw.launch under `if __name__ == "__main__":`, '
            "and start that script with python, not with torchrun"
        )


def check_workers(num_workers: int) -> None:
    """Raise if so many processes would fill the memory at once: the system would kill one."""
    free = free_host_memory()
    needed = num_workers * WORKER_BYTES
    if needed > free:
        raise InvalidLaunch(
            f"{num_workers} workers need {format_bytes(needed)} for PyTorch alone, and "
            f"{format_bytes(free)} are free; launch {max(1, free // WORKER_BYTES)} at most"
        )


def _name(function: object) -> str:
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None)
    return f"{module}.{name}" if module and name else repr(function)


def _check_function(function: object) -> None:
    if not callable(function):
        raise NotSendable(f"{function!r} is not a function that workers could call")
    name = str(getattr(function, "__qualname__", ""))
    kind = "a lambda" if "<lambda>" in name else "inside another function"
    if "<lambda>" in name or "<locals>" in name:
        raise NotSendable(
            f"workers import the function by its name, and {_name(function)} is {kind}; write it "
            "with def at the top level of a module, and give what it needs as arguments"
        )
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if (
        getattr(function, "__module__", None) == "__main__"
        and main.__spec__ is None
        and (file is None or not Path(file).is_file())
    ):
        raise NotSendable(
            f"workers import the function by its name, and {name} is in no file but in an "
            "interactive session; put it in a file"
        )


def _rank_variables(rank: int) -> dict[str, str]:
    return dict.fromkeys(("RANK", "LOCAL_RANK", "ROLE_RANK"), str(rank))


def _shared_variables(folder: Path, num_workers: int, threads: int) -> dict[str, str]:
    """Those of torchrun, alike on all ranks, and the store; nothing listens at the port."""
    with listen(LOOPBACK, 0) as free:
        port = free.getsockname()[1]
    loopback = name_loopback()
    sizes = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE")
    interfaces = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME") if loopback else ()
    return {
        **dict.fromkeys(sizes, str(num_workers)),
        **dict.fromkeys(interfaces, loopback or ""),
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "MASTER_ADDR": LOOPBACK,
        "MASTER_PORT": str(port),
        STORE: str(folder / "store"),
        "TORCHELASTIC_RUN_ID": "graphwright",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "OMP_NUM_THREADS": str(threads),
        # Models that iterate over a set are captured in the same order by all ranks.
        "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),
    }


def _result(worker: WorkerProcess) -> object:
    assert isinstance(worker.outcome, Returned)
    try:
        return unpack(worker.outcome.result, device="cpu")
    except Exception as error:  # whatever a class raises when made anew
        raise NotSendable(f"the result of rank {worker.rank} cannot be read: {error}") from error


def _failed(workers: Sequence[WorkerProcess], failed: Sequence[WorkerProcess]) -> WorkerFailed:
    first, *others = failed
    outcome = first.outcome
    assert isinstance(outcome, Raised | Died)
    parts = [f"rank {first.rank} of {len(workers)} {_headline(first)}", outcome.traceback]
    parts += [f"then rank {worker.rank} {_headline(worker)}" for worker in others]
    ended = [str(worker.rank) for worker in workers if worker.outcome is None]
    if ended:
        parts.append(f"rank {', '.join(ended)} still ran, and was ended")
    failure = WorkerFailed(
        "\n\n".join(part for part in parts if part),
        rank=first.rank,
        traceback=outcome.traceback,
        exit_code=outcome.exit_code if isinstance(outcome, Died) else None,
    )
    if isinstance(outcome, Raised) and outcome.error is not None:
        with suppress(Exception):  # whatever a class raises when made anew
            failure.error = cast(GraphwrightError, unpack(outcome.error))
    return failure


def _headline(worker: WorkerProcess) -> str:
    outcome = worker.outcome
    if isinstance(outcome, Raised):
        return f"raised {outcome.headline}"
    assert isinstance(outcome, Died)
    if outcome.exit_code < 0:
        name = signal.Signals(-outcome.exit_code).name
        hint = "; the system does so when memory runs out" if name == "SIGKILL" else ""
        return f"was killed by signal {-outcome.exit_code} ({name}){hint}"
    if not outcome.began:
        return (
            f"ended with exit code {outcome.exit_code} before it began; its own output says why. "
            'A script calls gw.launch under `if __name__ == "__main__":`'
        )
    return f"ended with exit code {outcome.exit_code} and returned nothing"


def _timed_out(
    workers: Sequence[WorkerProcess], stacks: dict[int, str], timeout: float
) -> WorkerTimedOut:
    """Name the rank that does not wait for others, where one is to be seen."""
    ranks = sorted(stacks, key=lambda rank: (_in_collective(stacks[rank]), rank))
    parts = [f"rank {ranks[0]} of {len(workers)} had not finished after {timeout:g} seconds"]
    if len(ranks) > 1:
        parts[0] += f", nor had rank {', '.join(map(str, ranks[1:]))}"
    for rank in ranks:
        parts.append(f"rank {rank} was here:\n{stacks[rank] or '  (it did not answer)'}")
    return WorkerTimedOut("\n\n".join(parts), rank=ranks[0], traceback=stacks[ranks[0]])


_WAITING = ("torch/distributed/", "graphwright/run/links/")
"""Where a rank is that waits for others."""


def _in_collective(stack: str) -> bool:
    inner = [line for line in stack.splitlines() if line.lstrip().startswith("File ")][:3]
    return any(place in line for line in inner for place in _WAITING)
