"""What a rank waits for before anybody reads it, so that it holds no more than in the simulation.

A transfer that has begun holds what it sends and the copies around it until it is waited for. In
the simulation that ends with the transfer; a program that waits where the result is first read
holds it longer, transfer by transfer, and so would need more memory than its plan says. Waiting at
once would cost time: what is small may stay under way. Sums are made in place and hold nothing more
than their result.

    begin gather a           3 MB, ended in the simulation before mm
    begin gather b           1 MB, the same
    wait for a               both together are beyond the slack, b alone is not
    mm
"""

from __future__ import annotations

from dataclasses import dataclass, field

SLACK, LEAST_SLACK = 0.03, 256 * 1024
"""What may be held longer than in the simulation: a share of a plan's memory, some bytes anyway."""


@dataclass(frozen=True, slots=True)
class _Transfer:
    output: int | None
    nbytes: int
    end: int


@dataclass(slots=True)
class UnderWay:
    """A rank's transfers that nobody has waited for, by the instruction that began each."""

    limit: float
    transfers: dict[int, _Transfer] = field(default_factory=dict)
    began: dict[int, int] = field(default_factory=dict)
    """The instruction of each result."""
    nbytes: int = 0

    def begin(self, instruction: int, output: int | None, nbytes: int, end: int) -> None:
        """Something begins that holds so much until it has ended."""
        self.transfers[instruction] = _Transfer(output, nbytes, end)
        self.nbytes += nbytes
        if output is not None:
            self.began[output] = instruction

    def read(self, value: int) -> None:
        """A value is read, so that whatever brought it has been waited for."""
        instruction = self.began.pop(value, None)
        if instruction is not None:
            self.nbytes -= self.transfers.pop(instruction).nbytes

    def overdue(self, now: int) -> list[int]:
        """The instructions to wait for now."""
        if self.nbytes <= self.limit:
            return []
        late = [number for number, transfer in self.transfers.items() if transfer.end <= now]
        excess, overdue = sum(self.transfers[number].nbytes for number in late), []
        for number in late:
            if excess <= self.limit:
                break
            ended = self.transfers.pop(number)
            if ended.output is not None:
                del self.began[ended.output]
            excess -= ended.nbytes
            self.nbytes -= ended.nbytes
            overdue.append(number)
        return overdue
