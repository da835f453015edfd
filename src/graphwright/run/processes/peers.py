"""Who is at the other end of this process's connections within the machine (Linux).

    /proc/net/tcp    local 127.0.0.1:4711   remote 127.0.0.1:80   user 1000     ours
                     local 127.0.0.1:80     remote 127.0.0.1:4711 user 65534    a stranger's

Gloo takes whoever connects first for the rank that it waits for, so another user of the machine
could take part in a run. The system knows the user of every socket: `refuse_strangers` compares
them once ranks are connected and before anything is sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from graphwright.errors import InvalidWorld

_TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")
_ESTABLISHED = "01"


@dataclass(frozen=True, slots=True)
class _Connection:
    """One end of a connection, as the system writes it."""

    local: str
    remote: str
    user: int
    inode: str


def refuse_strangers() -> None:
    """Raise if a process of another user is connected to this one within the machine."""
    connections = [*_connections()]
    user_at = {(c.local, c.remote): c.user for c in connections}
    own = {*_own_inodes()}
    for connection in connections:
        user = user_at.get((connection.remote, connection.local))
        if connection.inode in own and user not in (None, os.getuid()):
            raise InvalidWorld(
                f"a process of user {user} has connected to this one in the place of a rank; "
                "nothing was sent to it. Start again, and ask who runs it"
            )


def _connections() -> Iterator[_Connection]:
    for table in _TABLES:
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                _, local, remote, state, _, _, _, user, _, inode, *_ = line.split()
                if state == _ESTABLISHED:
                    yield _Connection(local, remote, int(user), inode)


def _own_inodes() -> Iterator[str]:
    with suppress(OSError):
        for descriptor in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                target = os.readlink(f"/proc/self/fd/{descriptor}")
                if target.startswith("socket:["):
                    yield target.removeprefix("socket:[").removesuffix("]")
