"""Arrays on workers: where programs run, what stays there, and what happens when a worker is lost.

On first use of an array of some size a cluster of this machine's cores is started; `connect` takes
any other one. A value on workers is `Held`: one block for each rank, under the plan's sharding. A
later program that reads it finds it where it is.

When a worker is lost, another one takes over its ranks, and only what these held is made again:
`Origin` knows the segments that made a value, and of these run those from which lost blocks follow,
back to blocks that are still there, or to what was given or saved by `checkpoint`.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import sleep
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from graphwright.arrays.errors import ArrayError, ClusterLost
from graphwright.arrays.evaluate import SETTINGS
from graphwright.arrays.expression import Expression, Output, Value, needed
from graphwright.arrays.operators import run_segment, take_item
from graphwright.arrays.running.alone import is_faster_alone
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
    lives: tuple[int, ...]
    type: TensorType
    sharding: Sharding
    futures: Mapping[int, Any]
    boxes: Mapping[int, Box]

    @property
    def lost(self) -> list[int]:
        """The ranks whose blocks cannot be relied on any more."""
        if self.workers is not _workers.current:
            return list(self.futures)
        return [
            rank
            for rank, future in self.futures.items()
            if self.lives[rank] != self.workers.lives[rank] or future.status != "finished"
        ]

    def with_blocks(self, futures: Mapping[int, Any]) -> Held:
        """The same value with other futures for some ranks."""
        return replace(self, lives=self.workers.lives, futures={**self.futures, **futures})


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """How values were made: segments that ran, and where their inputs came from."""

    graph: SegmentGraph
    inputs: Mapping[str, Output]
    functions: Mapping[str, Any]
    makers: dict[Ref, Segment] = field(default_factory=dict)
    places: dict[Ref, tuple[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.makers.update({ref: part for part in self.graph.segments for ref in part.makes})
        for name, refs in self.graph.inputs.items():
            self.places.update({ref: (name, rank) for rank, ref in refs.items()})


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
_origins: WeakKeyDictionary[Expression, dict[int, tuple[Origin, str]]] = WeakKeyDictionary()
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
    """A program, how it is planned, and where its inputs are: on all workers with the fewest bytes
    between them, or on one, if that is faster."""
    program = as_graph(outputs, order)
    values: dict[str, Value] = {name: output.value for name, output in program.inputs.items()}
    on_workers = [value for value in values.values() if isinstance(value, Held)]
    on_one = [held for held in on_workers if _is_uneven(held) and held.futures.keys() == {0}]
    shared = _plan_shared(workers, program, outputs, order)
    received = sum(shared[1].received.values())
    gathered = sum(held.type.nbytes for held in on_one)
    if (
        len(on_one) < len(on_workers)
        or _workers.memory is not None
        or not is_faster_alone(program.graph, received, gathered, len(workers))
    ):
        program, how, given = shared
        return program, how, {n: gather([v])[0] if _is_uneven(v) else v for n, v in given.items()}
    return program, plan_program(program.graph, 1, {}), values


def _plan_shared(
    workers: pool.Workers,
    program: ArrayProgram,
    outputs: Sequence[Output],
    order: Sequence[Expression],
) -> tuple[ArrayProgram, PlannedProgram, dict[str, Held | NDArray[Any]]]:
    """A program on all workers.

    Arrays of this process of which much would go between workers are sent to them from here in each
    tiling in which they are needed, if that is less.
    """
    memory = _workers.memory
    given = {name: _place(output) for name, output in program.inputs.items()}
    how = plan_program(program.graph, len(workers), _fixed(given), memory)
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
    how_apart = plan_program(other.graph, len(workers), _fixed(given_apart), memory)
    if sum(how_apart.received.values()) >= sum(how.received.values()):
        return program, how, given
    for name, output in other.inputs.items():
        if output in apart:
            sharding = how_apart.segments.shardings[name]
            given_apart[name] = _scattered_in(output).get(sharding, given_apart[name])
    return other, how_apart, given_apart


def _fixed(given: Mapping[str, Held | NDArray[Any]]) -> dict[str, Sharding]:
    """The tilings of the inputs that all workers hold."""
    return {
        name: held.sharding
        for name, held in given.items()
        if isinstance(held, Held) and not _is_uneven(held)
    }


# -- values ----------------------------------------------------------------------------------------


def distribute(outputs: Sequence[Output], order: Sequence[Expression]) -> None:
    """Compute outputs on the workers and leave them there."""
    workers = _workers.get()
    program, how, given = _plan(workers, list(dict.fromkeys(outputs)), order)
    run = _Run(workers, program, how.segments, given)
    run.start()
    origin = Origin(how.segments, program.inputs, program.functions)
    for name, output in program.results.items():
        output.expression.values[output.number] = run.held(name)
        _origins.setdefault(output.expression, {})[output.number] = origin, name


def _place(output: Output) -> Held | NDArray[Any]:
    """Where the value of an input is."""
    value = output.value
    if isinstance(value, Held):
        return value
    for known in _scattered_in(output).values():
        if not _is_uneven(known):
            return known
    assert isinstance(value, np.ndarray)
    return value


def _is_uneven(value: Value) -> bool:
    """Whether an array is on workers, but not in even parts on all, as plans have their inputs."""
    return isinstance(value, Held) and (
        bool(value.sharding.pieces) or len(value.futures) != len(value.workers)
    )


def _scattered_in(output: Output) -> dict[Sharding, Held]:
    """The tilings in which workers have an array of this process."""
    known = _scattered.setdefault(output.expression, {}).setdefault(output.number, {})
    for sharding, held in list(known.items()):
        if held.workers is not _workers.current:
            del known[sharding]
        elif held.lost:
            held.workers.replace_lost()
            given, futures = np.asarray(output.value), {}
            for rank in held.lost:
                block = np.ascontiguousarray(given[_inside(held.boxes[rank])])
                futures[rank] = held.workers.put(block, rank)
            known[sharding] = held.with_blocks(futures)
    return known


def _inside(box: Box) -> tuple[slice, ...]:
    return tuple(slice(*ends) for ends in box)


def is_at(source: Output, held: Output) -> None:
    """The blocks of a value on workers are those of a source: it need not be sent there."""
    if isinstance(held.value, Held) and not _is_uneven(held.value):
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
            whole[_inside(box)] = block
        made.append(whole)
    return made


def mend(output: Output) -> Value | None:
    """The value of an output, with what was lost of it made again; None if that is not possible."""
    held = output.value
    if not isinstance(held, Held) or not held.lost:
        return held
    if held.workers is not _workers.current:
        return None
    held.workers.replace_lost()
    return _Mending(held.workers).mend(output, held.lost)


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
    try:
        _workers.get().replace_lost()
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
        output, sharding = self.program.inputs[name], self.graph.shardings[name]
        if not isinstance(value, Held):  # another input of this run may be the same array
            value = _scattered_in(output).get(sharding, value)
        if isinstance(value, Held):
            for rank, ref in refs.items():
                self.futures[value.futures[rank].key] = value.futures[rank]
                self.values[ref] = pool.KeyOf(value.futures[rank].key)
            return
        homes = self.graph.homes[name]
        placed: dict[int, Any] = {}
        for rank, ref in refs.items():
            block = value[_inside(homes[rank])]
            if value.nbytes <= SENT_WITH_TASK:
                self.values[ref] = block
                continue
            placed[rank] = self.workers.put(np.ascontiguousarray(block), rank)
            self.values[ref] = pool.KeyOf(placed[rank].key)
        if placed:
            self.futures |= {future.key: future for future in placed.values()}
            _scattered_in(output)[sharding] = Held(
                self.workers, self.workers.lives, output.type, sharding,
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
        arguments = [self.values[ref] for ref in segment.reads]
        keys = [self.workers.new_key("block") for _ in segment.makes]
        self.values.update(zip(segment.makes, map(pool.KeyOf, keys), strict=True))
        return _tasks_of(segment, self.program.functions, arguments, keys)

    def held(self, name: str) -> Held:
        """A result, where it is."""
        refs = self.graph.results[name]
        return Held(
            self.workers, self.workers.lives, self.program.graph.tensors[name].type,
            self.graph.shardings[name],
            {rank: self.futures[self.values[ref].key] for rank, ref in refs.items()},
            {rank: self.graph.homes[name][rank] for rank in refs},
        )  # fmt: skip


def _tasks_of(
    segment: Segment, functions: Mapping[str, Any], arguments: Sequence[Any], keys: Sequence[str]
) -> list[pool.PinnedTask]:
    """The tasks that run a segment; `keys` are for the values that it makes."""
    used = {name: function for name, function in functions.items() if _names(segment, name)}
    whole = keys[0] if len(keys) == 1 else f"segment-of-{keys[0]}"
    run = pool.PinnedTask(
        key=whole, rank=segment.rank, function=run_segment, arguments=(segment, used, *arguments)
    )
    if len(keys) == 1:
        return [run]
    parts = [
        pool.PinnedTask(
            key=key, rank=segment.rank, function=take_item, arguments=(pool.KeyOf(whole), number)
        )
        for number, key in enumerate(keys)
    ]
    return [run, *parts]


def _names(segment: Segment, name: str) -> bool:
    """Whether a segment calls a user's function."""
    for step in segment.steps:
        attrs = getattr(step, "attrs", {})
        if name in (attrs.get("function"), attrs.get("reducer_name"), getattr(step, "reducer", "")):
            return True
    return False


