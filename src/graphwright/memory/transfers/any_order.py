"""The fewest bytes that have to come from the host, over all orders and all that could stay (ROC).

ROC section 4.5, Algorithm 3: COST(S, T) is the least that is copied to the device until operators S
have run and the tensors of T are there. T is part of A(S), what is there to be read later.

    COST({}, T)  = size(T)
    COST(S, T)   = min over the last operator o of S, and T' of what was there before it:
                   COST(S \\ o, T') + size(IN(o) \\ T')      if T' + IN(o) + OUT(o) fit

As printed, T' is what T has of A(S \\ o): a tensor that o reads last would always be copied in,
even if it was made just before. Here T' may have any inputs of o beside that, so that the least is
found.

It takes time exponential in the number of operators, and serves as the reference for planners on
small problems. Copies out are not counted, as in ROC: the host keeps everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import inf

from graphwright.errors import InvalidOption
from graphwright.plans import MemoryProblem

MOST_OPERATORS = 16


def least_bytes_in(problem: MemoryProblem, capacity: int) -> float:
    """The fewest bytes that any order copies to the device within a capacity; inf if none fits."""
    ops, storages = problem.operators, problem.storages
    n = len(ops)
    if n > MOST_OPERATORS:
        raise InvalidOption(
            f"{n} operators are too many to try everything; the most is {MOST_OPERATORS}"
        )
    nbytes = [s.nbytes for s in storages]
    reads = [_mask(op.reads) for op in ops]
    makes = [_mask(op.makes) for op in ops]
    before = [_mask(each) for each in problem.predecessors]
    given = _mask(s for s, storage in enumerate(storages) if storage.begins_on_host)

    @cache
    def size(tensors: int) -> int:
        return sum(nbytes[s] for s in range(len(nbytes)) if tensors >> s & 1)

    @cache
    def available(done: int) -> int:
        """A(S): what is there and read by operators that have not run yet."""
        there, later = given, 0
        for i in range(n):
            if done >> i & 1:
                there |= makes[i]
            else:
                later |= reads[i]
        return there & later

    @cache
    def cost(done: int, cached: int) -> float:
        if not done:
            return size(cached)
        least = inf
        for i in range(n):
            rest = done & ~(1 << i)
            is_valid = done >> i & 1 and not any(
                rest >> j & 1 and before[j] >> i & 1 for j in range(n)
            )
            if not is_valid:
                continue
            stays = cached & ~makes[i]
            if stays & ~(available(rest) | reads[i]):
                continue
            fetched = stays & reads[i]
            for had in _subsets(reads[i] & available(rest)):
                earlier = (stays & ~fetched) | had
                if size(earlier | reads[i] | makes[i]) <= capacity:
                    least = min(least, cost(rest, earlier) + size(reads[i] & ~had))
        return least

    return cost((1 << n) - 1, 0)


def _mask(numbers: Iterable[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def _subsets(mask: int) -> list[int]:
    """All parts of a set."""
    subsets, part = [0], mask
    while part:
        subsets.append(part)
        part = (part - 1) & mask
    return subsets
