r"""Messages between processes of one machine, without a copy on the way and without threads.

    sender                       receiver
    offer(tag, address) ------>  is it expected? read it from there to where it belongs (`other_memory`)
    its memory is free  <------  taken

Small messages travel within the offer. A reduction cuts a value into one part for each rank of its group; each adds up the terms of its own
part, chunk by chunk as it reads them, and then reads the other parts' totals from their owners:

    rank 0   [ a0 | b0 ]      reads a1, a0 += a1      reads b        [ a | b ]
    rank 1   [ a1 | b1 ]      reads b0, b1 += b0      reads a        [ a | b ]

Whoever waits for one thing does meanwhile whatever else others offer, so that the order in which ranks wait does not matter.
Messages of one tag between two ranks arrive in the order in which they were sent.
"""

from __future__ import annotations

import ctypes
import select
import socket
import struct
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import Protocol, TypeAlias, TypeVar

import torch

from graphwright.machine import num_cores
from graphwright.run.links.process_memory import read_memory
from graphwright.run.processes import NOTICE, tell, where

SMALL = 8192
"""Bytes up to which a message travels within its offer."""
CHUNK = 1 << 18
"""Bytes that are read at once where they are added to something."""

SPIN = 3e-4
"""Seconds for which a rank with a core of its own looks for what it waits for, before it sleeps: to wake up takes as long as a small message."""

_HEADER = struct.Struct("<5q")
_OFFER, _SMALL, _TAKEN = range(3)

Combine = Callable[[torch.Tensor, torch.Tensor], None]
"""Put a term, the second argument, onto the first."""


T = TypeVar("T")
_Key: TypeAlias = tuple[int, int]
"""A rank and a tag."""
_Arrived: TypeAlias = tuple[int, int, int, bytes]
"""The number of an offer, 0 for a small message; address, bytes, and what a small message holds."""


@dataclass(slots=True, kw_only=True)
class Neighbour:
    """Another process: its number, the socket to it, and what that has no room for yet, with the message that ends when it has gone."""

    pid: int
    socket: socket.socket
    unsent: deque[tuple[bytes, _Message | None]] = field(default_factory=deque)
    is_gone: bool = False


class _Task(Protocol):
    """Something that others have a part in."""

    @property
    def done(self) -> bool: ...
    @property
    def ranks(self) -> Sequence[int]:
        """Those that it still waits for."""
        ...


@dataclass(slots=True, eq=False)
class _Message:
    """One parcel: sent from, or received in, its memory; onto what is there if it is to be combined."""

    among: Neighbours
    rank: int
    parcel: torch.Tensor | None
    combine: Combine | None = None
    done: bool = False

    @property
    def ranks(self) -> Sequence[int]:
        return (self.rank,)

    def wait(self) -> None:
        self.among.wait_for(self)

    def end(self) -> None:
        self.parcel, self.done = None, True


@dataclass(slots=True, eq=False)
class _Reduction:
    """A reduction: its steps, and the messages that the next one waits for."""

    among: Neighbours
    steps: Iterator[Sequence[_Message]]
    awaited: Sequence[_Message] = ()
    done: bool = False

    @property
    def ranks(self) -> Sequence[int]:
        return [message.rank for message in self.awaited if not message.done]

    def wait(self) -> None:
        self.among.wait_for(self)

    def advance(self) -> None:
        while all(message.done for message in self.awaited):
            following = next(self.steps, None)
            if following is None:
                self.done = True
                return
            self.awaited = following