class _Untraceable(Exception):
    """A block cannot be made again by itself: not all that it came from is known."""


class _Mending:
    """Blocks of a value that were lost, made again by the segments from which they follow."""

    def __init__(self, workers: pool.Workers) -> None:
        self.workers = workers
        self.values: dict[tuple[Origin, Ref], Any] = {}
        self.futures: dict[str, Any] = {}
        self.segments: list[tuple[Origin, Segment]] = []

    def mend(self, output: Output, lost: Sequence[int]) -> Held | None:
        """The value with all its blocks; None if that takes more than segments that ran before."""
        held = output.value
        assert isinstance(held, Held)
        known = _origins.get(output.expression, {}).get(output.number)
        if known is None:
            return None
        origin, name = known
        results = origin.graph.results[name]
        for rank in results.keys() - set(lost):
            self._is_there(origin, results[rank], held.futures[rank])
        try:
            self._trace([(origin, results[rank]) for rank in lost])
        except _Untraceable:
            return None
        tasks: list[pool.PinnedTask] = []
        for made_by, segment in self.segments:
            arguments = [self._value(made_by, ref) for ref in segment.reads]
            keys = [self.values[made_by, ref].key for ref in segment.makes]
            tasks += _tasks_of(segment, made_by.functions, arguments, keys)
        made = {rank: self._value(origin, results[rank]) for rank in lost}
        if not all(isinstance(value, pool.KeyOf) for value in made.values()):
            return None
        keys_of = {rank: value.key for rank, value in made.items()}
        new = sorted(set(keys_of.values()) - self.futures.keys())
        self.futures |= self.workers.submit(tasks, new)
        self.workers.wait([self.futures[key] for key in new])
        return held.with_blocks({rank: self.futures[key] for rank, key in keys_of.items()})

    def _trace(self, wanted: list[tuple[Origin, Ref]]) -> None:
        while wanted:
            origin, ref = wanted.pop()
            if (origin, ref) in self.values:
                continue
            if ref in origin.places:
                wanted += self._input(origin, ref)
                continue
            segment = origin.makers[ref]
            for made in segment.makes:
                self.values[origin, made] = pool.KeyOf(self.workers.new_key("block"))
            self.segments.append((origin, segment))
            wanted += [(origin, read) for read in segment.reads]

    def _input(self, origin: Origin, ref: Ref) -> list[tuple[Origin, Ref]]:
        """A block of an input: where it is, or what it has to be made from."""
        name, rank = origin.places[ref]
        output, sharding = origin.inputs[name], origin.graph.shardings[name]
        value = output.value
        if isinstance(value, np.ndarray):
            known = _scattered_in(output).get(sharding)
            block = np.ascontiguousarray(value[_inside(origin.graph.homes[name][rank])])
            if known is not None:
                self._is_there(origin, ref, known.futures[rank])
            elif value.nbytes <= SENT_WITH_TASK:
                self.values[origin, ref] = block
            else:
                self._is_there(origin, ref, self.workers.put(block, rank))
            return []
        if isinstance(value, Held) and value.sharding == sharding and rank not in value.lost:
            self._is_there(origin, ref, value.futures[rank])
            return []
        before, result = _origins.get(output.expression, {}).get(output.number, (None, ""))
        if before is None or before.graph.shardings[result] != sharding:
            raise _Untraceable
        source = before, before.graph.results[result][rank]
        self.values[origin, ref] = source
        return [source]

    def _is_there(self, origin: Origin, ref: Ref, future: Any) -> None:
        self.futures[future.key] = future
        self.values[origin, ref] = pool.KeyOf(future.key)

    def _value(self, origin: Origin, ref: Ref) -> Any:
        value = self.values[origin, ref]
        while isinstance(value, tuple):
            value = self.values[value]
        return value


def install() -> None:
    """Let large programs be computed by workers."""
    SETTINGS.distribute, SETTINGS.gather = distribute, gather
    SETTINGS.mend, SETTINGS.recover = mend, recover


install()
