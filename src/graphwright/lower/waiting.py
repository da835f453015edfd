"""What a rank waits for before anybody reads it, so that it holds no more than in the simulation.

A transfer that has begun holds what it sends and the copies around it until it is waited for. In the simulation that ends with the transfer; a program that waits
where the result is first read holds it longer, transfer by transfer, and so would need more memory than its plan says. Waiting at once would cost time: what is small
may stay under way. Sums are made in place and hold nothing more than their result.

    begin gather a           3 MB, ended in the simulation before mm
    begin gather b           1 MB, the same
    wait for a               both together are beyond the slack, b alone is not
    mm
"""

from __future__ import annotations

from dataclasses import dataclass, field

SLACK, LEAST_SLACK = 0.03, 256 * 1024
"""What may be held longer than in the simulation: a share of a plan's memory, and bytes in any case."""


@dataclass(frozen=True, slots=True)
class _Transfer:
    output: int | None
    nbytes: int
    end: int


@dataclass(slots=True)
class UnderWay:
    """The transfers of a rank that nobody has waited for, by the number of the instruction that began them, the oldest first."""

    limit: float
    transfers: dict[int, _Transfer] = field(default_factory=dict)

    def begin(self, instruction: int, output: int | None, nbytes: int, end: int) -> None:
        """Something begins that holds so much until it has ended."""
        self.transfers[instruction] = _Transfer(output, nbytes, end)

    def overdue(self, now: int, read: set[int]) -> list[int]:
        """The instructions to wait for now; whoever has `read` a result has waited for it."""
        self.transfers = {n: t for n, t in self.transfers.items() if t.output not in read}
        late = {n: t.nbytes for n, t in self.transfers.items() if t.end <= now}
        excess, found = sum(late.values()), []
        for number, nbytes in late.items():
            if excess <= self.limit:
                break
            excess -= nbytes
            found.append(number)
            del self.transfers[number]
        return found
