"""Messages between processes of one machine, without a copy on the way and without threads.

    sender                       receiver
    offer(tag, address) ------>  is it expected? read it from there to where it belongs
    its memory is free  <------  taken                                     (`process_memory`)

Small messages travel within the offer. Whoever waits for one thing does meanwhile whatever else
others offer, so that the order in which ranks wait does not matter. Messages of one tag between two
ranks arrive in the order in which they were sent. `connect` makes the connections.
"""

from __future__ import annotations

import ctypes
import select
import socket
import struct
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import TypeAlias, TypeVar

import torch

from graphwright.machine import num_cores
from graphwright.run.links.process_memory import read_memory
from graphwright.run.processes import notices

SMALL = 8192
"""Bytes up to which a message travels within its offer."""
CHUNK = 1 << 18
"""Bytes that are read at once where they are added to something."""
SPIN = 3e-4
"""Seconds for which a rank with a core of its own polls before it sleeps: waking takes as long."""

MAX_SLEEP = 30.0
"""Seconds that a rank sleeps at once."""

_HEADER = struct.Struct("<5q")
_OFFER, _SMALL, _TAKEN = range(3)

Combine = Callable[[torch.Tensor, torch.Tensor], None]
"""Put a term, the second argument, onto the first."""

T = TypeVar("T")
_Key: TypeAlias = tuple[int, int]
"""A rank and a tag."""
_Arrived: TypeAlias = tuple[int, int, int, bytes]
"""The number of an offer (0: small), its address and bytes, and what a small message holds."""


@dataclass(slots=True, kw_only=True)
class Neighbour:
    """Another process: its number, the socket to it, and packets that wait for room in that.

    With a packet goes the message that is done once the packet is sent, if there is one.
    """

    pid: int
    socket: socket.socket
    unsent: deque[tuple[bytes, Message | None]] = field(default_factory=deque)
    is_gone: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class Task:
    """Something that other ranks have a part in."""

    near: Neighbours
    done: bool = False

    @property
    def ranks(self) -> Sequence[int]:
        """Those that it still waits for."""
        raise NotImplementedError

    def advance(self) -> None:
        """Do what the messages that have arrived allow."""

    def wait(self) -> None:
        """Return once it is done."""
        self.near.wait_for(self)


@dataclass(slots=True, eq=False, kw_only=True)
class Message(Task):
    """One parcel, sent from or received in its memory; `combine` adds it to what is there."""

    rank: int
    parcel: torch.Tensor | None
    combine: Combine | None = None

    @property
    def ranks(self) -> Sequence[int]:
        return (self.rank,)

    def end(self) -> None:
        """It is done: let its memory go."""
        self.parcel, self.done = None, True


