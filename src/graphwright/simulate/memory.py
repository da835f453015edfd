"""What every device holds in memory over a schedule, and when it holds the most.

A value exists from the earliest start among the tasks that give birth to it until the latest end among these and
those that use it, the end itself excluded: what is freed at a time is free for what is allocated at that time. A task that works element by element
writes over a value that nobody uses after it.
Persistent values exist from the beginning to the end.

    bytes
      |         ########          peak: the most that is ever held at once
      |   ######        ###       breakdown: what it was held for, at the first moment of the peak
      |###                 ####
      +------------------------ time

The births of a device and its deaths, each sorted, are merged into one walk (`find_peak`, `trace_curve`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from graphwright.machine import PICOSECONDS
from graphwright.plans import CATEGORIES, Ints, TaskGraph, Values
from graphwright.simulate.engine import Schedule
from graphwright.simulate.verify import verify_values
from graphwright.tasks import compiled

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Memory:
    """The memory of every device over a schedule.

    `peak` is the most bytes that each device holds at once, `peak_time` the first time (in picoseconds) when it does, and
    `at_peak` these bytes by device and category.
    """

    peak: NDArray[np.int64]
    peak_time: NDArray[np.int64]
    at_peak: NDArray[np.int64]
    values: Values = field(repr=False)
    birth: NDArray[np.int64] = field(repr=False)
    death: NDArray[np.int64] = field(repr=False)

    def breakdown(self, device: int) -> dict[str, int]:
        """Bytes by category at the peak of a device."""
        return {name: int(n) for name, n in zip(CATEGORIES, self.at_peak[device], strict=True)}

    def curve(self, device: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The times in seconds when a device's memory changes, from 0, and its bytes[category, time] from each on."""
        members = np.flatnonzero(self.values.device == device)
        births, deaths, base = _events(self.values, self.birth, self.death, members)
        times = np.empty(len(births) + len(deaths) + 1, np.int64)
        held = np.empty((len(times), len(CATEGORIES)), np.int64)
        count = trace_curve(
            births, deaths, self.birth, self.death, self.values.nbytes, self.values.category, base,
            times, held,
        )  # fmt: skip
        return times[:count] / PICOSECONDS, np.ascontiguousarray(held[:count].T)

    def __repr__(self) -> str:
        most = int(self.peak.max(initial=0))
        return f"Memory({len(self.peak)} devices, at most {most / 1e9:,.4g} GB on one)"


def memory(task_graph: TaskGraph, schedule: Schedule) -> Memory:
    """What every device holds over a schedule of its tasks."""
    values, num_devices = task_graph.values, task_graph.num_devices
    verify_values(task_graph)
    birth = np.full(len(values), NEVER, np.int64)
    death = np.full(len(values), -1, np.int64)
    find_lifetimes(
        schedule.start, schedule.end,
        values.birth_value, values.birth_task, values.use_value, values.use_task, birth, death,
    )  # fmt: skip
    written = np.zeros(len(task_graph) + 1, np.bool_)
    write_over(
        schedule.start, schedule.end, values.over_value, values.over_task, values.persistent,
        written, death,
    )  # fmt: skip
    birth[values.persistent] = 0
    death[values.persistent] = schedule.makespan
    peak = np.zeros(num_devices, np.int64)
    peak_time = np.zeros(num_devices, np.int64)
    at_peak = np.zeros((num_devices, len(CATEGORIES)), np.int64)
    by_device = np.argsort(values.device, kind="stable")
    bounds = np.searchsorted(values.device, np.arange(num_devices + 1), sorter=by_device)
    for device in range(num_devices):
        members = by_device[bounds[device] : bounds[device + 1]]
        births, deaths, base = _events(values, birth, death, members)
        at_peak[device] = base
        peak_time[device] = find_peak(
            births, deaths, birth, death, values.nbytes, values.category, at_peak[device]
        )
        peak[device] = at_peak[device].sum()
    return Memory(
        peak=peak, peak_time=peak_time, at_peak=at_peak, values=values, birth=birth, death=death
    )


def _events(
    values: Values, birth: Ints, death: Ints, members: Ints
) -> tuple[Ints, Ints, NDArray[np.int64]]:
    """A device's values in the order of their births, in that of their deaths, and its persistent bytes by category.

    A value that exists for no time at all is in neither.
    """
    persistent = values.persistent[members]
    always = members[persistent]
    base = np.zeros(len(CATEGORIES), np.int64)
    np.add.at(base, values.category[always], values.nbytes[always])
    passing = members[~persistent & (death[members] > birth[members])]
    births = passing[np.argsort(birth[passing])]
    deaths = passing[np.argsort(death[passing])]
    return births, deaths, base


@compiled
def find_lifetimes(
    start: Ints,
    end: Ints,
    birth_value: Ints,
    birth_task: Ints,
    use_value: Ints,
    use_task: Ints,
    birth: Ints,
    death: Ints,
) -> None:
    """Lower `birth` to the earliest start of a birth, raise `death` to the latest end of a birth or use."""
    for i in range(len(birth_value)):
        v, t = birth_value[i], birth_task[i]
        if t == len(end):
            birth[v], death[v] = 0, max(death[v], 0)
            continue
        birth[v] = min(birth[v], start[t])
        death[v] = max(death[v], end[t])
    last = 0
    for t in range(len(end)):
        last = max(last, end[t])
    for i in range(len(use_value)):
        v, t = use_value[i], use_task[i]
        death[v] = max(death[v], last if t == len(end) else end[t])


@compiled
def write_over(
    start: Ints,
    end: Ints,
    over_value: Ints,
    over_task: Ints,
    persistent: NDArray[np.bool_],
    written: NDArray[np.bool_],
    death: Ints,
) -> None:
    """End values where a task begins that writes over them: of each task the first that nobody uses later."""
    for i in range(len(over_value)):
        v, t = over_value[i], over_task[i]
        if not persistent[v] and not written[t] and death[v] == end[t]:
            written[t] = True
            death[v] = start[t]


@compiled
def find_peak(
    births: Ints,
    deaths: Ints,
    birth: Ints,
    death: Ints,
    nbytes: Ints,
    category: NDArray[np.uint8],
    at_peak: Ints,
) -> int:
    """Raise `at_peak`, the persistent bytes on entry, to what is held at the peak; returns the peak's time."""
    held = at_peak.copy()
    total = held.sum()
    peak = total
    time = 0
    freed = 0
    for v in births:
        while death[deaths[freed]] <= birth[v]:
            total -= nbytes[deaths[freed]]
            held[category[deaths[freed]]] -= nbytes[deaths[freed]]
            freed += 1
        total += nbytes[v]
        held[category[v]] += nbytes[v]
        if total > peak:
            peak = total
            time = birth[v]
            at_peak[:] = held
    return time


@compiled
def trace_curve(
    births: Ints,
    deaths: Ints,
    birth: Ints,
    death: Ints,
    nbytes: Ints,
    category: NDArray[np.uint8],
    base: Ints,
    times: Ints,
    held: Ints,
) -> int:
    """Fill `times` and held[time, category] with every change; returns how many there are."""
    times[0] = 0
    held[0] = base
    at = 0
    born = 0
    for v in deaths:
        while born < len(births) and birth[births[born]] < death[v]:
            if birth[births[born]] > times[at]:
                at += 1
                times[at] = birth[births[born]]
                held[at] = held[at - 1]
            held[at, category[births[born]]] += nbytes[births[born]]
            born += 1
        if death[v] > times[at]:
            at += 1
            times[at] = death[v]
            held[at] = held[at - 1]
        held[at, category[v]] -= nbytes[v]
    return at + 1
