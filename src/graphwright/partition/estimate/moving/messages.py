"""Who sends how much to whom where regions are fetched: what the exact price of an exchange is, as
lines over the bytes of the tensor.

    fetch        looked up by the structure of the two shardings, from one table to the next
      send_all   for each tile that a device lacks, a message from the nearest device that has it
      evenly     on very many devices and tiles: as if every device got as much as any other

Up to a few messages for each device, each port carries them one after another: latencies add up.
More are one exchange. In shares of a tensor whose dims can be cut evenly, both are straight lines
over its bytes, of which the higher counts:

    seconds = max(line.wait + line.rate * bytes, line.other_wait + line.other_rate * bytes)
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from graphwright.machine import Cluster
from graphwright.tasks import SENDS_PER_DEVICE, compiled, states

Ints = NDArray[np.int64]
Record: TypeAlias = Any
Records: TypeAlias = Any

MOST_TILES = 1 << 12
"""On more devices than `states.SMALL`, if more tiles than this are needed, they are taken to come
evenly from all over.
"""
MOST_AXES = 16
"""So many axes of four bits each fit into half a key."""


AXIS = np.dtype(
    [(name, np.int64) for name in ("size", "level", "stride", "own", "goal", "idle", "digit")]
)
"""Of an axis: the devices along it, its level, the distance between them; and the dims that it cuts
before and after, -1 for none.

Along an `idle` axis nothing moves, so the first device stands for all. `digit`: the place of the
receiver along it.
"""
LEVEL = np.dtype(
    [(name, np.int64) for name in ("stride", "members", "offset", "shared")]
    + [(name, np.float64) for name in ("bandwidth", "latency", "port", "times", "repeats")]
)
"""Of a level: the devices of a member, the members, the first resource, whether that is one bus for
all.

Bytes/s of a route that crosses it, its latency, bytes/s that a member can receive. For how many
messages that cross it each one stands, and for how many of its members.
"""
LINK = np.dtype([(name, np.float64) for name in ("bandwidth", "latency", "waits", "busy", "load")])
"""Of a resource: bytes/s, latency if it is an explicit link; of its messages, their latencies,
seconds and shares of the tensor.
"""
DEVICE = np.dtype([("leaving", np.float64), ("arriving", np.float64), ("member", np.int64)])
"""Of a device: seconds that what it sends and receives takes, and whether it does either."""
DIM = np.dtype(
    [(name, np.int64) for name in ("cuts", "parts", "part", "low", "high", "tile", "rest")]
)
"""Of a dim: into how much it is cut before and after; the part of a receiver, the tiles that it
overlaps, the one looked at.
"""


FIXED = np.dtype(
    [(name, np.int64) for name in ("num_axes", "num_levels", "rank", "copies")]
    + [(name, np.float64) for name in ("number", "share", "over_links", "slowest")]
    + [("axes", AXIS, MOST_AXES), ("levels", LEVEL, MOST_AXES), ("dims", DIM, MOST_AXES)]
)
"""Axes, levels and dims, and how many copies there are before, in one record: compiled code counts
references to arrays, and none to a record.

