"""Tell of each epoch as soon as it is made: rank 0 writes a line of a file, its parent reads it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from graphwright.gnn.distributed.training.worker import Epoch

POLL_SECONDS = 0.1


def write_epoch(log: Path, epoch: Epoch) -> None:
    """Write an epoch as a line."""
    with log.open("a") as file:
        file.write(json.dumps(asdict(epoch)) + "\n")


@contextmanager
def follow(log: Path, tell: Callable[[Epoch], None] | None) -> Iterator[None]:
    """Within this context, call `tell` for every line that is written to a file."""
    if tell is None:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_read, args=(log, tell, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _read(log: Path, tell: Callable[[Epoch], None], ended: threading.Event) -> None:
    place, is_last = 0, False
    while not is_last:
        is_last = ended.wait(POLL_SECONDS)
        if not log.exists():
            continue
        with log.open("rb") as file:
            file.seek(place)
            text = file.read()
        whole = text.rpartition(b"\n")[0]
        place += len(whole) + bool(whole)
        for line in whole.splitlines():
            tell(Epoch.from_dict(json.loads(line)))