class Neighbours:
    """This process's connections to all others on its machine; used by one thread.

    `groups` are all that reduce anything, alike in every process.
    """

    def __init__(
        self,
        rank: int,
        others: Mapping[int, Neighbour],
        groups: Sequence[tuple[int, ...]],
        timeout: float,
    ) -> None:
        self.rank, self.others, self.timeout = rank, dict(others), timeout
        self.groups, self.num_tagged = tuple(groups), Counter[tuple[int, ...]]()
        self.ready = select.poll()
        self.rank_of: dict[int, int] = {}
        for other, neighbour in self.others.items():
            neighbour.socket.setblocking(False)
            self.rank_of[neighbour.socket.fileno()] = other
            self.ready.register(neighbour.socket, select.POLLIN)
        self.buffer = bytearray(_HEADER.size + SMALL)
        self.expected: dict[_Key, deque[Message]] = {}
        self.arrived: dict[_Key, deque[_Arrived]] = {}
        self.offered: dict[int, Message] = {}
        self.num_offers = 0
        self.running: list[Task] = []
        self.may_spin = len(self.others) < num_cores()
        self.scratch = torch.empty(CHUNK, dtype=torch.uint8)

    def close(self) -> None:
        """Leave; nothing may be under way."""
        for neighbour in self.others.values():
            neighbour.socket.close()
        self.others.clear()

    def post(
        self, tag: int, sends: Mapping[int, torch.Tensor], receives: Mapping[int, torch.Tensor]
    ) -> list[Message]:
        """Begin to send and receive dense parcels by rank; look at what has arrived."""
        messages = self.begin(tag, sends, receives)
        self._poll(0.0)
        return messages

    def begin(
        self,
        tag: int,
        sends: Mapping[int, torch.Tensor],
        receives: Mapping[int, torch.Tensor],
        combine: Combine | None = None,
    ) -> list[Message]:
        """Begin to send and receive; `combine` adds what arrives to what is there."""
        messages = [self._receive(tag, rank, parcel, combine) for rank, parcel in receives.items()]
        return messages + [self._send(tag, rank, parcel) for rank, parcel in sends.items()]

    def run(self, task: Task) -> None:
        """Advance something now and whenever messages arrive, until it is done."""
        self.running.append(task)
        self._poll(0.0)

    def next_tags(self, group: tuple[int, ...]) -> tuple[int, int]:
        """Two tags for what a group does next, the same on all its ranks; never those of `post`."""
        number = self.groups.index(group) + len(self.groups) * self.num_tagged[group]
        self.num_tagged[group] += 1
        return -2 * number - 2, -2 * number - 1

    def wait_for(self, task: Task) -> None:
        """Return once something is done; do what others offer meanwhile."""
        began = monotonic()
        deadline, sleepy = began + self.timeout, began + (SPIN if self.may_spin else 0.0)
        notice = began + notices.NOTICE_SECONDS
        while not task.done:
            for rank in task.ranks:
                if self.others[rank].is_gone:
                    raise _lost(rank)
            now = monotonic()
            if now >= notice:
                notices.print_waiting(self.rank, task.ranks, notices.find_user_line())
                notice = inf
            left = deadline - now
            if left <= 0:
                raise RuntimeError(
                    f"timed out after {self.timeout:.0f} s: rank {self.rank} waits for ranks "
                    f"{list(task.ranks)}"
                )
            self._poll(0.0 if now < sleepy else min(left, notice - now, MAX_SLEEP))

    # -- messages ---------------------------------------------------------------------------------

    def _send(self, tag: int, rank: int, parcel: torch.Tensor) -> Message:
        assert parcel.is_contiguous()
        message, nbytes = Message(near=self, rank=rank, parcel=parcel), parcel.nbytes
        if nbytes <= SMALL:
            content = ctypes.string_at(parcel.data_ptr(), nbytes)
            self._write(rank, _HEADER.pack(_SMALL, tag, 0, 0, nbytes) + content, message)
        else:
            self.num_offers += 1
            self.offered[self.num_offers] = message
            self._write(rank, _HEADER.pack(_OFFER, tag, self.num_offers, parcel.data_ptr(), nbytes))
        return message

    def _receive(
        self, tag: int, rank: int, parcel: torch.Tensor, combine: Combine | None
    ) -> Message:
        message = Message(near=self, rank=rank, parcel=parcel, combine=combine)
        arrived = _pop_first(self.arrived, (rank, tag))
        if arrived is not None:
            self._take(message, *arrived)
        else:
            self.expected.setdefault((rank, tag), deque()).append(message)
        return message

    def _take(
        self, message: Message, number: int, address: int, nbytes: int, content: bytes
    ) -> None:
        parcel, rank = message.parcel, message.rank
        assert parcel is not None and parcel.is_contiguous()
        if parcel.nbytes != nbytes:
            raise RuntimeError(
                f"rank {rank} sent {nbytes:,} bytes, and {parcel.nbytes:,} were expected"
            )
        if number:
            try:
                self._read(self.others[rank].pid, address, parcel, message.combine)
            except ProcessLookupError as error:
                raise _lost(rank) from error
            self._write(rank, _HEADER.pack(_TAKEN, 0, number, 0, 0), message)
            return
        if message.combine is None:
            ctypes.memmove(parcel.data_ptr(), content, nbytes)
        elif nbytes:
            term = torch.frombuffer(bytearray(content), dtype=parcel.dtype)
            message.combine(parcel, term.view(parcel.shape))
        message.end()

    def _read(self, pid: int, address: int, parcel: torch.Tensor, combine: Combine | None) -> None:
        if combine is None:
            read_memory(pid, address, parcel)
            return
        scratch = self.scratch.view(parcel.dtype)
        for piece in torch.split(parcel.view(-1), len(scratch)):
            term = scratch[: len(piece)]
            read_memory(pid, address, term)
            combine(piece, term)
            address += piece.nbytes

    # -- sockets ----------------------------------------------------------------------------------

    def _poll(self, seconds: float) -> None:
        """Wait up to so many seconds for what others ask for; do it, and what follows from it."""
        for descriptor, events in self.ready.poll(seconds * 1000):
            rank = self.rank_of[descriptor]
            if events & select.POLLOUT:
                self._flush(rank)
            if events & ~select.POLLOUT:
                self._read_packets(rank)
        for task in list(self.running):
            task.advance()
            if task.done:
                self.running.remove(task)

    def _read_packets(self, rank: int) -> None:
        neighbour = self.others[rank]
        while True:
            try:
                count = neighbour.socket.recv_into(self.buffer)
            except BlockingIOError:
                return
            except ConnectionResetError:  # raised once, before what was sent is read
                continue
            if count == 0:
                neighbour.is_gone = True
                self.ready.unregister(neighbour.socket)
                return
            kind, tag, number, address, nbytes = _HEADER.unpack_from(self.buffer)
            if kind == _TAKEN:
                self.offered.pop(number).end()
                continue
            content = bytes(self.buffer[_HEADER.size : count])
            arrived = (number, address, nbytes, content)
            expected = _pop_first(self.expected, (rank, tag))
            if expected is not None:
                self._take(expected, *arrived)
            else:
                self.arrived.setdefault((rank, tag), deque()).append(arrived)

    def _write(self, rank: int, packet: bytes, ends: Message | None = None) -> None:
        """Send a packet, now or once there is room: a message that ends sooner might be lost."""
        neighbour = self.others[rank]
        neighbour.unsent.append((packet, ends))
        if len(neighbour.unsent) == 1:
            self._flush(rank)

    def _flush(self, rank: int) -> None:
        neighbour = self.others[rank]
        try:
            while neighbour.unsent:
                packet, ends = neighbour.unsent[0]
                neighbour.socket.send(packet)
                neighbour.unsent.popleft()
                if ends is not None:
                    ends.end()
            events = select.POLLIN
        except BlockingIOError:
            events = select.POLLIN | select.POLLOUT
        except ConnectionError:  # whoever waits for this rank notices
            neighbour.unsent.clear()
            return
        if not neighbour.is_gone:
            self.ready.modify(neighbour.socket, events)


def _pop_first(queues: dict[_Key, deque[T]], key: _Key) -> T | None:
    """Take the first of a queue, and an empty queue away."""
    queue = queues.get(key)
    if queue is None:
        return None
    first = queue.popleft()
    if not queue:
        del queues[key]
    return first


def _lost(rank: int) -> RuntimeError:
    return RuntimeError(
        f"connection closed by peer: rank {rank} is gone, and this one waited for it. If rank "
        f"{rank} has returned without an error, the ranks have made different numbers of steps"
    )
