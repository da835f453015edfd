"""What stays on a device from operator to operator, and what is copied because of that.

    before operator i   `leaves[i]` make room: what the host has no copy of is copied out first,
                        if anybody needs it later
                        what i reads and is not there is copied in
    behind it           what nobody needs any more is gone

`residents` are there when the operators begin and again when they have ended, so that the same
choice serves every step; all other storages that begin on the host are there alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphwright.errors import GraphwrightError
from graphwright.plans import MemoryProblem


class InvalidTransfers(GraphwrightError):
    """What was to stay on a device does not fit, or was not there to leave.

    The choices of this package always fit the operators that they were made for; the message names
    the operator at fault. Choose again for these operators and this capacity.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfers:
    """Who leaves before each operator, and the bytes that are copied in and out in a step.

    `is_least` says that no other choice for this order of operators copies less.
    """

    leaves: tuple[tuple[int, ...], ...]
    residents: tuple[int, ...] = ()
    bytes_in: int = 0
    bytes_out: int = 0
    is_least: bool = False

    @property
    def nbytes(self) -> int:
        """All bytes that are copied."""
        return self.bytes_in + self.bytes_out


@dataclass(frozen=True, slots=True)
class Lives:
    """When storages are used, in the order of the operators: what every choice needs to know.

    `uses[s]` are the operators that read or make s; `last[s]` is the last of them, or the number of
    operators where s has to outlive them all.
    """

    uses: tuple[tuple[int, ...], ...]
    last: tuple[int, ...]

    @staticmethod
    def of(problem: MemoryProblem) -> Lives:
        """Of a problem's own order."""
        uses: list[list[int]] = [[] for _ in problem.storages]
        for i, op in enumerate(problem.operators):
            for s in dict.fromkeys((*op.reads, *op.makes)):
                uses[s].append(i)
        written = {s for op in problem.operators for s in op.writes}
        last = []
        for s, storage in enumerate(problem.storages):
            outlives = storage.ends == "kept" or (storage.ends == "home" and s in written)
            last.append(len(problem.operators) if outlives else max(uses[s], default=-1))
        return Lives(tuple(map(tuple, uses)), tuple(last))


def check_transfers(problem: MemoryProblem, capacity: int, choice: Transfers) -> Transfers:
    """The same choice with the bytes that it copies, counted by going through all operators.

    A choice that does not fit, or does not end as it began, is refused.
    """
    ops, storages = problem.operators, problem.storages
    lives = Lives.of(problem)
    written = {s for op in ops for s in op.writes}
    there = set(choice.residents)
    on_host = {s for s, storage in enumerate(storages) if storage.begins_on_host}
    on_host -= there & written
    moved_in = moved_out = 0

    def copy_out(names: Sequence[int]) -> int:
        stale = [s for s in names if s not in on_host]
        on_host.update(stale)
        return sum(storages[s].nbytes for s in stale)

    if len(choice.leaves) != len(ops):
        raise InvalidTransfers(f"a choice for {len(choice.leaves)} operators, not {len(ops)}")
    for i, op in enumerate(ops):
        for s in choice.leaves[i]:
            if s not in there or s in op.reads:
                raise InvalidTransfers(
                    f"{storages[s].name} is to leave before {op.name}, and is not there or read"
                )
        there.difference_update(choice.leaves[i])
        moved_out += copy_out([s for s in choice.leaves[i] if lives.last[s] >= i])
        missing = [s for s in op.reads if s not in there]
        lost = [s for s in missing if s not in on_host]
        if lost:
            raise InvalidTransfers(f"{op.name} reads {storages[lost[0]].name}, which is nowhere")
        moved_in += sum(storages[s].nbytes for s in missing)
        there.update(op.reads, op.makes)
        held = sum(storages[s].nbytes for s in there)
        if held > capacity:
            raise InvalidTransfers(f"{op.name} needs {held:,} bytes, and there are {capacity:,}")
        on_host.difference_update(op.writes, op.makes)
        there -= {s for s in there if lives.last[s] <= i and s not in choice.residents}
    home = [s for s, each in enumerate(storages) if each.ends == "home"]
    moved_out += copy_out([s for s in home if s in there and s not in choice.residents])
    gone = [s for s in choice.residents if s not in there]
    if gone:
        raise InvalidTransfers(f"{storages[gone[0]].name} is not there when the operators end")
    return Transfers(
        leaves=choice.leaves, residents=choice.residents, bytes_in=moved_in, bytes_out=moved_out,
        is_least=choice.is_least,
    )  # fmt: skip
