"""What one pass over a model does, recorded call by call, and what of it stays on the device.

A pass is recorded once, with nothing kept from call to call. The record is a memory problem of one
order, for which `memory.transfers` chooses who leaves when:

    "least"      as few bytes are copied as can be: ROC's dynamic programme
    "recent"     what was used the longest time ago leaves
    "nothing"    every call's inputs are copied in, and what it makes is copied out

Numbers of storages: first those that the cache was lent, which last from pass to pass, then what
calls make, in the order in which they do. A pass that makes the same calls gives the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from graphwright.memory import (
    Transfers,
    keep_nothing,
    keep_recent,
    least_transfers,
)
from graphwright.plans import MemoryProblem, Operator, Storage

CACHING = {"least": least_transfers, "recent": keep_recent, "nothing": keep_nothing}
"""Ways to choose what stays, by name."""
PICOSECONDS = 10**12


@dataclass(frozen=True, slots=True)
class Call:
    """One operator: its name, the storages that it reads, changes and makes, and its time."""

    name: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    makes: tuple[int, ...]
    seconds: float = field(default=0.0, compare=False)


@dataclass(slots=True)
class Pass:
    """The calls of a pass, the sizes of its storages, and who leaves before each call."""

    calls: list[Call] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)
    lent: int = 0
    kept: frozenset[int] = frozenset()
    """What somebody holds when the pass is over."""
    beside: int = 0
    """The most bytes of tensors that are not managed."""
    chosen: Transfers | None = None
    last: dict[int, int] = field(default_factory=dict)
    """The last call that reads or makes a storage; none for what is there at the end."""

    def problem(self) -> MemoryProblem:
        """The pass as operators and storages; copies take as many units of time as bytes."""
        storages = [
            Storage(
                name=f"{'lent' if s < self.lent else 'made'} {s}", nbytes=self.sizes[s],
                out_time=self.sizes[s], in_time=self.sizes[s], begins_on_host=s < self.lent,
                ends="home" if s < self.lent else "kept" if s in self.kept else "free",
            )
            for s in range(len(self.sizes))
        ]  # fmt: skip
        operators = [
            Operator(
                name=call.name, reads=call.reads, makes=call.makes, writes=call.writes,
                duration=round(call.seconds * PICOSECONDS), repeats=False,
            )
            for call in self.calls
        ]  # fmt: skip
        return MemoryProblem(operators=tuple(operators), storages=tuple(storages))

    def choose(self, capacity: int, caching: str) -> None:
        """Choose what stays in so many bytes."""
        self.chosen = CACHING[caching](self.problem(), capacity)
        self.last = {s: i for i, c in enumerate(self.calls) for s in (*c.reads, *c.makes)}
        for s in (*self.kept, *self.chosen.residents):
            self.last.pop(s, None)
