"""Arrays on workers: where programs run, what stays there, and what happens when a worker is lost.

On first use of an array of some size a cluster of this machine's cores is started; `connect` takes
any other one. A value on workers is `Held`: one block for each rank, under the plan's sharding. A
later program that reads it finds it where it is.

When a worker is lost, everything that the workers held counts as lost: expressions know how they
were made, so what is still needed is computed again on the workers that are left, from what was
given or saved by `checkpoint`.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import sleep
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from graphwright.arrays.errors import ArrayError, ClusterLost
from graphwright.arrays.evaluate import SETTINGS
from graphwright.arrays.expression import Expression, Output, Value, needed
from graphwright.arrays.operators import run_segment, take_item
from graphwright.arrays.running.program import ArrayProgram, PlannedProgram, as_graph, plan_program
from graphwright.ir import TensorType
from graphwright.machine import num_cores
from graphwright.plans import Box, Ref, Segment, SegmentGraph, Sharding
from graphwright.run import workers as pool

SENT_WITH_TASK = 1 << 16
"""Blocks of no more bytes are sent to a worker with the task that reads them."""
ATTEMPTS = 6
FIRST_PAUSE = 0.25
"""Seconds before the second attempt, twice as many before each further one: a scheduler may list a
worker that died for a while, and one that is just starting may fail."""
APART_SHARE = 8
"""An array of this process may be sent in several tilings if otherwise more than one part in so
many of it went between workers."""


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A value on workers: futures of its blocks and their boxes, by rank."""

    workers: pool.Workers
    epoch: int
    type: TensorType
    sharding: Sharding
    futures: Mapping[int, Any]
    boxes: Mapping[int, Box]

    @property
    def is_lost(self) -> bool:
        """Whether it cannot be relied on any more."""
        if self.epoch != self.workers.epoch or self.workers is not _workers.current:
            return True
        return any(future.status != "finished" for future in self.futures.values())


class _Current:
    """The workers in use, started when they are first needed."""

    def __init__(self) -> None:
        self.current: pool.Workers | None = None
        self.start: Callable[[], pool.Workers] = lambda: pool.start_local(
            num_cores(), processes=True
        )
        self.memory: float | None = None

    def get(self) -> pool.Workers:
        if self.current is None:
            self.current = self.start()
        return self.current

    def use(self, start: Callable[[], pool.Workers], joined: pool.Workers | None = None) -> None:
        """Leave the workers in use for others: those that are joined already, or later ones."""
        if joined and self.current and joined.client is self.current.client:
            joined.cluster = self.current.cluster
        else:
            self.close()
        self.current, self.start = joined, start

    def close(self) -> None:
        if self.current is not None:
            current, self.current = self.current, None
            current.close()


_workers = _Current()
_scattered: WeakKeyDictionary[Expression, dict[int, dict[Sharding, Held]]] = WeakKeyDictionary()
atexit.register(_workers.close)


def use_workers(
    workers: int | None = None, *, processes: bool = True, memory: float | None = None
) -> None:
    """Compute on so many workers of this machine from now on; on one for each core if None.

    `processes=False` has them in threads of this process. `memory` is what a worker may hold.
    """
    whole = isinstance(workers, int) and not isinstance(workers, bool)
    if workers is not None and (not whole or workers < 1):
        raise ArrayError(
            f"{workers!r} workers; give a whole number from 1 on, or None for one for each core"
        )
    count = num_cores() if workers is None else workers
    _workers.use(lambda: pool.start_local(count, processes=processes))
    _workers.memory = memory


def connect(address: Any, *, memory: float | None = None) -> None:
    """Compute on a Dask cluster: the address of its scheduler, or a `distributed.Client`.

    If that fails, everything goes on where it was computed before.
    """
    joined = pool.join_cluster(address)
    _workers.use(lambda: pool.join_cluster(address), joined)
    _workers.memory = memory


def disconnect() -> None:
    """Leave the cluster, and end it if it was started here; what it held is computed again."""
    _workers.close()


def current_workers() -> pool.Workers:
    """The workers in use, started if there are none."""
    return _workers.get()


def planned(outputs: Sequence[Output]) -> tuple[ArrayProgram, PlannedProgram]:
    """What would be run for outputs, whose values are not known yet, and how it is planned."""
    missing = [output for output in outputs if output.value is None]
    order = needed(missing, lambda output: output.value is not None)
    program, how, _ = _plan(current_workers(), missing, order)
    return program, how


