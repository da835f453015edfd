"""Reductions between neighbours: every rank adds up one part of the value, then reads the others.

    rank 0   [ a0 | b0 ]      reads a1, a0 += a1      reads b        [ a | b ]
    rank 1   [ a1 | b1 ]      reads b0, b1 += b0      reads a        [ a | b ]

Terms are added in the order of the group's ranks, whatever arrives first: sums are the same in
every run. A small value goes to everyone, who add up all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from graphwright.run.links.neighbours import SMALL, Combine, Message, Neighbours, Task


@dataclass(slots=True, eq=False, kw_only=True)
class Reduction(Task):
    """A reduction under way: its stages, and the messages that the next one waits for."""

    stages: Iterator[Sequence[Message]]
    awaited: Sequence[Message] = ()

    @property
    def ranks(self) -> Sequence[int]:
        return [message.rank for message in self.awaited if not message.done]

    def advance(self) -> None:
        while all(message.done for message in self.awaited):
            following = next(self.stages, None)
            if following is None:
                self.done = True
                return
            self.awaited = following


def reduce(
    near: Neighbours, group: tuple[int, ...], value: torch.Tensor, combine: Combine
) -> Reduction:
    """Begin to reduce a dense value over a group, in place; all its ranks do so in one order."""
    stages = _stages(near, near.next_tags(group), group, value.view(-1), combine)
    reduction = Reduction(near=near, stages=stages)
    near.run(reduction)
    return reduction


def _stages(
    near: Neighbours,
    tags: tuple[int, int],
    group: tuple[int, ...],
    value: torch.Tensor,
    combine: Combine,
) -> Iterator[Sequence[Message]]:
    """Do what can be done, and yield the messages that the rest needs, again and again."""
    first_tag, second_tag = tags
    others = [rank for rank in group if rank != near.rank]
    if value.nbytes <= SMALL:
        terms = {rank: torch.empty_like(value) for rank in others}
        yield near.begin(first_tag, dict.fromkeys(others, value), terms)
        terms[near.rank] = value.clone()
        value.copy_(terms[group[0]])
        for rank in group[1:]:
            combine(value, terms[rank])
        return
    ends = [len(value) * n // len(group) for n in range(len(group) + 1)]
    parts = {rank: value[ends[n] : ends[n + 1]] for n, rank in enumerate(group)}
    own = parts[near.rank]
    sent = near.begin(first_tag, {rank: parts[rank] for rank in others}, {})
    for rank in others:  # one after the other: the order of additions is always the same
        yield near.begin(first_tag, {}, {rank: own}, combine)
    yield sent
    yield near.begin(second_tag, dict.fromkeys(others, own), {rank: parts[rank] for rank in others})
