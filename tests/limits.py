"""How long tests wait for what should come at once, and a clock that a test moves on itself.

A limit that only guards against hanging is HANG, so that no test depends on how busy the machine
is. A test of what happens when time runs out says itself when that is: `run_out`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

HANG = 600.0
"""Longer than anything takes, however busy the machine: who waits so long waits for ever."""


def run_out(monkeypatch, module: object, when: Callable[[], bool]) -> None:
    """From the moment when something holds, `module` finds any limit below 2 HANG exceeded."""
    up = False

    def monotonic() -> float:
        nonlocal up
        up = up or when()
        return time.monotonic() + (2 * HANG if up else 0.0)

    clock = SimpleNamespace(monotonic=monotonic, sleep=time.sleep)
    monkeypatch.setattr(module, "time", clock)


def mark(folder: str | Path) -> None:
    """Say that this process comes to its last call."""
    path = Path(folder, f"writing-{os.getpid()}")
    path.touch()
    path.rename(path.with_name(f"at-{os.getpid()}"))


def all_blocked(folder: Path, count: int, times: int = 5) -> Callable[[], bool]:
    """Whether so many processes have marked themselves, and have been asleep whenever asked since."""
    asleep = 0

    def check() -> bool:
        nonlocal asleep
        marked = [path.name.removeprefix("at-") for path in folder.glob("at-*")]
        states = [_state(pid) for pid in marked]
        asleep = asleep + 1 if len(marked) == count and set(states) == {"S"} else 0
        return asleep >= times

    return check


def _state(pid: str) -> str:
    """The state of a process's first thread: R for one that runs or would, S for one that waits."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