class Neighbours:
    """This process's connections to the others on its machine; `groups` are all that reduce anything, alike in every process. Used by one thread."""

    def __init__(
        self,
        rank: int,
        others: Mapping[int, Neighbour],
        groups: Sequence[tuple[int, ...]],
        timeout: float,
    ) -> None:
        self.rank, self.others, self.timeout = rank, dict(others), timeout
        self.groups, self.num_reduced = tuple(groups), Counter[tuple[int, ...]]()
        self.ready = select.poll()
        self.rank_of: dict[int, int] = {}
        for other, neighbour in self.others.items():
            neighbour.socket.setblocking(False)
            self.rank_of[neighbour.socket.fileno()] = other
            self.ready.register(neighbour.socket, select.POLLIN)
        self.buffer = bytearray(_HEADER.size + SMALL)
        self.expected: dict[_Key, deque[_Message]] = {}
        self.arrived: dict[_Key, deque[_Arrived]] = {}
        self.offered: dict[int, _Message] = {}
        self.num_offers = 0
        self.running: list[_Reduction] = []
        self.may_spin = len(self.others) < num_cores()
        self.scratch = torch.empty(CHUNK, dtype=torch.uint8)

    def close(self) -> None:
        """Leave; nothing may be under way."""
        for neighbour in self.others.values():
            neighbour.socket.close()
        self.others.clear()

    def post(
        self, tag: int, sends: Mapping[int, torch.Tensor], receives: Mapping[int, torch.Tensor]
    ) -> list[_Message]:
        """Begin to send parcels, each one piece of memory, and to receive others."""
        messages = self._post(tag, sends, receives)
        self._look(0.0)
        return messages

    def reduce(self, group: tuple[int, ...], value: torch.Tensor, combine: Combine) -> _Reduction:
        """Begin to reduce a value, one piece of memory, over a group, in place; on all its ranks, and in the same order."""
        number = self.groups.index(group) + len(self.groups) * self.num_reduced[group]
        self.num_reduced[group] += 1
        tag = -2 * number - 2  # other tags are not negative
        begun = _Reduction(self, self._reduce(tag, group, value.view(-1), combine))
        self.running.append(begun)
        self._look(0.0)
        return begun

    def wait_for(self, task: _Task) -> None:
        """Return once something is done; do what others offer meanwhile."""
        begun = monotonic()
        deadline, patient = begun + self.timeout, begun + (SPIN if self.may_spin else 0.0)
        notice = begun + NOTICE
        while not task.done:
            for rank in task.ranks:
                if self.others[rank].is_gone:
                    raise _lost(rank)
            now = monotonic()
            if now >= notice:
                tell(self.rank, task.ranks, where())
                notice = inf
            left = deadline - now
            if left <= 0:
                raise RuntimeError(f"timed out after {self.timeout:.0f} s: rank {self.rank} waits for ranks {list(task.ranks)}")  # fmt: skip
            self._look(0.0 if now < patient else min(left, notice - now, NOTICE))

    # -- messages ---------------------------------------------------------------------------------

    def _post(
        self, tag: int, sends: Mapping[int, torch.Tensor], receives: Mapping[int, torch.Tensor]
    ) -> list[_Message]:
        messages = [self._receive(tag, rank, parcel) for rank, parcel in receives.items()]
        return messages + [self._send(tag, rank, parcel) for rank, parcel in sends.items()]

    def _send(self, tag: int, rank: int, parcel: torch.Tensor) -> _Message:
        assert parcel.is_contiguous()
        message, nbytes = _Message(self, rank, parcel), parcel.nbytes
        if nbytes <= SMALL:
            content = ctypes.string_at(parcel.data_ptr(), nbytes)
            self._write(rank, _HEADER.pack(_SMALL, tag, 0, 0, nbytes) + content, message)
        else:
            self.num_offers += 1
            self.offered[self.num_offers] = message
            self._write(rank, _HEADER.pack(_OFFER, tag, self.num_offers, parcel.data_ptr(), nbytes))
        return message

    def _receive(
        self, tag: int, rank: int, parcel: torch.Tensor, combine: Combine | None = None
    ) -> _Message:
        message = _Message(self, rank, parcel, combine)
        arrived = _first(self.arrived, (rank, tag))
        if arrived is not None:
            self._take(message, *arrived)
        else:
            self.expected.setdefault((rank, tag), deque()).append(message)
        return message

    def _take(
        self, message: _Message, number: int, address: int, nbytes: int, content: bytes
    ) -> None:
        parcel, rank = message.parcel, message.rank
        assert parcel is not None and parcel.is_contiguous()
        if parcel.nbytes != nbytes:
            raise RuntimeError(f"rank {rank} sent {nbytes:,} bytes, and {parcel.nbytes:,} were expected")  # fmt: skip
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

    def _reduce(
        self, tag: int, group: tuple[int, ...], value: torch.Tensor, combine: Combine
    ) -> Iterator[Sequence[_Message]]:
        others = [rank for rank in group if rank != self.rank]
        if value.nbytes <= SMALL:  # everyone adds up everything, in the same order
            terms = {rank: torch.empty_like(value) for rank in others}
            yield self._post(tag, dict.fromkeys(others, value), terms)
            terms[self.rank] = value.clone()
            value.copy_(terms[group[0]])
            for rank in group[1:]:
                combine(value, terms[rank])
            return
        ends = [len(value) * n // len(group) for n in range(len(group) + 1)]
        parts = {r: value[ends[n] : ends[n + 1]] for n, r in enumerate(group)}
        own = parts[self.rank]
        sent = [self._send(tag, rank, parts[rank]) for rank in others]
        for rank in others:  # one after the other: the order of additions is always the same
            yield [self._receive(tag, rank, own, combine)]
        yield sent
        yield self._post(tag + 1, dict.fromkeys(others, own), {r: parts[r] for r in others})

    # -- sockets ----------------------------------------------------------------------------------

    def _look(self, seconds: float) -> None:
        """Do what others have asked for, and what follows; wait for it up to so many seconds."""
        for descriptor, events in self.ready.poll(seconds * 1000):
            rank = self.rank_of[descriptor]
            if events & select.POLLOUT:
                self._flush(rank)
            if events & ~select.POLLOUT:
                self._hear(rank)
        for reduction in list(self.running):
            reduction.advance()
            if reduction.done:
                self.running.remove(reduction)

    def _hear(self, rank: int) -> None:
        neighbour = self.others[rank]
        while True:
            try:
                count = neighbour.socket.recv_into(self.buffer)
            except BlockingIOError:
                return
            except ConnectionResetError:  # told once, before what was sent is read
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
            expected = _first(self.expected, (rank, tag))
            arrived = (number, address, nbytes, content)
            if expected is not None:
                self._take(expected, *arrived)
            else:
                self.arrived.setdefault((rank, tag), deque()).append(arrived)

    def _write(self, rank: int, what: bytes, ends: _Message | None = None) -> None:
        """Send something, now or once there is room: a rank that counted it as sent before might leave with it."""
        neighbour = self.others[rank]
        neighbour.unsent.append((what, ends))
        if len(neighbour.unsent) == 1:
            self._flush(rank)

    def _flush(self, rank: int) -> None:
        neighbour = self.others[rank]
        try:
            while neighbour.unsent:
                what, ends = neighbour.unsent[0]
                neighbour.socket.send(what)
                neighbour.unsent.popleft()
                if ends is not None:
                    ends.end()
            events = select.POLLIN
        except BlockingIOError:
            events = select.POLLIN | select.POLLOUT
        except ConnectionError:  # whoever waits for this rank is told
            neighbour.unsent.clear()
            return
        if not neighbour.is_gone:
            self.ready.modify(neighbour.socket, events)


def _first(queues: dict[_Key, deque[T]], key: _Key) -> T | None:
    """Take the first of a queue; one that is empty goes."""
    queue = queues.get(key)
    if queue is None:
        return None
    found = queue.popleft()
    if not queue:
        del queues[key]
    return found


def _lost(rank: int) -> RuntimeError:
    return RuntimeError(
        f"connection closed by peer: rank {rank} is gone, and this one waited for it. If that has returned and not failed, the ranks have made different numbers of steps"
    )
