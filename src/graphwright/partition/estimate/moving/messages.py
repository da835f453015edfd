"""Who sends how much to whom where regions are fetched: what `Stepper.exchange` takes, as lines over the bytes of the tensor.

    fetch        looked up by the structure of the two shardings, from one table to the next
      messages   for each tile that a device lacks, one from the nearest device that has it
      evenly     on very many devices and tiles: as if every device got as much as any other

Up to a few messages for each device, each port carries them one after another: latencies add up. More are one exchange. In
shares of a tensor whose dims can be cut evenly, both are straight lines over its bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphwright.tasks import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SMALL = 256
"""Up to so many devices, fetching is looked at after a reduce-scatter too, as in `tasks.reshard`."""
MOST_TILES = 1 << 12
"""On more devices than `SMALL`, if more tiles than this are needed, they are taken to come evenly from all over."""
SENDS_PER_DEVICE = 4
"""More messages than this for each device are one exchange, as in `tasks.steps`."""


class Machine(NamedTuple):
    """A cluster in arrays; `link_of` is the resource of an explicit link between two devices, or -1; empty without any.

    `ports` are for every level the bytes/s that one member can receive, the least latency, and its devices.
    """

    axis_size: Ints
    axis_level: Ints
    axis_stride: Ints
    stride: Ints
    members: Ints
    offset: Ints
    shared: NDArray[np.bool_]
    route_bandwidth: Floats
    level_latency: Floats
    resource_bandwidth: Floats
    link_of: NDArray[np.int32]
    link_latency: Floats
    first_link: int
    ports: Floats


class Known(NamedTuple):
    """What fetching takes, by structure: two straight lines and the bytes moved, as shares of the tensor's bytes."""

    keys: NDArray[np.uint64]
    lines: Floats
    used: Ints


# The rows of `bundles`: the axes as bits, their devices, their level, the placements at both ends and in the state looked at.
SPAN, WAYS, LEVEL, SOURCE, TARGET, NOW = range(6)


@compiled
def fetch(machine: Machine, known: Known, b: Ints, count: int, size: float) -> tuple[float, float]:
    """Seconds and bytes of fetching what is missing, from the nearest device that has it."""
    num_axes = machine.axis_size.size
    own, goal = np.empty(num_axes, np.int64), np.empty(num_axes, np.int64)
    name = np.full(16, -1, np.int64)
    named = 0
    key = np.uint64(14695981039346656037)
    i = -1
    for a in range(num_axes):
        if i < 0 or not (b[SPAN, i] >> a) & 1:
            i += 1
            for code in (b[NOW, i], b[TARGET, i]):
                if code >= 0 and name[code] < 0:
                    name[code] = named
                    named += 1
        own[a] = name[b[NOW, i]] if b[NOW, i] >= 0 else -1
        goal[a] = name[b[TARGET, i]] if b[TARGET, i] >= 0 else -1
        key = (key ^ np.uint64((own[a] + 1) * 16 + goal[a] + 1)) * np.uint64(1099511628211)
        key ^= key >> np.uint64(29)
    if key == 0:
        key = np.uint64(1)
    slots = np.uint64(known.keys.size)
    at = key % slots
    while known.keys[at] != 0 and known.keys[at] != key:
        at = (at + np.uint64(1)) % slots
    if known.keys[at] == 0:
        if known.used[0] * 2 > known.keys.size:
            known.keys[:] = 0
            known.used[0] = 0
            at = key % slots
        known.keys[at] = key
        known.used[0] += 1
        messages(machine, own, goal, named, known.lines[at])
    line = known.lines[at]
    return max(line[0] + line[1] * size, line[2] + line[3] * size), line[4] * size


