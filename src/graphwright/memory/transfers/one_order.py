"""The least that has to be copied over one order of operators, and what stays to reach it (ROC).

ROC's Algorithm 3 (section 4.5) with one order, in which its valid states are the beginnings of the
order. A state is a beginning, the tensors that are on the device behind it, and which of them the
host has a copy of; COST(state) is the least that was copied up to there:

    missing = IN(o) \\ T                           copied in
    E       leaves, so that T + IN(o) + OUT(o) - E fit
    dirty   = E that the host has no copy of      copied out, if anybody reads it later

All states behind an operator are worked out from those before it. Nothing is lost if only

    smallest sets leave     room is made when it is needed: what leaves earlier may leave then, too
    the later use leaves    of two storages of one size whose copies cost the same, the one that is
                            needed sooner stays (Belady)
    cheap states go on      cost + what is missing and will be read < a cost already reached

A first run goes on with the `FEW` cheapest states behind each operator alone, which gives a cost to
compare with; a second one goes on with all, or with `MOST` where there are more, until it has seen
`WORK` states. Where anything was left out the result does not claim to be the least.

What lasts from step to step may begin and end on the device: all sets of the `LASTING` largest such
storages are tried, those that fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from math import inf

from graphwright.errors import InvalidOption
from graphwright.memory.transfers.baselines import keep_soonest
from graphwright.memory.transfers.replay import Lives, Transfers, check_transfers
from graphwright.plans import MemoryProblem, MemoryTooSmall

FEW, MOST = 8, 1_000
SETS = 64
"""Ways to make room that are tried from one state; only small ones have more."""
WORK = 60_000
"""States that the second run may go on from, all in all."""
MOST_OPERATORS = 1_000
"""Longer orders are not searched: what is needed again last leaves."""
LASTING = 3
"""Sets of more storages that last are not tried."""

State = tuple[int, int]
"""What is on the device, and of what the host has a copy, as bits."""


@dataclass(slots=True)
class _Reached:
    """How a state was reached: from which one before, and who left."""

    cost: float
    before: State | None
    leaves: int


def least_transfers(
    problem: MemoryProblem, capacity: int, *, count_out: bool = True, most: int = MOST
) -> Transfers:
    """What stays in `capacity` bytes so that a step of these operators copies the fewest.

    Without `count_out`, copies to the host cost nothing, as in ROC: there it holds everything. No
    more than `most` states are kept behind each operator.
    """
    if most < 1:
        raise InvalidOption(f"most={most!r} states; give at least 1")
    needs = [_total(problem, {*op.reads, *op.makes}) for op in problem.operators]
    if needs and max(needs) > capacity:
        worst = problem.operators[needs.index(max(needs))]
        raise MemoryTooSmall(
            f"operator {worst.name} reads and makes {max(needs):,} bytes, more than the "
            f"{capacity:,} that there are; give it more memory, or cut the graph into more parts"
        )
    if len(problem.operators) > MOST_OPERATORS:
        return keep_soonest(problem, capacity)
    best: Transfers | None = None
    is_least, bound, work = True, inf, WORK
    for width in (FEW, most):
        for residents in _residents(problem, capacity):
            search = _Search(problem, capacity, residents, count_out)
            found = search.run(width, bound, inf if width == FEW else work)
            work -= search.seen if width == most else 0
            if width == most:
                is_least &= not search.gave_up
            if found is not None and found[0] < bound:
                bound, leaves = found
                best = Transfers(leaves=leaves, residents=residents)
    assert best is not None
    chosen = check_transfers(problem, capacity, best)
    return Transfers(
        leaves=chosen.leaves, residents=chosen.residents, bytes_in=chosen.bytes_in,
        bytes_out=chosen.bytes_out, is_least=is_least,
    )  # fmt: skip


def _residents(problem: MemoryProblem, capacity: int) -> Iterator[tuple[int, ...]]:
    """Sets of storages that last and fit together with every operator, the largest sets first."""
    used = {s for op in problem.operators for s in op.reads}
    lasting = [s for s in used if problem.storages[s].ends == "home"]
    lasting = [s for s in lasting if problem.storages[s].begins_on_host]
    lasting.sort(key=lambda s: (-problem.storages[s].nbytes, s))
    few = lasting[:LASTING]
    for count in range(len(few), -1, -1):
        for each in combinations(few, count):
            if _total(problem, set(each)) <= capacity:
                yield each


def _total(problem: MemoryProblem, storages: Iterable[int]) -> int:
    return sum(problem.storages[s].nbytes for s in storages)


class _Search:
    """All states behind each operator in turn, for one set of residents."""

    def __init__(
        self, problem: MemoryProblem, capacity: int, residents: tuple[int, ...], count_out: bool
    ) -> None:
        self.problem, self.capacity, self.count_out = problem, capacity, count_out
        self.nbytes = [s.nbytes for s in problem.storages]
        self.lives = Lives.of(problem)
        self.residents = _mask(residents)
        ops, count = problem.operators, len(problem.operators)
        self.reads = [_mask(op.reads) for op in ops]
        self.stale = [_mask((*op.writes, *op.makes)) for op in ops]
        self.touched = [_mask((*op.reads, *op.makes)) for op in ops]
        self.alive = [self.residents] * (count + 1)  # behind operator i - 1
        self.wanted = [0] * (count + 1)  # read by operator i or later
        for s, uses in enumerate(self.lives.uses):
            first = 0 if problem.storages[s].begins_on_host else uses[0] + 1 if uses else count
            for i in range(first, min(self.lives.last[s], count) + 1):
                self.alive[i] |= 1 << s
        for i in reversed(range(count)):
            made = _mask(ops[i].makes)
            self.wanted[i] = (self.wanted[i + 1] & ~made) | self.reads[i]
        self.home = _mask(s for s, each in enumerate(problem.storages) if each.ends == "home")
        self.gave_up, self.seen = False, 0
        self._sizes: dict[int, int] = {}

    def run(
        self, width: int, bound: float, work: float
    ) -> tuple[float, tuple[tuple[int, ...], ...]] | None:
        """The least cost below a bound, and who leaves before each operator; None without one."""
        on_host = _mask(s for s, each in enumerate(self.problem.storages) if each.begins_on_host)
        written = _mask(s for op in self.problem.operators for s in op.writes)
        start = self.residents, on_host & ~(self.residents & written)
        layers: list[dict[State, _Reached]] = [{start: _Reached(0, None, 0)}]
        for i in range(len(self.problem.operators)):
            self.seen += len(layers[-1])
            if self.seen > work:
                self.gave_up = True
                return None
            layers.append(self._behind(i, layers[-1], bound))
            if len(layers[-1]) > width:
                cheapest = sorted(layers[-1].items(), key=lambda each: self._promise(i + 1, *each))
                layers[-1] = dict(cheapest[:width])
                self.gave_up = True
        ends = {
            state: reached.cost + self._last_copies(state)
            for state, reached in layers[-1].items()
            if not self.residents & ~state[0]
        }
        state = min(ends, key=ends.__getitem__, default=None)
        if state is None or ends[state] >= bound:
            return None
        leaves: list[tuple[int, ...]] = []
        at: State | None = state
        for layer in reversed(layers[1:]):
            assert at is not None
            leaves.append(_numbers(layer[at].leaves))
            at = layer[at].before
        return ends[state], tuple(reversed(leaves))

    def _behind(self, i: int, before: dict[State, _Reached], bound: float) -> dict[State, _Reached]:
        reads, touched, alive = self.reads[i], self.touched[i], self.alive[i + 1]
        behind: dict[State, _Reached] = {}
        for state, reached in before.items():
            there, on_host = state
            moved_in = self._size(reads & ~there)
            excess = self._size(there | touched) - self.capacity
            for leaves in self._leaving(i, there & ~touched, on_host, excess):
                dirty = leaves & ~on_host & self.alive[i]
                cost = reached.cost + moved_in
                if self.count_out:
                    cost += self._size(dirty)
                there_now = ((there & ~leaves) | touched) & alive
                on_host_now = (on_host | dirty) & ~self.stale[i] & alive
                now = there_now, on_host_now
                if cost + self._missing(i + 1, there_now) >= bound:
                    continue
                known = behind.get(now)
                if known is None or cost < known.cost:
                    behind[now] = _Reached(cost, state, leaves)
        return behind

    def _leaving(self, i: int, may_leave: int, on_host: int, excess: int) -> Iterator[int]:
        """Smallest sets that make room: without any one of them there would be none."""
        if excess <= 0:
            yield 0
            return
        ended = may_leave & ~self.alive[i]
        if ended:
            excess -= self._size(ended)
            may_leave &= ~ended
        if excess <= 0:
            yield ended
            return
        groups: dict[tuple[int, bool], list[int]] = {}
        for s in _numbers(may_leave):
            groups.setdefault((self.nbytes[s], bool(on_host >> s & 1)), []).append(s)
        rows = []
        for (_, is_clean), members in sorted(groups.items(), reverse=True):
            members.sort(key=lambda s: (-self._next(s, i), s))
            alike = is_clean or all(self._uses_left(s, i) <= 1 for s in members)
            rows.append((members, alike))
        covers = _covers(rows, self.nbytes, excess, ended)
        yield from islice(covers, SETS)
        self.gave_up |= next(covers, None) is not None

    def _next(self, s: int, i: int) -> int:
        return next((u for u in self.lives.uses[s] if u >= i), len(self.problem.operators))

    def _uses_left(self, s: int, i: int) -> int:
        outlives = self.lives.last[s] == len(self.problem.operators)
        return sum(u >= i for u in self.lives.uses[s]) + outlives + (self.residents >> s & 1)

    def _missing(self, i: int, there: int) -> int:
        """Bytes that have to be copied in from here on, whatever else is chosen."""
        return self._size((self.wanted[i] & self.alive[i] | self.residents) & ~there)

    def _promise(self, i: int, state: State, reached: _Reached) -> float:
        return reached.cost + self._missing(i, state[0])

    def _last_copies(self, state: State) -> int:
        """What was changed, has its home on the host, and is not there yet."""
        return self._size(state[0] & self.home & ~self.residents & ~state[1]) * self.count_out

    def _size(self, storages: int) -> int:
        known = self._sizes.get(storages)
        if known is None:
            known = self._sizes[storages] = sum(self.nbytes[s] for s in _numbers(storages))
        return known


def _covers(
    rows: list[tuple[list[int], bool]], nbytes: list[int], excess: int, chosen: int
) -> Iterator[int]:
    """Sets of at least `excess` bytes that no longer are without any of their members.

    Each row has storages of one size; where they are `alike`, the first of a row leave first.
    """
    sizes = [nbytes[members[0]] for members, _ in rows]
    left = [0] * (len(rows) + 1)
    for k in reversed(range(len(rows))):
        left[k] = left[k + 1] + sizes[k] * len(rows[k][0])

    def go(k: int, short: int, least: int, chosen: int) -> Iterator[int]:
        if short <= 0:
            if -short < least:  # without its smallest member there would not be room
                yield chosen
            return
        if left[k] < short:
            return
        members, alike = rows[k]
        for count in range(len(members) + 1):
            if (count - 1) * sizes[k] >= short:
                break
            smallest = sizes[k] if count else least
            for each in [members[:count]] if alike else combinations(members, count):
                yield from go(k + 1, short - count * sizes[k], smallest, chosen | _mask(each))

    yield from go(0, excess, 1 << 62, chosen)


def _mask(numbers: Iterable[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def _numbers(mask: int) -> tuple[int, ...]:
    numbers = []
    while mask:
        lowest = mask & -mask
        numbers.append(lowest.bit_length() - 1)
        mask ^= lowest
    return tuple(numbers)
