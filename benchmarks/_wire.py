"""Pass the packets of two network namespaces on, each when a wire of some rate and latency would have delivered it.

    python _wire.py NAMESPACE NAMESPACE DEVICE BITS_PER_SECOND SECONDS

    read     at `now`      it leaves at  free = max(now, free) + size / rate     one packet after the other
    write    at `due`      it arrives at due  = free + latency

Each namespace gets a tunnel (TUN) of that name; its packets are as large as they may be, so that there are few of them.
Prints "ready" when the tunnels are there, and ends when it is killed.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import socket
import struct
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from time import perf_counter

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SIOCSIFMTU, CLONE_NEWNET, PR_SET_TIMERSLACK = 0x8922, 0x40000000, 29
MTU = 65000


def open_tunnel(namespace: str, device: str) -> int:
    """The file of a new tunnel in a namespace."""
    library = ctypes.CDLL(None, use_errno=True)
    with Path("/var/run/netns", namespace).open() as file:
        if library.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), namespace)
    tunnel = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    name = device.encode()
    fcntl.ioctl(tunnel, TUNSETIFF, struct.pack("16sH22x", name, IFF_TUN | IFF_NO_PI))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFMTU, struct.pack("16si20x", name, MTU))
    return tunnel


def relay(ends: tuple[int, int], rate: float, latency: float) -> None:
    """Pass packets on, forever."""
    waiting: tuple[deque[tuple[float, bytes]], ...] = (deque(), deque())
    free = [0.0, 0.0]
    while True:
        due = min((queue[0][0] for queue in waiting if queue), default=None)
        pause = None if due is None else max(0.0, due - perf_counter())
        for file in select.select(ends, (), (), pause)[0]:
            source = ends.index(file)
            while True:
                try:
                    packet = os.read(file, MTU + 4)
                except BlockingIOError:
                    break
                free[source] = max(perf_counter(), free[source]) + len(packet) * 8 / rate
                waiting[source].append((free[source] + latency, packet))
        now = perf_counter()
        for source, queue in enumerate(waiting):
            while queue and queue[0][0] <= now:
                with suppress(OSError):  # lost: that end is down
                    os.write(ends[1 - source], queue.popleft()[1])


def main() -> None:
    one, other, device, rate, latency = sys.argv[1:]
    ends = (open_tunnel(one, device), open_tunnel(other, device))
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)
    print("ready", flush=True)
    relay(ends, float(rate), float(latency))


if __name__ == "__main__":
    main()