Of all messages: how many, their shares, whether all go over explicit links, and the longest latency
of those.
"""


class Machine(NamedTuple):
    """A cluster, and room to count messages; `explicit` is the resource of a link between two
    devices, or -1; empty without any.
    """

    fixed: Records
    links: Records
    devices: Records
    explicit: NDArray[np.int32]


LINE = np.dtype(
    [(name, np.float64) for name in ("wait", "rate", "other_wait", "other_rate", "moved")]
)
"""Two straight lines over the bytes of a tensor, and the bytes moved, as a share of them."""
ENTRY = np.dtype([("own", np.int64), ("goal", np.int64), ("used", np.int64), ("line", LINE)])
"""What fetching takes for one structure: for every axis, in four bits, the dim that it cuts before
and after, 0 for none.
"""


class Known(NamedTuple):
    """What fetching takes, by structure: a hash table with open addressing, which compares whole
    keys; it is emptied when half full.
    """

    entries: Records
    used: Ints


def new_known(size: int) -> Known:
    """An empty table."""
    return Known(np.zeros(size, ENTRY), np.zeros(1, np.int64))


def new_machine(cluster: Cluster, ports: NDArray[np.float64]) -> Machine:
    """A cluster in arrays."""
    made = Machine(
        fixed=np.zeros(1, FIXED),
        links=np.zeros(cluster.first_host_link, LINK),
        devices=np.zeros(cluster.num_devices, DEVICE),
        explicit=np.full((cluster.num_devices if cluster.links else 0,) * 2, -1, np.int32),
    )
    m = made.fixed[0]
    m["num_axes"], m["num_levels"] = len(cluster.axes), len(cluster.levels)
    stride = 1
    for a, axis in reversed(list(enumerate(cluster.axes))):
        m["axes"][a] = (axis.size, axis.level, stride, -1, -1, 0, 0)
        stride *= axis.size
    offset = cluster.num_devices
    for depth, (level, record) in enumerate(zip(cluster.levels, m["levels"], strict=False)):
        members = cluster.num_devices // cluster.strides[depth]
        record["members"], record["offset"], record["shared"] = level.count, offset, level.shared
        record["bandwidth"] = min(inner.rate for inner in cluster.levels[depth:])
        record["latency"], record["port"] = level.latency, ports[depth, 0]
        record["stride"] = cluster.strides[depth]
        offset += members // level.count if level.shared else 2 * members
    made.links["bandwidth"] = cluster.resource_bandwidths[: cluster.first_host_link]
    for number, link in enumerate(cluster.links):
        there = cluster.first_link + 2 * number
        made.explicit[link.devices] = there
        made.explicit[link.devices[::-1]] = there + 1
        made.links["latency"][there : there + 2] = link.latency
    return made


@compiled
def fetch(machine: Machine, known: Known, s: states.Record) -> tuple[float, float]:
    """Seconds and bytes of the fetch that a search asks for."""
    name_dims(machine.fixed[0], s)
    line = look_up(machine, known)
    size = s.size
    seconds = max(line.wait + line.rate * size, line.other_wait + line.other_rate * size)
    return seconds, line.moved * size


@compiled
def name_dims(m: Record, s: states.Record) -> None:
    """Put down the dims that every axis cuts now and in the end, numbered as they are met."""
    number = np.full(16, -1, np.int64)
    m.rank = 0
    key = s.states[s.at].key
    i, now = -1, -1
    for a in range(m.num_axes):
        if i < 0 or not (s.bundles[i].span >> a) & 1:
            i += 1
            now = states.code(key, i)
            for code in (now, s.bundles[i].target):
                if code >= 0 and number[code] < 0:
                    number[code] = m.rank
                    m.rank += 1
        then = s.bundles[i].target
        m.axes[a].own = number[now] if now >= 0 else -1
        m.axes[a].goal = number[then] if then >= 0 else -1


@compiled
def look_up(machine: Machine, known: Known) -> Any:
    """The line of a structure; found by counting messages if it is new."""
    m = machine.fixed[0]
    own, goal = 0, 0
    for a in range(m.num_axes):
        axis = m.axes[a]
        own, goal = (own << 4) | (axis.own + 1), (goal << 4) | (axis.goal + 1)
    slots = known.entries.size
    mixed = (own * 0x9E3779B1 + goal) * 0x85EBCA6B
    at = ((mixed ^ (mixed >> 29)) & 0x7FFFFFFFFFFFFFFF) % slots
    while known.entries[at].used:
        if known.entries[at].own == own and known.entries[at].goal == goal:
            return known.entries[at].line
        at = (at + 1) % slots
    if known.used[0] * 2 > slots:
        for i in range(slots):
            known.entries[i].used = 0
        known.used[0] = 0
    entry = known.entries[at]
    entry.own, entry.goal, entry.used = own, goal, 1
    known.used[0] += 1
    send_all(machine, entry.line)
    return entry.line


# -- messages --------------------------------------------------------------------------------------


@compiled
def send_all(machine: Machine, line: Any) -> None:
    """The line of an exchange, by its messages: see `Pricer`."""
    devices = machine.devices.size
    m = machine.fixed[0]
    cut(m, machine.explicit.size > 0 or devices <= states.SMALL)
    receivers = representatives(m)
    tiles = receivers.size
    for d in range(m.rank):
        tiles *= -(-m.dims[d].cuts // m.dims[d].parts)
    line.wait, line.rate, line.other_wait, line.other_rate = 0.0, 0.0, 0.0, 0.0
    if tiles > MOST_TILES and devices > states.SMALL:
        evenly(m, devices, line)
        return
    clear(machine, m)
    for receiver in receivers:
        receive(machine, m, receiver)
    line.moved = m.share * devices / receivers.size
    if m.number > SENDS_PER_DEVICE * receivers.size:
        at_once(machine, m, line)
    elif m.number:
        one_by_one(machine.links, line)


@compiled
def cut(m: Record, each: bool) -> None:
    """Put down the cuts of all dims, and which axes are idle: those along which both ends have
    copies, or the same outer cuts of a dim.

    On few devices, and with explicit links, `each` device receives for itself.
    """
    for d in range(m.rank):
        m.dims[d].cuts = m.dims[d].parts = 1
    m.copies, broken = 1, 0
    for a in range(m.num_axes):
        axis = m.axes[a]
        if axis.own < 0:
            m.copies *= axis.size
        axis.idle = axis.own == axis.goal and not each
        if axis.own >= 0:
            m.dims[axis.own].cuts *= axis.size
            if (broken >> axis.own) & 1:
                axis.idle = 0
        if axis.goal >= 0:
            m.dims[axis.goal].parts *= axis.size
        if axis.own != axis.goal:
            for d in (axis.own, axis.goal):
                if d >= 0:
                    broken |= 1 << d


@compiled
def representatives(m: Record) -> Ints:
    """The devices that are first along all idle axes: the others do the same at the same time."""
    number = 1
    for a in range(m.num_axes):
        axis = m.axes[a]
        if not axis.idle:
            number *= axis.size
    devices = np.zeros(number, np.int64)
    made = 1
    for a in range(m.num_axes):
        axis = m.axes[a]
        if not axis.idle:
            for i in range(made - 1, -1, -1):
                for digit in range(axis.size - 1, -1, -1):
                    devices[i * axis.size + digit] = devices[i] + digit * axis.stride
            made *= axis.size
    return devices


@compiled
def clear(machine: Machine, m: Record) -> None:
    """No messages yet; and for how many each one will stand."""
    for link in machine.links:
        link.waits = link.busy = link.load = 0.0
    for device in machine.devices:
        device.leaving = device.arriving = 0.0
        device.member = 0
    m.number = m.share = m.slowest = 0.0
    m.over_links = 1.0
    for number in range(m.num_levels):
        level = m.levels[number]
        level.times = level.repeats = 1.0
        for a in range(m.num_axes):
            axis = m.axes[a]
            if axis.idle and (axis.level > number or (level.shared and axis.level == number)):
                level.times *= axis.size
            if axis.idle and axis.level == number:
                level.repeats *= axis.size


@compiled
def receive(machine: Machine, m: Record, receiver: int) -> None:
    """Count the messages to one device: one for each tile that it needs and lacks."""
    for d in range(m.rank):
        m.dims[d].part = 0
    for a in range(m.num_axes):
        axis = m.axes[a]
        axis.digit = receiver // axis.stride % axis.size
        if axis.goal >= 0:
            dim = m.dims[axis.goal]
            dim.part = dim.part * axis.size + axis.digit
    for d in range(m.rank):
        dim = m.dims[d]
        dim.low = dim.part * dim.cuts // dim.parts
        dim.high = -(-(dim.part + 1) * dim.cuts // dim.parts)
        dim.tile = dim.low
    while True:
        sender = nearest_holder(m, receiver)
        if sender >= 0:
            send(machine, m, sender, receiver, overlap(m))
        d = m.rank - 1
        while d >= 0:
            m.dims[d].tile += 1
            if m.dims[d].tile < m.dims[d].high:
                break
            m.dims[d].tile = m.dims[d].low
            d -= 1
        if d < 0:
            return


@compiled
def overlap(m: Record) -> float:
    """The share of the tensor that the part and the tile looked at have in common."""
    share = 1.0
    for d in range(m.rank):
        dim = m.dims[d]
        begin = max(dim.part * dim.cuts, dim.tile * dim.parts)
        end = min((dim.part + 1) * dim.cuts, (dim.tile + 1) * dim.parts)
        share *= (end - begin) / (dim.cuts * dim.parts)
    return share


@compiled
def nearest_holder(m: Record, receiver: int) -> int:
    """The device that has the tile looked at and is nearest to one that needs it; -1 if that has it
    itself.

    The digits of its holders along the axes that cut are given by the tile, those along other axes
    are free: the receiver's own as long as they are nearest, or its turn where several are as near.
    """
    for d in range(m.rank):
        m.dims[d].rest = m.dims[d].tile
    base, differs = 0, m.num_levels
    for a in range(m.num_axes - 1, -1, -1):
        axis = m.axes[a]
        if axis.own >= 0:
            dim = m.dims[axis.own]
            digit = dim.rest % axis.size
            dim.rest //= axis.size
            base += digit * axis.stride
            if digit != axis.digit:
                differs = axis.level
    if differs == m.num_levels:
        return -1
    free, first = 1, 0
    for a in range(m.num_axes):
        axis = m.axes[a]
        if axis.own < 0:
            first *= axis.size
            if axis.level < differs:
                first += axis.digit
            else:
                free *= axis.size
    turn = receiver % m.copies
    chosen = turn if first <= turn < first + free else first
    sender = base
    for a in range(m.num_axes - 1, -1, -1):
        axis = m.axes[a]
        if axis.own < 0:
            if not axis.idle:
                sender += chosen % axis.size * axis.stride
            chosen //= axis.size
    return sender


@compiled
def send(machine: Machine, m: Record, sender: int, receiver: int, share: float) -> None:
    """Count one message, with those that it stands for, on the links of its route."""
    out, into, times = -1, -1, 1.0
    if machine.explicit.size > 0:
        out = machine.explicit[sender, receiver]
    if out >= 0:
        rate, wait = machine.links[out].bandwidth, machine.links[out].latency
        m.slowest = max(m.slowest, wait)
    else:
        m.over_links = 0.0
        depth = 0
        while sender // m.levels[depth].stride == receiver // m.levels[depth].stride:
            depth += 1
        level = m.levels[depth]
        rate, wait, times = level.bandwidth, level.latency, level.times
        if level.shared:
            out = level.offset + sender // (level.stride * level.members)
        else:
            out = level.offset + 2 * (sender // level.stride)
            into = level.offset + 2 * (receiver // level.stride) + 1
    m.number += 1
    m.share += share
    machine.devices[sender].member = machine.devices[receiver].member = 1
    machine.devices[sender].leaving += share / rate
    machine.devices[receiver].arriving += share / rate
    for number in (out, into):
        if number >= 0:
            link = machine.links[number]
            link.waits += times * wait
            link.busy += times * share / rate
            link.load += times * share


# -- lines -----------------------------------------------------------------------------------------


@compiled
def one_by_one(links: Records, line: Any) -> None:
    """Messages one after another: the lines of the links with most bytes and most waits."""
    longest, most = links[0], links[0]
    for link in links:
        if link.busy > longest.busy:
            longest = link
        if link.waits > most.waits:
            most = link
    line.wait, line.rate = longest.waits, longest.busy
    line.other_wait, line.other_rate = most.waits, most.busy


@compiled
def at_once(machine: Machine, m: Record, line: Any) -> None:
    """All messages at once: the busiest link or device, after the waits of all levels."""
    for link in machine.links:
        if link.load > 0:
            line.rate = max(line.rate, link.load / link.bandwidth)
    for device in machine.devices:
        line.rate = max(line.rate, device.leaving, device.arriving)
    before, product = 1, 1.0
    for depth in range(m.num_levels):
        level = m.levels[depth]
        distinct, last = 0, -1
        for device in range(machine.devices.size):
            if machine.devices[device].member and device // level.stride != last:
                distinct += 1
                last = device // level.stride
        span = level.repeats * -(-distinct // before)
        before = distinct
        product *= span
        line.wait += np.ceil(np.log2(span)) * level.latency
    if m.over_links:
        line.wait = np.ceil(np.log2(product)) * m.slowest


@compiled
def evenly(m: Record, devices: int, line: Any) -> None:
    """One exchange of which every member of a level gets as much as any other."""
    broken = 0
    whole, away, before = 1.0, 1.0, 1.0
    for a in range(m.num_axes):
        axis = m.axes[a]
        if axis.goal >= 0:
            whole *= axis.size
    for a in range(m.num_axes):
        axis = m.axes[a]
        if axis.own >= 0 and (axis.own != axis.goal or (broken >> axis.own) & 1):
            away *= axis.size
        if axis.own != axis.goal:
            for d in (axis.own, axis.goal):
                if d >= 0:
                    broken |= 1 << d
        if a + 1 == m.num_axes or m.axes[a + 1].level != axis.level:
            level = m.levels[axis.level]
            if away > before:
                came = (1 / before - 1 / away) / whole * level.stride
                line.rate = max(line.rate, came / level.port)
            line.wait += np.ceil(np.log2(level.members)) * level.latency
            before = away
    line.moved = devices * (1 - 1 / away) / whole
