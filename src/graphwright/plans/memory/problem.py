"""What a memory plan is made for: operators, the storages that they read and make, and their times.

    Operator    reads and makes storages; writes some of those that it reads in place
    Storage     a piece of memory: a tensor and all views of it

    begins on the host       parameters, optimizer state, data: clean until an operator writes them
    ends    "free"           nobody needs it after its last reader
            "kept"           the last value is needed, on the device or on the host
            "home"           it is where the next iteration begins with it: on the host, or resident

Times are in picoseconds, as in task graphs. Operators are listed in program order, which is one of
the possible orders; `before` has pairs of operators whose order is fixed without data passing
between them: who reads a parameter comes before who writes it, and random operators keep theirs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Ends = Literal["free", "kept", "home"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A piece of memory, and how long a copy of it to and from the host takes."""

    name: str
    nbytes: int
    out_time: int
    in_time: int
    begins_on_host: bool = False
    ends: Ends = "free"

    @property
    def is_data(self) -> bool:
        """Whether it is given to every iteration anew: the batch, learning rates."""
        return self.begins_on_host and self.ends != "home"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What runs, by the numbers of the storages that it works on.

    `writes` are those of `reads` that it changes in place. What it makes first may take the place
    of `over`, one of its reads, where nobody needs that any more. If it `repeats`, it gives the
    same values again from the same reads. It `updates` if it is part of an optimizer's step: it may
    then run as soon as its gradient is there.
    """

    name: str
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    duration: int
    writes: tuple[int, ...] = ()
    over: int | None = None
    repeats: bool = True
    updates: bool = False


@dataclass(frozen=True, kw_only=True)
class MemoryProblem:
    """Operators and storages of one iteration."""

    operators: tuple[Operator, ...]
    storages: tuple[Storage, ...]
    before: tuple[tuple[int, int], ...] = ()
    graph_hash: str = ""

    @cached_property
    def needs(self) -> tuple[int, ...]:
        """Bytes that each operator needs at once.

        What it makes first counts nothing where it takes the place of what nobody else reads.
        """
        nbytes = [s.nbytes for s in self.storages]
        num_readers = Counter(s for op in self.operators for s in op.reads)
        needs = []
        for op in self.operators:
            total = sum(nbytes[s] for s in (*op.reads, *op.makes))
            if op.over is not None and op.makes and num_readers[op.over] == 1:
                over = self.storages[op.over]
                is_free = not over.begins_on_host and over.ends == "free"
                if is_free and over.nbytes == nbytes[op.makes[0]]:
                    total -= over.nbytes
            needs.append(total)
        return tuple(needs)

    @cached_property
    def compute_time(self) -> int:
        """Picoseconds that all operators take one after the other: the time without swapping."""
        return sum(op.duration for op in self.operators)

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """For each operator those that have to run before it."""
        maker = {s: i for i, op in enumerate(self.operators) for s in op.makes}
        before: list[set[int]] = [
            {maker[s] for s in op.reads if s in maker} for op in self.operators
        ]
        for first, then in self.before:
            before[then].add(first)
        return tuple(tuple(sorted(each)) for each in before)

    def held_at_once(self) -> int:
        """The most bytes that are alive at once in program order, all that lasts included."""
        last = [-1] * len(self.storages)
        for i, op in enumerate(self.operators):
            for s in (*op.reads, *op.makes):
                last[s] = i
        held = peak = sum(s.nbytes for s in self.storages if s.begins_on_host)
        for i, op in enumerate(self.operators):
            held += sum(self.storages[s].nbytes for s in op.makes)
            peak = max(peak, held)
            for s in {*op.reads, *op.makes}:
                storage = self.storages[s]
                if last[s] == i and not storage.begins_on_host and storage.ends == "free":
                    held -= storage.nbytes
        return peak