@compiled
def messages(machine: Machine, own: Ints, goal: Ints, rank: int, line: Floats) -> None:
    """Who sends how much to whom: see `Stepper.exchange`. Shares of a tensor whose dims can be cut evenly."""
    num_axes, num_levels = machine.axis_size.size, machine.stride.size
    devices = machine.stride[0] * machine.members[0]
    resources = machine.resource_bandwidth.size
    waits, busy, load = np.zeros(resources), np.zeros(resources), np.zeros(resources)
    leaving, arriving = np.zeros(devices), np.zeros(devices)
    takes_part = np.zeros(devices, np.bool_)
    cuts, parts = np.ones(rank, np.int64), np.ones(rank, np.int64)
    copies = 1
    for a in range(num_axes):
        if own[a] >= 0:
            cuts[own[a]] *= machine.axis_size[a]
        else:
            copies *= machine.axis_size[a]
        if goal[a] >= 0:
            parts[goal[a]] *= machine.axis_size[a]
    linked = machine.link_of.size > 0
    idle, receivers = representatives(machine, own, goal, linked or devices <= SMALL)
    many = receivers.size
    for d in range(rank):
        many *= -(-cuts[d] // parts[d])
    if many > MOST_TILES and devices > SMALL:
        evenly(machine, own, goal, line)
        return
    times, repeats = np.ones(num_levels), np.ones(num_levels)
    for level in range(num_levels):
        for a in range(num_axes):
            inside = machine.axis_level[a] > level
            if idle[a] and (inside or (machine.shared[level] and machine.axis_level[a] == level)):
                times[level] *= machine.axis_size[a]
            if idle[a] and machine.axis_level[a] == level:
                repeats[level] *= machine.axis_size[a]
    part, low, high, tile = (
        np.zeros(rank, np.int64),
        np.zeros(rank, np.int64),
        np.zeros(rank, np.int64),
        np.zeros(rank, np.int64),
    )
    rest = np.zeros(rank, np.int64)
    number, total = 0, 0.0
    links_only, slowest = True, 0.0
    for receiver in receivers:
        part[:] = 0
        for a in range(num_axes):
            if goal[a] >= 0:
                at = receiver // machine.axis_stride[a] % machine.axis_size[a]
                part[goal[a]] = part[goal[a]] * machine.axis_size[a] + at
        for d in range(rank):
            low[d] = part[d] * cuts[d] // parts[d]
            high[d] = -(-(part[d] + 1) * cuts[d] // parts[d])
            tile[d] = low[d]
        while True:
            share = 1.0
            for d in range(rank):
                begin = max(part[d] * cuts[d], tile[d] * parts[d])
                end = min((part[d] + 1) * cuts[d], (tile[d] + 1) * parts[d])
                share *= (end - begin) / (cuts[d] * parts[d])
                rest[d] = tile[d]
            # The holders of the tile: the digits of its cuts are given, those of the other axes are free.
            base, differs = 0, num_levels
            for a in range(num_axes - 1, -1, -1):
                size, stride = machine.axis_size[a], machine.axis_stride[a]
                if own[a] >= 0:
                    digit = rest[own[a]] % size
                    rest[own[a]] //= size
                    base += digit * stride
                    if digit != receiver // stride % size:
                        differs = machine.axis_level[a]
            if differs < num_levels:
                free, first = 1, 0
                for a in range(num_axes):
                    if own[a] < 0:
                        size = machine.axis_size[a]
                        first *= size
                        if machine.axis_level[a] < differs:
                            first += receiver // machine.axis_stride[a] % size
                        else:
                            free *= size
                turn = receiver % copies
                chosen = turn if first <= turn < first + free else first
                sender = base
                for a in range(num_axes - 1, -1, -1):
                    if own[a] < 0:
                        if not idle[a]:
                            sender += chosen % machine.axis_size[a] * machine.axis_stride[a]
                        chosen //= machine.axis_size[a]
                out, into, weight = -1, -1, 1.0
                if linked:
                    out = machine.link_of[sender, receiver]
                if out >= 0:
                    rate = machine.resource_bandwidth[out]
                    wait = machine.link_latency[(out - machine.first_link) // 2]
                    slowest = max(slowest, wait)
                else:
                    links_only = False
                    level = 0
                    while sender // machine.stride[level] == receiver // machine.stride[level]:
                        level += 1
                    rate, wait = machine.route_bandwidth[level], machine.level_latency[level]
                    weight = times[level]
                    if machine.shared[level]:
                        group = machine.stride[level] * machine.members[level]
                        out = machine.offset[level] + sender // group
                    else:
                        out = machine.offset[level] + 2 * (sender // machine.stride[level])
                        into = machine.offset[level] + 2 * (receiver // machine.stride[level]) + 1
                number += 1
                total += share
                takes_part[sender] = takes_part[receiver] = True
                arriving[receiver] += share / rate
                leaving[sender] += share / rate
                for link in (out, into):
                    if link >= 0:
                        waits[link] += weight * wait
                        busy[link] += weight * share / rate
                        load[link] += weight * share
            d = rank - 1
            while d >= 0:
                tile[d] += 1
                if tile[d] < high[d]:
                    break
                tile[d] = low[d]
                d -= 1
            if d < 0:
                break
    line[4] = total * devices / receivers.size
    if number == 0:
        line[:4] = 0.0
    elif number > SENDS_PER_DEVICE * receivers.size:
        for r in range(resources):
            if load[r] > 0:
                load[r] /= machine.resource_bandwidth[r]
        line[1] = max(load.max(), leaving.max(), arriving.max())
        line[0] = 0.0
        before, product = 1, 1
        for depth in range(num_levels):
            distinct, last = 0, -1
            for device in range(devices):
                if takes_part[device] and device // machine.stride[depth] != last:
                    distinct += 1
                    last = device // machine.stride[depth]
            span = repeats[depth] * -(-distinct // before)
            before = distinct
            product *= span
            line[0] += np.ceil(np.log2(span)) * machine.level_latency[depth]
        if links_only:
            line[0] = np.ceil(np.log2(product)) * slowest
        line[2], line[3] = 0.0, 0.0
    else:
        longest, most = np.argmax(busy), np.argmax(waits)
        line[0], line[1] = waits[longest], busy[longest]
        line[2], line[3] = waits[most], busy[most]


@compiled
def representatives(
    machine: Machine, own: Ints, goal: Ints, each: bool
) -> tuple[NDArray[np.bool_], Ints]:
    """Which axes are idle, and the devices that are first along all of those: the others do the same at the same time.

    Along an idle axis nothing moves: both shardings have copies, or the same outer cuts of a dim.
    """
    num_axes = own.size
    idle = np.zeros(num_axes, np.bool_)
    broken, number = 0, 1
    for a in range(num_axes):
        idle[a] = own[a] == goal[a] and not each
        if own[a] >= 0 and (broken >> own[a]) & 1:
            idle[a] = False
        if own[a] != goal[a]:
            for d in (own[a], goal[a]):
                if d >= 0:
                    broken |= 1 << d
        if not idle[a]:
            number *= machine.axis_size[a]
    found = np.zeros(number, np.int64)
    made = 1
    for a in range(num_axes):
        if not idle[a]:
            for i in range(made - 1, -1, -1):
                for at in range(machine.axis_size[a] - 1, -1, -1):
                    found[i * machine.axis_size[a] + at] = found[i] + at * machine.axis_stride[a]
            made *= machine.axis_size[a]
    return idle, found


@compiled
def evenly(machine: Machine, own: Ints, goal: Ints, line: Floats) -> None:
    """One exchange of which every member of a level gets as much as any other."""
    broken = 0
    whole, away, before = 1.0, 1.0, 1.0
    for a in range(goal.size):
        if goal[a] >= 0:
            whole *= machine.axis_size[a]
    line[:] = 0.0
    for a in range(goal.size):
        if own[a] >= 0 and (own[a] != goal[a] or (broken >> own[a]) & 1):
            away *= machine.axis_size[a]
        if own[a] != goal[a]:
            for d in (own[a], goal[a]):
                if d >= 0:
                    broken |= 1 << d
        level = machine.axis_level[a]
        if a + 1 == goal.size or machine.axis_level[a + 1] != level:
            if away > before:
                came = (1 / before - 1 / away) / whole * machine.ports[level, 2]
                line[1] = max(line[1], came / machine.ports[level, 0])
            line[0] += np.ceil(np.log2(machine.members[level])) * machine.level_latency[level]
            before = away
    devices = machine.stride[0] * machine.members[0]
    line[4] = devices * (1 - 1 / away) / whole
