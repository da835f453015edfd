"""Connect the processes of one machine, so that they may read each other's memory (`neighbours`).

    all ranks    tell each other their machine, process number, and where they listen
    all ranks    on one machine: connect, check who answers, read a number from its memory
    all ranks    tell each other whether that worked; unless it did everywhere, use Gloo's sockets

A socket has a name in Linux's abstract namespace, so that no file is left behind. The system says
who has connected; any process that was not announced is rejected.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
from collections.abc import Sequence
from contextlib import ExitStack
from time import monotonic
from typing import Any

import torch
import torch.distributed as dist

from graphwright.run.links.neighbours import Neighbour, Neighbours
from graphwright.run.links.process_memory import let_siblings_read, name_machine, read_memory
from graphwright.run.processes import gather_results

SWITCH = "GRAPHWRIGHT_NEIGHBOURS"
"""Set to 0, messages go over sockets between processes of one machine, too."""
CONNECT_SECONDS = 20.0
"""Time to connect, at most."""

_CREDENTIALS = struct.Struct("3i")


def connect_neighbours(groups: Sequence[tuple[int, ...]]) -> Neighbours | None:
    """Connect to all other ranks; all call this with the same groups.

    None unless all are on this machine and can read each other's memory.
    """
    rank = dist.get_rank()
    machine = name_machine() if os.environ.get(SWITCH, "1") != "0" else None
    token = torch.tensor([secrets.randbits(62)])
    name = f"\0graphwright-{secrets.token_hex(16)}"
    others: dict[int, Neighbour] = {}
    worked = True
    with ExitStack() as stack:
        listening = None
        try:
            if machine is not None:
                listening = stack.enter_context(_listen(name))
        except OSError:
            machine = None
        announced = gather_results(lambda: (machine, os.getpid(), name))
        # All or none: a rank that waits for a message over Gloo does not serve its neighbours.
        all_near = all(other == machine for other, *_ in announced)
        try:
            if listening is not None and all_near:
                _connect(rank, announced, listening, others)
                for neighbour in others.values():
                    _try_to_read(neighbour, token)
        except (OSError, struct.error):
            worked = False
    worked_everywhere = all(gather_results(lambda: worked))  # until then the token has to stay
    if not others or not worked_everywhere:
        for neighbour in others.values():
            neighbour.socket.close()
        return None
    return Neighbours(rank, others, groups, _timeout())


def _listen(name: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(name)
    listening.listen()
    return listening


def _connect(
    rank: int,
    announced: Sequence[tuple[str | None, int, str]],
    listening: socket.socket,
    others: dict[int, Neighbour],
) -> None:
    """Connect to lower ranks, and accept the connections of higher ones."""
    let_siblings_read()
    timeout = min(CONNECT_SECONDS, _timeout() / 3)  # the others wait for this rank meanwhile
    for other, (_, pid, name) in enumerate(announced[:rank]):
        calling = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        others[other] = Neighbour(pid=pid, socket=calling)
        calling.settimeout(timeout)
        calling.connect(name)
        if _process_behind(calling) != pid:
            raise ConnectionError(f"another process than {pid} has answered")
    rank_of = {pid: other for other, (_, pid, _) in enumerate(announced) if other > rank}
    deadline = monotonic() + timeout
    while len(others) < len(announced) - 1:
        listening.settimeout(max(deadline - monotonic(), 0.0))
        called, _ = listening.accept()
        caller = rank_of.pop(_process_behind(called) or 0, None)
        if caller is None:
            called.close()  # a stranger: the system lists the names of sockets
            continue
        called.settimeout(timeout)
        others[caller] = Neighbour(pid=announced[caller][1], socket=called)


def _process_behind(connected: socket.socket) -> int | None:
    """The process at the other end, as the system knows it; None if it is another user's."""
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(credentials)
    return int(pid) if user == os.getuid() else None


def _try_to_read(neighbour: Neighbour, token: torch.Tensor) -> None:
    """Read the other's token from its memory, and compare it with what it says."""
    neighbour.socket.send(struct.pack("<2q", token.data_ptr(), int(token)))
    address, expected = struct.unpack("<2q", neighbour.socket.recv(16))
    seen = torch.empty_like(token)
    read_memory(neighbour.pid, address, seen)
    if int(seen) != expected:
        raise OSError(f"process {neighbour.pid} holds another number than it says")


def _timeout() -> float:
    """Seconds that the process group waits for others."""
    world: Any = dist.group.WORLD
    options = world._get_backend(torch.device("cpu")).options
    return float(options._timeout.total_seconds())
