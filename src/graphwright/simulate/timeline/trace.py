"""A timeline as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

    process "gpu 3"     threads "compute", and its ports "out" and "in"; a counter of its memory
    process "node 0"    threads of the other ports and buses, by their owners; one per explicit link

The file is written as it is made, a resource at a time, so that a million tasks need no memory of
their own.

Perfetto counts whole nanoseconds, cuts off what is less (and what floating point makes less), and
drops an event that then overlaps another by one of them. So begins and ends are rounded down to
nanoseconds, a length is the difference of the two, and all begins are a quarter of a nanosecond
late: neither cutting nor rounding can move them, and a length that is cut can only get shorter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphwright.errors import UnknownDevice
from graphwright.files import writing
from graphwright.plans import CATEGORIES, KINDS

if TYPE_CHECKING:
    from graphwright.simulate.timeline.timeline import Timeline

DEFAULT_DEVICES = 16
DEFAULT_LINKS = 32
BLOCK = 20_000


class Thread(NamedTuple):
    """Where the tasks of a resource are shown."""

    resource: int
    pid: int
    tid: int
    process: str
    name: str


def save_trace(timeline: Timeline, path: Path, *, devices: Sequence[int] | None = None) -> None:
    """Write the trace; packed when the name ends in `.gz`."""
    chosen = check_devices(timeline, devices, DEFAULT_DEVICES)
    with writing(path) as file:
        for text in trace_text(timeline, chosen):
            file.write(text.encode())


def check_devices(timeline: Timeline, devices: Sequence[int] | None, most: int) -> tuple[int, ...]:
    """The devices to show: those asked for, or the first ones."""
    if devices is None:
        return tuple(range(min(most, timeline.num_devices)))
    for device in devices:
        if not 0 <= device < timeline.num_devices:
            raise UnknownDevice(
                f"there is no device {device} to show; the timeline has devices 0 to "
                f"{timeline.num_devices - 1}"
            )
    return tuple(dict.fromkeys(devices))


def trace_text(timeline: Timeline, devices: tuple[int, ...]) -> Iterator[str]:
    """The trace, piece by piece."""
    threads = _threads(timeline, devices)
    about = {
        "about": timeline.caption,
        "devices": f"{len(devices)} of {timeline.num_devices} are shown",
        "makespan_seconds": timeline.makespan,
    }
    yield f'{{"displayTimeUnit": "ms", "otherData": {json.dumps(about)}, "traceEvents": [\n'
    yield ",\n".join(_names(threads))
    texts = _Texts(timeline)
    for thread in threads:
        yield from _tasks(timeline, thread, texts)
    for thread in threads[: len(devices)]:
        yield from _memory(timeline, thread)
    yield "\n]}\n"


def _threads(timeline: Timeline, devices: tuple[int, ...]) -> list[Thread]:
    """What is shown: the chosen devices with their ports, and the first of other busy links.

    No two numbers of processes and threads are the same, and none is 0: Perfetto keeps that for the
    idle thread.
    """
    names = timeline.tasks.resource_names
    owners = {name: device for device, name in enumerate(names[: timeline.num_devices])}
    shown = set(devices)
    first = len(names) + 1
    threads = [Thread(d, first + d, d + 1, names[d], "compute") for d in devices]
    others: dict[str, int] = {}
    links = 0
    for resource in np.flatnonzero(timeline.busy).tolist():
        if resource < timeline.num_devices:
            continue
        owner, _, port = names[resource].rpartition(" ")
        if owner in owners:
            if owners[owner] in shown:
                threads.append(Thread(resource, first + owners[owner], resource + 1, owner, port))
        elif links < DEFAULT_LINKS:
            links += 1
            process = owner if port in ("in", "out", "bus") else names[resource]
            pid = others.setdefault(process, first + timeline.num_devices + len(others))
            threads.append(Thread(resource, pid, resource + 1, process, port))
    return threads


def _names(threads: list[Thread]) -> Iterator[str]:
    """Names and order of the processes and threads."""
    for pid, process in {thread.pid: thread.process for thread in threads}.items():
        for kind, value in (
            ("process_name", {"name": process}),
            ("process_sort_index", {"sort_index": pid}),
        ):
            yield json.dumps({"ph": "M", "pid": pid, "name": kind, "args": value})
    for thread in threads:
        for kind, value in (
            ("thread_name", {"name": thread.name}),
            ("thread_sort_index", {"sort_index": thread.tid}),
        ):
            yield json.dumps(
                {"ph": "M", "pid": thread.pid, "tid": thread.tid, "name": kind, "args": value}
            )


class _Texts:
    """What the events of one node, or of one transfer, have in common: made once for each."""

    def __init__(self, timeline: Timeline) -> None:
        self._nodes = timeline.graph.nodes
        self._labels = timeline.tasks.labels
        self._made: dict[tuple[int, int], str] = {}

    def __call__(self, kind: int, at: int) -> str:
        text = self._made.get((kind, at))
        if text is None:
            text = self._made[kind, at] = self._make(kind, at)
        return text

    def _make(self, kind: int, at: int) -> str:
        if kind:
            name, category = self._labels[at], KINDS[kind]
            about = {"transfer": KINDS[kind]}
        else:
            node = self._nodes[at]
            name, category = node.name, str(node.phase)
            about = {"operator": node.op, "module": node.module, "phase": category}
        return f'"name": {json.dumps(name)}, "cat": "{category}", "args": {json.dumps(about)[:-1]}'


def _tasks(timeline: Timeline, thread: Thread, texts: _Texts) -> Iterator[str]:
    """The events of a resource, in the order of time; tasks that take no time are left out."""
    tasks, loads = timeline.served.by(thread.resource)
    taking = timeline.tasks.duration[tasks] > 0
    tasks, loads = tasks[taking], loads[taking]
    head = f',\n{{"ph": "X", "pid": {thread.pid}, "tid": {thread.tid}, "ts": '
    for first in range(0, len(tasks), BLOCK):
        block = tasks[first : first + BLOCK]
        start = timeline.schedule.start[block] // 1000
        length = timeline.schedule.end[block] // 1000 - start
        columns = (
            start, length, timeline.tasks.kind[block], timeline.tasks.node[block],
            timeline.tasks.nbytes[block], loads[first : first + BLOCK],
        )  # fmt: skip
        yield "".join(
            f"{head}{_begin(begin)}, "
            f'"dur": {took // 1000}.{took % 1000:03}, {texts(kind, at)}'
            + (f', "bytes": {nbytes}, "bytes on this link": {load}}}}}' if kind else "}}")
            for begin, took, kind, at, nbytes, load in zip(
                *(column.tolist() for column in columns), strict=True
            )
        )


def _memory(timeline: Timeline, thread: Thread) -> Iterator[str]:
    """A counter of what a device holds, by category; those that it never holds are left out."""
    times, held = timeline.memory.curve(thread.resource)
    kept = [k for k in range(len(CATEGORIES)) if held[k].any()]
    if not kept:
        return
    nanoseconds = np.rint(times * 1e9).astype(np.int64)
    last = np.append(nanoseconds[1:] != nanoseconds[:-1], True)  # of those at one time
    nanoseconds, held = nanoseconds[last], held[:, last]
    head = f',\n{{"ph": "C", "pid": {thread.pid}, "name": "memory", "ts": '
    names = [json.dumps(CATEGORIES[k]) for k in kept]
    for first in range(0, len(nanoseconds), BLOCK):
        block = slice(first, first + BLOCK)
        rows = zip(*(held[k, block].tolist() for k in kept), strict=True)
        yield "".join(
            f'{head}{_begin(time)}, "args": {{{", ".join(map("{}: {}".format, names, row))}}}}}'
            for time, row in zip(nanoseconds[block].tolist(), rows, strict=True)
        )


def _begin(nanoseconds: int) -> str:
    """Microseconds, a quarter of a nanosecond late (see above)."""
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03}25"
