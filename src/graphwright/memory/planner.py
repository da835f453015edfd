"""From a schedule and a pool to a memory plan: passes of the planner until residents stay at home.

The first pass begins with nothing in memory. What lasts from step to step and is left there at its
end may stay: the next pass begins with it (SwapAdvisor's double pass). Whatever does not end where
it began leaves the set, so that after a few passes an iteration ends as it began. Beginning with
nothing is always possible; of all that is possible the fastest is taken.

Where every parameter is read once, as in inference, what is left at the end is what is read last,
and all else would come in a row. With `Choice.keep` the first pass begins with a share of all that
lasts, spread over the step, so that what has to come does so in equal parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from graphwright.frozen import FrozenDict
from graphwright.memory import kernel
from graphwright.memory.arrays import Arrays, Ints, pack
from graphwright.memory.recompute import extend_order
from graphwright.plans import (
    Action,
    MemoryPlan,
    MemoryProblem,
    MemoryTooSmall,
    Run,
    SizeClass,
    SwapIn,
    SwapOut,
)

Policy = Literal["cost", "belady", "lru"]
PASSES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How the planner chooses what makes room (see `kernel`).

    `threshold` counts operators (belady, lru), `pressure` weighs copying against waiting (cost),
    `late` prefers gaps that were left lately, so that earlier ones serve what comes from the host.
    With a `lookahead` nothing is copied earlier than so many operators before it is needed.
    What takes less than the share `recompute` of the time of its copies is made again rather than
    kept, if nobody reads it for longer than the share `gap` of the step. The first pass begins with
    residents in the share `keep` of the capacity. What takes less than the share `small` of it goes
    to the top of memory and the rest to the bottom, where it costs no waiting (cost).
    """

    policy: Policy = "cost"
    threshold: int = 0
    pressure: float = 0.01
    lookahead: int = 0
    late: float = 0.1
    recompute: float = 0.0
    gap: float = 0.1
    keep: float = 0.0
    small: float = 0.0

    def numbers(self, capacity: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        policy = ("cost", "belady", "lru").index(self.policy)
        numbers = (policy, self.threshold, self.pressure, self.lookahead, self.late)
        return np.array((*numbers, self.small * capacity), np.float64)

    def __str__(self) -> str:
        words = f"threshold {self.threshold}"
        if self.policy == "cost":
            words = f"pressure {self.pressure:.3g}"
        again = f", recompute {self.recompute:g}" if self.recompute else ""
        kept = f", keep {self.keep:g}" if self.keep else ""
        apart = f", small {self.small:g}" if self.small else ""
        return f"{self.policy}, {words}{again}{kept}{apart}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Size classes, and which of them takes storages of which size (CLS and CNT of section 4.4.3).

    `sizes` are the distinct sizes in ascending order, `classes` the class of each: it begins with
    0 and grows by one at most. A class has places of its largest size.
    """

    sizes: tuple[int, ...]
    classes: tuple[int, ...]
    counts: tuple[int, ...]

    def class_bytes(self) -> tuple[int, ...]:
        """Bytes of a place of each class."""
        largest = dict(zip(self.classes, self.sizes, strict=True))
        return tuple(largest[c] for c in range(len(self.counts)))

    @property
    def nbytes(self) -> int:
        return sum(b * n for b, n in zip(self.class_bytes(), self.counts, strict=True))

    def size_classes(self) -> tuple[SizeClass, ...]:
        pairs = zip(self.class_bytes(), self.counts, strict=True)
        return tuple(SizeClass(nbytes=b, count=n) for b, n in pairs)


@dataclass(frozen=True, slots=True, eq=False)
class Passed:
    """What a pass has found: its actions and places as numbers, and where residents are."""

    log: Ints
    places: Ints
    home: Ints
    makespan: int


class Planner:
    """Plans swaps of one problem; what all plans have in common is worked out once."""

    def __init__(self, problem: MemoryProblem) -> None:
        self.problem, self.arrays = problem, pack(problem)
        self._is_read = np.zeros(len(self.arrays.nbytes), np.bool_)
        self._is_read[self.arrays.reads] = True
        self._log = np.empty((0, kernel.LOG_FIELDS), np.int64)
        self._places = np.empty((0, 3), np.int64)

    def check_capacity(self, capacity: int) -> None:
        """Refuse a capacity in which some operator cannot run."""
        needs = self.problem.needs
        most = max(range(len(needs)), key=needs.__getitem__, default=None)
        if most is not None and needs[most] > capacity:
            op = self.problem.operators[most]
            parts = ", ".join(
                f"{s.name} {s.nbytes:,}"
                for s in sorted(
                    (self.problem.storages[n] for n in (*op.reads, *op.makes)),
                    key=lambda s: -s.nbytes,
                )[:4]
            )
            raise MemoryTooSmall(
                f"operator {op.name} needs {needs[most]:,} bytes at once ({parts}), more than the "
                f"{capacity:,} that there are; give at least so much memory, capture a smaller "
                "batch or accumulate=K micro-batches, or split the operator with gw.plan"
            )

    def time(
        self, order: Ints, capacity: int, choice: Choice, pool: Pool | None = None
    ) -> Passed | None:
        """The fastest of a few passes that end as they begin; None where something has no room."""
        if pool is not None and pool.nbytes > capacity:
            return None
        if choice.recompute:
            order = extend_order(self.problem, order, choice.recompute, choice.gap)
        slots = _slots(self.arrays, pool)
        home = np.full(len(self.arrays.nbytes), -1, np.int64)
        if choice.keep and pool is None:
            home = self._side_by_side(self._spread(choice.keep * capacity))
        starts_empty = not (home >= 0).any()
        best: Passed | None = None
        for number in range(PASSES):
            passed = self._run(order, capacity, choice, slots, home)
            if passed is None:
                break
            ends_as_it_began = not (passed.home == -3).any()
            if ends_as_it_began and (best is None or passed.makespan <= best.makespan):
                best = passed
            first_empty = starts_empty and not number
            if not first_empty and ends_as_it_began:
                break
            found = passed.home
            if not first_empty:
                home = np.where(found >= 0, found, -1)
            elif pool is None:
                home = self._side_by_side(found <= -10)
            else:
                home = np.where(found <= -10, -10 - found, -1)
            if not (home >= 0).any():
                break
        return best

    def plan(
        self, order: Ints, capacity: int, choice: Choice, pool: Pool | None = None,
        algorithm: str = "", seed: int | None = None,
    ) -> MemoryPlan | None:  # fmt: skip
        """The same as a plan."""
        passed = self.time(order, capacity, choice, pool)
        return None if passed is None else self.unpack(passed, capacity, pool, algorithm, seed)

    def unpack(
        self, passed: Passed, capacity: int, pool: Pool | None, algorithm: str, seed: int | None
    ) -> MemoryPlan:
        """The plan that a pass has found."""
        storages, ops = self.problem.storages, self.problem.operators
        places: dict[int, dict[str, int]] = {}
        top = 0
        for action, s, offset in passed.places.tolist():
            places.setdefault(action, {})[storages[s].name] = offset
            top = max(top, offset + storages[s].nbytes)
        actions: list[Action] = []
        ran: set[int] = set()
        for at, (kind, subject, offset, run, out, come, _, _) in enumerate(passed.log.tolist()):
            after = (run, out, come)
            if kind == kernel.RUN:
                where = FrozenDict(places.get(at, {}))
                actions.append(Run(ops[subject].name, where, after, subject in ran))
                ran.add(subject)
            elif kind == kernel.OUT:
                actions.append(SwapOut(storages[subject].name, after))
            else:
                actions.append(SwapIn(storages[subject].name, offset, after))
                top = max(top, offset + storages[subject].nbytes)
        residents = {
            storages[s].name: int(passed.home[s]) for s in np.flatnonzero(passed.home >= 0)
        }
        for s in np.flatnonzero(passed.home >= 0):
            top = max(top, int(passed.home[s]) + storages[s].nbytes)
        return MemoryPlan(
            capacity=capacity,
            arena=top if pool is None else pool.nbytes,
            actions=tuple(actions),
            residents=FrozenDict(residents),
            pool=() if pool is None else pool.size_classes(),
            starts=tuple(passed.log[:, kernel.START].tolist()),
            ends=tuple(passed.log[:, kernel.END].tolist()),
            algorithm=algorithm,
            seed=seed,
            graph_hash=self.problem.graph_hash,
        )

    def _spread(self, room: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """What lasts and fits into some room: first what is slow to copy for its size, then a share
        of the rest, evenly in the order of the program."""
        a = self.arrays
        stays = np.zeros(len(a.nbytes), np.bool_)
        lasting = np.flatnonzero(a.begins_on_host & (a.ends == 2) & self._is_read)
        if not len(lasting):
            return stays
        is_small = a.in_time[lasting] <= 2 * a.in_time[lasting].min()
        small, large = lasting[is_small], lasting[~is_small]
        stays[small[np.cumsum(a.nbytes[small]) <= room]] = True
        share = (room - a.nbytes[stays].sum()) / max(1, a.nbytes[large].sum())
        spare = 0.0
        for s in large.tolist():
            spare += min(1.0, share) * a.nbytes[s]
            if spare >= a.nbytes[s]:
                stays[s], spare = True, spare - a.nbytes[s]
        return stays

    def _side_by_side(self, stays: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Ints:
        """Offsets of residents from the bottom of memory on, without gaps."""
        home = np.full(len(stays), -1, np.int64)
        nbytes = self.arrays.nbytes[stays]
        home[stays] = np.cumsum(nbytes) - nbytes
        return home

    def _run(
        self, order: Ints, capacity: int, choice: Choice, slots: tuple[Ints, Ints, Ints], home: Ints
    ) -> Passed | None:
        a = self.arrays
        size = max(len(self._log), 4 * len(order) + 4 * len(a.nbytes) + 256)
        begin = home.copy()
        made = int((a.make_ptr[order + 1] - a.make_ptr[order]).sum())
        if len(self._places) < made:
            self._places = np.empty((made, 3), np.int64)
        while True:
            if len(self._log) < size:
                self._log = np.empty((size, kernel.LOG_FIELDS), np.int64)
            home[:] = begin
            length, num_places = kernel.plan_pass(
                order, a.duration, a.over, a.read_ptr, a.reads, a.written, a.make_ptr, a.makes,
                a.nbytes, a.out_time, a.in_time, a.begins_on_host, a.ends, a.is_written, capacity,
                *slots, home, choice.numbers(capacity), self._log, self._places,
            )  # fmt: skip
            if length != -1:
                break
            size *= 2
        if length < 0:
            return None
        log = self._log[:length].copy()
        makespan = int(log[:, kernel.END].max(initial=0))
        return Passed(log, self._places[:num_places].copy(), home.copy(), makespan)


def _slots(a: Arrays, pool: Pool | None) -> tuple[Ints, Ints, Ints]:
    """Sizes and classes of all slots, and the class of each storage; none without a pool."""
    if pool is None:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing
    nbytes = pool.class_bytes()
    counts = np.array(pool.counts, np.int64)
    classes = np.repeat(np.arange(len(counts)), counts)
    of_size = dict(zip(pool.sizes, pool.classes, strict=True))
    wanted = np.array([of_size[int(b)] for b in a.nbytes], np.int64)
    return np.array(nbytes, np.int64)[classes], classes.astype(np.int64), wanted