def _plan(
    workers: pool.Workers, outputs: Sequence[Output], order: Sequence[Expression]
) -> tuple[ArrayProgram, PlannedProgram, dict[str, Held | NDArray[Any]]]:
    """A program, how it is planned, and where its inputs are.

    Arrays of this process of which much would go between workers are sent to them from here in each
    tiling in which they are needed, if that is less.
    """
    memory = _workers.memory
    program = as_graph(outputs, order)
    given = {name: _place(output) for name, output in program.inputs.items()}
    fixed = {name: held.sharding for name, held in given.items() if isinstance(held, Held)}
    how = plan_program(program.graph, len(workers), fixed, memory)
    apart = {
        output
        for name, output in program.inputs.items()
        if isinstance(output.value, np.ndarray)
        and how.received.get(name, 0) > output.type.nbytes / APART_SHARE
    }
    if not apart or memory is not None:
        return program, how, given
    other = as_graph(outputs, order, apart)
    given_apart: dict[str, Held | NDArray[Any]] = {
        name: np.asarray(output.value) if output in apart else _place(output)
        for name, output in other.inputs.items()
    }
    fixed = {name: held.sharding for name, held in given_apart.items() if isinstance(held, Held)}
    how_apart = plan_program(other.graph, len(workers), fixed, memory)
    if sum(how_apart.received.values()) >= sum(how.received.values()):
        return program, how, given
    for name, output in other.inputs.items():
        if output in apart:
            sharding = how_apart.segments.shardings[name]
            given_apart[name] = _scattered_in(output).get(sharding, given_apart[name])
    return other, how_apart, given_apart


# -- values ----------------------------------------------------------------------------------------


def distribute(outputs: Sequence[Output], order: Sequence[Expression]) -> None:
    """Compute outputs on the workers and leave them there."""
    workers = _workers.get()
    program, how, given = _plan(workers, list(dict.fromkeys(outputs)), order)
    run = _Run(workers, program, how.segments, given)
    run.start()
    for name, output in program.results.items():
        output.expression.values[output.number] = run.held(name)


def _place(output: Output) -> Held | NDArray[Any]:
    """Where the value of an input is."""
    value = output.value
    if isinstance(value, Held):
        return value if _is_even(value) else gather([value])[0]
    for known in _scattered_in(output).values():
        return known
    assert isinstance(value, np.ndarray)
    return value


def _is_even(held: Held) -> bool:
    """Whether an array is in even parts on all workers, as plans have their inputs."""
    return not held.sharding.pieces and len(held.futures) == len(held.workers)


def _scattered_in(output: Output) -> dict[Sharding, Held]:
    """The tilings in which workers have an array of this process."""
    known = _scattered.setdefault(output.expression, {}).setdefault(output.number, {})
    for sharding in [sharding for sharding, held in known.items() if held.is_lost]:
        del known[sharding]
    return known


def is_at(source: Output, held: Output) -> None:
    """The blocks of a value on workers are those of a source: it need not be sent there."""
    if isinstance(held.value, Held) and _is_even(held.value):
        known = _scattered_in(source)
        known.clear()
        known[held.value.sharding] = held.value


def gather(values: Sequence[Value]) -> list[NDArray[Any]]:
    """Values of workers as NumPy arrays."""
    made: list[NDArray[Any]] = []
    for held in values:
        assert isinstance(held, Held)
        chosen = {box: rank for rank, box in held.boxes.items()}
        blocks = held.workers.fetch([held.futures[rank] for rank in chosen.values()])
        if len(blocks) == 1:
            made.append(np.array(blocks[0]))
            continue
        whole = np.empty(held.type.shape, held.type.dtype)
        for box, block in zip(chosen, blocks, strict=True):
            whole[tuple(slice(*ends) for ends in box)] = block
        made.append(whole)
    return made


def is_lost(value: Value) -> bool:
    """Whether a value was on a worker that is gone."""
    return isinstance(value, Held) and value.is_lost


