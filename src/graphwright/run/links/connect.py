r"""Connect the processes of one machine to each other, so that they may read each other's memory (`neighbours`).

    all ranks       tell each other which machine they are on, their process numbers, and where they listen
    all ranks       if it is one machine: connect, see that the other one is the process that it says, and try to read a number from its memory
    all ranks       tell each other whether that went well; unless it did everywhere, messages go over Gloo's sockets

A socket has a name in Linux's abstract namespace, so that no file is left behind. Who has called is what the system says of it, and not what it says
itself: whoever is not among the announced processes is let go.
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

SWITCH = "GRAPHWRIGHT_NEIGHBOURS"
"""Set to 0, messages go over sockets between processes of one machine, too."""
PATIENCE = 20.0
"""Seconds to connect, at most."""

_CREDENTIALS = struct.Struct("3i")


def meet(groups: Sequence[tuple[int, ...]]) -> Neighbours | None:
    """The connections to all other ranks; None where they are not all on this machine, or memory of others cannot be read. On all ranks, with the same groups."""
    rank, size = dist.get_rank(), dist.get_world_size()
    machine = name_machine() if os.environ.get(SWITCH, "1") != "0" else None
    token = torch.tensor([secrets.randbits(62)])
    name = f"\0graphwright-{secrets.token_hex(16)}"
    found: dict[int, Neighbour] = {}
    went_well = True
    with ExitStack() as stack:
        listening = None
        try:
            if machine is not None:
                listening = stack.enter_context(_listen(name))
        except OSError:
            machine = None
        announced: list[Any] = [None] * size
        dist.all_gather_object(announced, (machine, os.getpid(), name))
        # A rank that waits for a message over Gloo does not do what neighbours ask for: it is all or none.
        all_near = all(other == machine for other, *_ in announced)
        try:
            if listening is not None and all_near:
                _connect(rank, announced, listening, found)
                for neighbour in found.values():
                    _try_to_read(neighbour, token)
        except (OSError, struct.error):
            went_well = False
    outcomes: list[Any] = [None] * size
    dist.all_gather_object(outcomes, went_well)  # the token is there until all have read it
    if not found or not all(outcomes):
        for neighbour in found.values():
            neighbour.socket.close()
        return None
    return Neighbours(rank, found, groups, _timeout())


def _listen(name: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(name)
    listening.listen()
    return listening


def _connect(
    rank: int,
    announced: Sequence[tuple[str, int, str]],
    listening: socket.socket,
    found: dict[int, Neighbour],
) -> None:
    """Call those with lower ranks, and be called by those with higher ones."""
    let_siblings_read()
    patience = min(PATIENCE, _timeout() / 3)  # the others wait for this rank meanwhile
    for other, (_, pid, name) in enumerate(announced[:rank]):
        calling = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        found[other] = Neighbour(pid=pid, socket=calling)
        calling.settimeout(patience)
        calling.connect(name)
        if _process_behind(calling) != pid:
            raise ConnectionError(f"another process than {pid} has answered")
    rank_of = {pid: other for other, (_, pid, _) in enumerate(announced) if other > rank}
    deadline = monotonic() + patience
    while len(found) < len(announced) - 1:
        listening.settimeout(max(deadline - monotonic(), 0.0))
        called, _ = listening.accept()
        caller = rank_of.pop(_process_behind(called) or 0, None)
        if caller is None:
            called.close()  # nobody of ours: it may have found the name in the system's list
            continue
        called.settimeout(patience)
        found[caller] = Neighbour(pid=announced[caller][1], socket=called)


def _process_behind(connected: socket.socket) -> int | None:
    """The process at the other end, as the system knows it; None if it is another user's."""
    given = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(given)
    return int(pid) if user == os.getuid() else None


def _try_to_read(neighbour: Neighbour, token: torch.Tensor) -> None:
    """Read the other's token, and compare it with what it says."""
    neighbour.socket.send(struct.pack("<2q", token.data_ptr(), int(token)))
    address, expected = struct.unpack("<2q", neighbour.socket.recv(16))
    seen = torch.empty_like(token)
    read_memory(neighbour.pid, address, seen)
    if int(seen) != expected:
        raise OSError(f"process {neighbour.pid} has another memory than it says")


def _timeout() -> float:
    """Seconds that the process group waits for others."""
    world: Any = dist.group.WORLD
    options = world._get_backend(torch.device("cpu")).options
    return float(options._timeout.total_seconds())
