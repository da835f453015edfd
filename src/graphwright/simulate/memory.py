"""What every device holds in memory over a schedule, and when it holds the most.

A value exists from the earliest start among the tasks that give birth to it until the latest end
among these and those that use it, the end itself excluded: what is freed at a time is free for what
is allocated at that time. A task that works element by element writes over a value that nobody uses
after it. Persistent values exist from the beginning to the end.

    bytes
      |         ########          peak: the most that is ever held at once
      |   ######        ###       breakdown: what it was held for, at the first moment of the peak
      |###                 ####
      +------------------------ time
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

    `peak` is the most bytes that each device holds at once, `peak_time` the first time (in
    picoseconds) when it does, and `at_peak` these bytes by device and category.
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
        """The times in seconds when a device's memory changes, from 0, and its bytes[category,
        time] from each on.
        """
        members = np.flatnonzero(self.values.device == device)
        times, held = _curve(self.values, self.birth, self.death, members)
        return times / PICOSECONDS, np.ascontiguousarray(held.T)

    def __repr__(self) -> str:
        most = int(self.peak.max(initial=0))
        return f"Memory({len(self.peak)} devices, at most {most / 1e9:,.4g} GB on one)"


def memory(task_graph: TaskGraph, schedule: Schedule) -> Memory:
    """What every device holds over a schedule of its tasks."""
    values, num_devices = task_graph.values, task_graph.num_devices
    verify_values(task_graph)
    birth = np.full(len(values), NEVER, np.int64)
    death = np.full(len(values), -1, np.int64)
    # Behind the last task: what is there from the beginning, and what is used at the end.
    starts, ends = np.append(schedule.start, 0), np.append(schedule.end, 0)
    np.minimum.at(birth, values.birth_value, starts[values.birth_task])
    np.maximum.at(death, values.birth_value, ends[values.birth_task])
    ends[-1] = schedule.makespan
    np.maximum.at(death, values.use_value, ends[values.use_task])
    written = np.zeros(len(task_graph), np.bool_)
    write_over(
        schedule.start, schedule.end, values.over_value, values.over_task, values.persistent,
        written, death,
    )  # fmt: skip
    birth[values.persistent] = 0
    death[values.persistent] = schedule.makespan
    peak_time = np.zeros(num_devices, np.int64)
    at_peak = np.zeros((num_devices, len(CATEGORIES)), np.int64)
    by_device = np.argsort(values.device, kind="stable")
    bounds = np.searchsorted(values.device, np.arange(num_devices + 1), sorter=by_device)
    for device in range(num_devices):
        members = by_device[bounds[device] : bounds[device + 1]]
        always, passing = _lasting(values, birth, death, members)
        np.add.at(at_peak[device], values.category[always], values.nbytes[always])
        births, deaths = (passing[np.argsort(when[passing])] for when in (birth, death))
        peak_time[device] = find_peak(
            births, deaths, birth, death, values.nbytes, values.category, at_peak[device]
        )
    return Memory(
        peak=at_peak.sum(axis=1),
        peak_time=peak_time,
        at_peak=at_peak,
        values=values,
        birth=birth,
        death=death,
    )


def _curve(
    values: Values, birth: Ints, death: Ints, members: NDArray[np.intp]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The times when what a device holds changes, from 0, and its bytes[time, category] from each
    on; `members` are its values.
    """
    always, passing = _lasting(values, birth, death, members)
    when = np.concatenate([np.zeros(1 + len(always), np.int64), birth[passing], death[passing]])
    times, place = np.unique(when, return_inverse=True)
    changed = np.concatenate([always, passing, passing])
    change = values.nbytes[changed]
    change[len(always) + len(passing) :] *= -1
    held = np.zeros((len(times), len(CATEGORIES)), np.int64)
    np.add.at(held.reshape(-1), place[1:] * len(CATEGORIES) + values.category[changed], change)
    return times, held.cumsum(axis=0)


def _lasting(
    values: Values, birth: Ints, death: Ints, members: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The persistent ones among some values, and the others that exist for any time at all."""
    persistent = values.persistent[members]
    passing = members[~persistent & (death[members] > birth[members])]
    return members[persistent], passing


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
    """Raise `at_peak`, the persistent bytes on entry, to those of the peak; returns its time."""
    held = np.empty_like(at_peak)
    total = 0
    for c in range(len(at_peak)):
        held[c] = at_peak[c]
        total += at_peak[c]
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
            for c in range(len(at_peak)):  # assigning a slice takes two seconds to compile
                at_peak[c] = held[c]
    return time


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
    """End values where a task begins that writes over them: of each task the first that nobody uses
    later.
    """
    for i in range(len(over_value)):
        v, t = over_value[i], over_task[i]
        if not persistent[v] and not written[t] and death[v] == end[t]:
            written[t] = True
            death[v] = start[t]
