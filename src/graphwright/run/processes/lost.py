"""Ranks that are gone: notice it soon, and say so.

    a process ends       its system closes its connections, and Gloo raises at once
    a host or cable is   nobody closes anything; the system asks quiet connections for a sign of
    gone                 life, and gives up data that nobody acknowledges (Linux)

Without the second, a rank waits for a silent host until the time limit of its collective, half an
hour in `graphwright run`. A rank that merely computes for long is not mistaken for a lost one: its
system answers for it.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from graphwright.errors import GraphwrightError, InvalidWorld

LOST_SECONDS = 30.0
"""How long another host may be silent."""
VARIABLE = "GRAPHWRIGHT_LOST_SECONDS"
"""Sets another time; 0 leaves connections as they are."""

_PROBES = 3
_PAIR = re.compile(r"gloo/transport/\w+/pair\.cc.*?\] (?P<what>.*)", re.DOTALL)
_ADDRESS = re.compile(r"\[(?P<address>[0-9a-f.:]+)\]:\d+")


class RankLost(GraphwrightError, RuntimeError):
    """The connection to another rank broke: its process ended, or its host or network is down.

    `address` is that of the lost host, where it is known. The step that was under way is lost on
    all ranks. Look at the output of the other hosts first; then start again, on all of them or on
    those that are left, from the newest checkpoint (``--resume``, ``step.load``).
    """

    def __init__(self, message: str, *, address: str = "") -> None:
        super().__init__(message)
        self.address = address


def lost_seconds() -> float:
    """How long another host may be silent, by the environment."""
    text = os.environ.get(VARIABLE, "")
    try:
        seconds = float(text) if text else LOST_SECONDS
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise InvalidWorld(f"{VARIABLE}={text!r} is not a number of seconds from 0 to 86400")
    return seconds


@contextmanager
def watching_connections() -> Iterator[None]:
    """Have the system watch the connections that are made in the block."""
    seconds, before = lost_seconds(), dict(_sockets())
    yield
    if seconds == 0 or not hasattr(socket, "TCP_USER_TIMEOUT"):
        return
    quiet = max(1, round(seconds / (_PROBES + 1)))
    options = {
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE): 1,
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE): quiet,
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL): quiet,
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT): _PROBES,
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT): round(seconds * 1e3),
    }
    for inode, descriptor in _sockets():
        if inode not in before:
            with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
                if connection.family in (socket.AF_INET, socket.AF_INET6):
                    for (level, option), value in options.items():
                        connection.setsockopt(level, option, value)


@contextmanager
def naming_lost_ranks(rank: int, during: str) -> Iterator[None]:
    """Raise RankLost in place of Gloo's own error if a connection broke."""
    try:
        yield
    except RuntimeError as error:
        found = None if isinstance(error, GraphwrightError) else _PAIR.search(str(error))
        if found is None:
            raise
        address = _ADDRESS.search(found["what"])
        other = "another rank" if address is None else f"the ranks at {address['address']}"
        what = found["what"].partition(". ")[0].splitlines()[0].strip()
        raise RankLost(
            f"rank {rank} has lost the connection to {other} {during} ({what}): a process there "
            "ended, or the host or the network is down. Read the output of the other hosts, and go "
            "on from the newest checkpoint, on all hosts or on those that are left (--resume, "
            "step.load)",
            address="" if address is None else address["address"],
        ) from error


def _sockets() -> Iterator[tuple[str, int]]:
    """The sockets of this process, by what the system calls them."""
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                target = os.readlink(f"/proc/self/fd/{name}")
                if target.startswith("socket:["):
                    yield target, int(name)