def recover(error: Exception, attempt: int) -> None:
    """After the loss of a worker: number those that are left, or give up."""
    if not isinstance(error, pool.WorkerLost):
        if _workers.current is not None and _workers.current.is_closed:
            raise ClusterLost(
                f"the scheduler is gone ({error}); connect to another cluster with ga.connect, "
                "and ask again"
            ) from error
        raise error
    if attempt >= ATTEMPTS:
        raise ClusterLost(f"given up after {attempt} attempts: {error}") from error
    sleep(FIRST_PAUSE * 2 ** (attempt - 1))
    workers = _workers.get()
    try:
        workers.find()
    except pool.WorkerLost as none_left:
        raise ClusterLost(str(none_left)) from none_left


class _Run:
    """One program on the workers: its tasks, and the futures of its results."""

    def __init__(
        self,
        workers: pool.Workers,
        program: ArrayProgram,
        segments: SegmentGraph,
        given: Mapping[str, Held | NDArray[Any]],
    ) -> None:
        self.workers, self.program, self.graph = workers, program, segments
        self.values: dict[Ref, Any] = {}
        self.futures: dict[str, Any] = {}
        for name, refs in segments.inputs.items():
            self._give(name, refs, given[name])

    def _give(self, name: str, refs: Mapping[int, Ref], value: Held | NDArray[Any]) -> None:
        if isinstance(value, Held):
            for rank, ref in refs.items():
                self.futures[value.futures[rank].key] = value.futures[rank]
                self.values[ref] = pool.KeyOf(value.futures[rank].key)
            return
        homes = self.graph.homes[name]
        placed: dict[int, Any] = {}
        for rank, ref in refs.items():
            block = value[tuple(slice(*ends) for ends in homes[rank])]
            if value.nbytes <= SENT_WITH_TASK:
                self.values[ref] = block
                continue
            placed[rank] = self.workers.put(np.ascontiguousarray(block), rank)
            self.values[ref] = pool.KeyOf(placed[rank].key)
        if placed:
            output = self.program.inputs[name]
            sharding = self.graph.shardings[name]
            _scattered_in(output)[sharding] = Held(
                self.workers, self.workers.epoch, output.type, sharding,
                placed, {rank: homes[rank] for rank in placed},
            )  # fmt: skip

    def start(self) -> None:
        """Run all segments, and wait for the results."""
        tasks: list[pool.PinnedTask] = []
        for segment in self.graph.segments:
            tasks += self._tasks(segment)
        keys = {
            value.key
            for refs in self.graph.results.values()
            for value in (self.values[ref] for ref in refs.values())
        }
        new = sorted(keys - self.futures.keys())
        self.futures |= self.workers.submit(tasks, new)
        self.workers.wait([self.futures[key] for key in new])

    def _tasks(self, segment: Segment) -> list[pool.PinnedTask]:
        if not segment.makes:
            return []
        key = self.workers.new_key("segment")
        names = {name: f for name, f in self.program.functions.items() if _names(segment, name)}
        arguments = (segment, names, *(self.values[ref] for ref in segment.reads))
        tasks = [
            pool.PinnedTask(key=key, rank=segment.rank, function=run_segment, arguments=arguments)
        ]
        if len(segment.makes) == 1:
            self.values[segment.makes[0]] = pool.KeyOf(key)
            return tasks
        for number, ref in enumerate(segment.makes):
            part = self.workers.new_key("part")
            self.values[ref] = pool.KeyOf(part)
            tasks.append(
                pool.PinnedTask(
                    key=part,
                    rank=segment.rank,
                    function=take_item,
                    arguments=(pool.KeyOf(key), number),
                )
            )
        return tasks

    def held(self, name: str) -> Held:
        """A result, where it is."""
        refs = self.graph.results[name]
        return Held(
            self.workers, self.workers.epoch, self.program.graph.tensors[name].type,
            self.graph.shardings[name],
            {rank: self.futures[self.values[ref].key] for rank, ref in refs.items()},
            {rank: self.graph.homes[name][rank] for rank in refs},
        )  # fmt: skip


def _names(segment: Segment, name: str) -> bool:
    """Whether a segment calls a user's function."""
    for step in segment.steps:
        attrs = getattr(step, "attrs", {})
        if name in (attrs.get("function"), attrs.get("reducer_name"), getattr(step, "reducer", "")):
            return True
    return False


def install() -> None:
    """Let large programs be computed by workers."""
    SETTINGS.distribute, SETTINGS.gather = distribute, gather
    SETTINGS.is_lost, SETTINGS.recover = is_lost, recover


install()
