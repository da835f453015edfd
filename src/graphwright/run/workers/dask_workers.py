"""The workers of a Dask cluster, numbered as ranks: put blocks there, run pinned tasks, fetch.

A plan says where every block lives; a scheduler that moved tasks to idle workers would move their
blocks along. So each task is restricted to one worker, which rules out stealing. Dask then has
nothing to choose: it moves exactly what a task reads from another rank.

A restricted task of a worker that is gone would wait for ever. `wait` looks after the workers and
raises `WorkerLost`; `replace_lost` gives the ranks of the worker that is gone to others, and the
caller, who knows how everything was made, makes again what these ranks held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

import dask
from dask._task_spec import Task, TaskRef
from distributed import Client, LocalCluster

from graphwright.errors import GraphwrightError

LOOK_SECONDS = 1.0
"""How often the workers are looked after while something is computed."""
MOST_SECONDS = 30.0
"""How long to wait for a first worker."""


class WorkerLost(GraphwrightError):
    """A worker that held blocks is gone. What it held has to be made again on the others."""


@dataclass(frozen=True, slots=True)
class KeyOf:
    """An argument of a task: the result of another one."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedTask:
    """A call on the worker of a rank."""

    key: str
    rank: int
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class _Pins:
    """Where each task runs, as Dask asks for it: a function of the key."""

    def __init__(self, address_of: Mapping[str, str]) -> None:
        self.address_of = address_of

    def __call__(self, key: str) -> list[str]:
        return [self.address_of[key]]


class Workers:
    """The workers of a cluster in the order of their ranks."""

    def __init__(self, client: Client, cluster: LocalCluster | None = None) -> None:
        self.client, self.cluster = client, cluster
        self.addresses: tuple[str, ...] = self._find()
        self.lives: tuple[int, ...] = (0,) * len(self.addresses)
        """How often each rank was given to another worker: what it held before is gone."""

    def __len__(self) -> int:
        return len(self.addresses)

    @property
    def is_closed(self) -> bool:
        """Whether there is no scheduler any more that could be asked."""
        return str(self.client.status) == "closed"

    def new_key(self, name: str) -> str:
        """A key that no task has."""
        return f"{name}-{uuid4().hex[:16]}"

    def _find(self, count: int = 1, patience: float = MOST_SECONDS) -> tuple[str, ...]:
        """The workers that there are; waits for one, and with some patience for so many."""
        start = monotonic()
        while len(addresses := self._alive()) < count and monotonic() < start + MOST_SECONDS:
            if addresses and monotonic() > start + patience:
                break
            sleep(0.1)
        if not addresses:
            raise WorkerLost(
                f"the cluster at {self.client} has no workers; start some, or "
                "connect to another cluster"
            )
        return tuple(sorted(addresses))

    def replace_lost(self) -> None:
        """Give the ranks of workers that are gone to new ones, or to those with fewest ranks."""
        alive = self._find(len(set(self.addresses)), patience=3.0)
        ranks = Counter(dict.fromkeys(alive, 0))
        ranks.update(address for address in self.addresses if address in ranks)
        addresses, lives = list(self.addresses), list(self.lives)
        for rank, address in enumerate(addresses):
            if address not in ranks:
                addresses[rank] = min(ranks, key=lambda other: (ranks[other], other))
                ranks[addresses[rank]] += 1
                lives[rank] += 1
        self.addresses, self.lives = tuple(addresses), tuple(lives)

    def _alive(self) -> list[str]:
        scheduler: Any = self.client.scheduler
        known: dict[str, Any] = self.client.sync(scheduler.identity, n_workers=-1)
        return [
            address
            for address, worker in known["workers"].items()
            if worker.get("status", "running") == "running"
        ]

    def put(self, block: Any, rank: int) -> Any:
        """Give a block to a worker."""
        try:
            (future,) = self.client.scatter(
                [block], workers=[self.addresses[rank]], hash=False, direct=True
            )
        except TimeoutError as error:
            raise WorkerLost(f"{self.addresses[rank]} takes no blocks: {error}") from error
        return future

    def submit(self, tasks: Iterable[PinnedTask], wanted: Sequence[str]) -> dict[str, Any]:
        """Run tasks; futures of those that are wanted, the others are forgotten when read."""
        graph: dict[str, Task] = {}
        address_of: dict[str, str] = {}
        for task in tasks:
            arguments = [TaskRef(a.key) if isinstance(a, KeyOf) else a for a in task.arguments]
            graph[task.key] = Task(task.key, task.function, *arguments)
            address_of[task.key] = self.addresses[task.rank]
        with dask.annotate(workers=_Pins(address_of)):
            futures = self.client.get(graph, list(wanted), sync=False)
        return dict(zip(wanted, futures, strict=True))

    def wait(self, futures: Sequence[Any]) -> None:
        """Until all are done; raises what a task raised, or that a worker is lost."""
        # distributed.wait raises at each timeout, and what it raises keeps its callers alive.
        done: SimpleQueue[Any] = SimpleQueue()
        left = {future.key: future for future in futures}
        for future in left.values():
            future.add_done_callback(done.put)
        while left:
            try:
                future = done.get(timeout=LOOK_SECONDS)
            except Empty:
                self._look()
                continue
            if future.status != "finished":
                self._fail(future)
            del left[future.key]

    def _look(self) -> None:
        gone = set(self.addresses) - set(self._alive())
        if gone:
            raise WorkerLost(f"lost {', '.join(sorted(gone))}")

    def _fail(self, future: Any) -> None:
        if future.status in ("lost", "cancelled"):
            raise WorkerLost(f"{future.key} was lost with its worker")
        error = future.exception()
        self._look()
        assert error is not None
        if type(error).__name__ in ("KilledWorker", "P2PConsistencyError"):
            raise WorkerLost(str(error)) from error
        raise error.with_traceback(future.traceback())

    def fetch(self, futures: Sequence[Any]) -> list[Any]:
        """The blocks themselves."""
        self.wait(futures)
        blocks: list[Any] = self.client.gather(list(futures), direct=True)
        return blocks

    def close(self) -> None:
        """Leave the cluster; end it if it was started here."""
        self.client.close()
        if self.cluster is not None:
            self.cluster.close()


def join_cluster(address: Any) -> Workers:
    """The workers of a cluster: its address, a Client, or anything that a Client connects to."""
    return Workers(address if isinstance(address, Client) else Client(address))


def start_local(workers: int, *, processes: bool) -> Workers:
    """Workers of this machine, in processes or threads, that listen on loopback alone."""
    with dask.config.set({"distributed.worker.daemon": False}):
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=processes,
            host="127.0.0.1" if processes else None,  # threads need no network at all
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0",
        )
        return Workers(Client(cluster), cluster)
