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
from graphwright.memory.arrays import Arrays, Flags, Ints, pack
from graphwright.memory.kernel import Rules
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
MOST_ORDERS = 64
SMALL, MOST_SMALL = 1e-4, 0.01
"""Shares of the capacity: what lasts and is smaller stays on the device, if all of it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How the planner chooses what makes room (see `kernel`).

    `threshold` counts operators (belady, lru), `pressure` weighs copying against waiting (cost),
    `late` prefers gaps that were left lately, so that earlier ones serve what comes from the host.
    With a `lookahead` nothing is copied earlier than so many operators before it is needed.
    What takes less than the share `recompute` of the time of its copies is made again rather than
    kept, if nobody reads it for longer than the share `gap` of the step. The first pass begins with
    residents in the share `keep` of the capacity. What takes less than the share `small` of it goes
    to the top of memory and the rest to the bottom, where it costs no waiting (cost). What began a
    step as a resident comes back to its place if that costs no more than the share `homing` of the
    copies that it saves (cost).
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
    homing: float = 0.0

    def rules(self, capacity: int) -> Rules:
        return Rules(
            policy={"cost": kernel.COST, "belady": kernel.BELADY, "lru": kernel.LRU}[self.policy],
            threshold=self.threshold,
            lookahead=self.lookahead,
            pressure=float(self.pressure),
            late=float(self.late),
            small=float(self.small * capacity),
            homing=float(self.homing),
        )

    def __str__(self) -> str:
        words = f"threshold {self.threshold}"
        if self.policy == "cost":
            words = f"pressure {self.pressure:.3g}"
        again = f", recompute {self.recompute:g}" if self.recompute else ""
        kept = f", keep {self.keep:g}" if self.keep else ""
        apart = f", small {self.small:g}" if self.small else ""
        home = f", homing {self.homing:g}" if self.homing else ""
        return f"{self.policy}, {words}{again}{kept}{apart}{home}"


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

    log: kernel.Records
    places: kernel.Records
    home: Ints
    makespan: int


class Planner:
    """Plans swaps of one problem; what all plans have in common is worked out once."""

    def __init__(self, problem: MemoryProblem) -> None:
        self.problem, self.arrays = problem, pack(problem)
        self._is_read = np.zeros(len(self.arrays.nbytes), np.bool_)
        self._is_read[self.arrays.reads] = True
        self._most = max(problem.needs, default=0)
        self._orders: dict[tuple[bytes, float, float], Ints] = {}

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
            order = self._extended(order, choice)
        step = self._step(order, capacity, pool)
        always = np.zeros(len(self.arrays.nbytes), np.bool_)
        if pool is None:
            always = self._small(capacity)
        stays = always
        if choice.keep and pool is None:
            stays = always | self._spread(choice.keep * capacity, always)
        home, base = self._side_by_side(stays, always)
        step = step._replace(base=base)
        starts_empty = not (home >= base).any()
        best: Passed | None = None
        for number in range(PASSES):
            passed = _run(step, home, choice.rules(capacity))
            if passed is None:
                break
            ends_as_it_began = not (passed.home == kernel.MOVED).any()
            if ends_as_it_began and (best is None or passed.makespan <= best.makespan):
                best = passed
            first_empty = starts_empty and not number
            if not first_empty and ends_as_it_began:
                break
            found = passed.home
            if not first_empty:
                home = np.where(found >= 0, found, kernel.AWAY)
            elif pool is None and not choice.homing:
                home, _ = self._side_by_side((found <= kernel.STAYS) | always, always)
            else:
                left = np.where(found <= kernel.STAYS, kernel.STAYS - found, kernel.AWAY)
                home = np.where(always, home, left)
            if not (home >= base).any():
                break
        return best

    def _step(self, order: Ints, capacity: int, pool: Pool | None) -> kernel.Step:
        a = self.arrays
        slot_size, slot_class, class_of = _slots(a, pool)
        return kernel.Step(
            order, a.duration, a.over, a.read_ptr, a.reads, a.written, a.make_ptr, a.makes,
            a.nbytes, a.out_time, a.in_time, a.begins_on_host, a.ends, a.is_written,
            capacity, 0, slot_size, slot_class, class_of,
        )  # fmt: skip

    def _extended(self, order: Ints, choice: Choice) -> Ints:
        """The order with operators that run again, which several choices have in common."""
        key = (order.tobytes(), choice.recompute, choice.gap)
        if key not in self._orders:
            if len(self._orders) >= MOST_ORDERS:
                self._orders.clear()
            self._orders[key] = extend_order(self.problem, order, choice.recompute, choice.gap)
        return self._orders[key]

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
            starts=tuple(passed.log["start"].tolist()),
            ends=tuple(passed.log["end"].tolist()),
            algorithm=algorithm,
            seed=seed,
            graph_hash=self.problem.graph_hash,
        )

    def _spread(self, room: float, always: Flags) -> Flags:
        """What lasts and fits into some room: first what is slow to copy for its size, then a share
        of the rest, evenly in the order of the program."""
        a = self.arrays
        stays = np.zeros(len(a.nbytes), np.bool_)
        lasts = a.begins_on_host & (a.ends == kernel.HOME) & self._is_read
        lasting = np.flatnonzero(lasts & ~always)
        if not len(lasting):
            return stays
        room -= float(a.nbytes[always].sum())
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

    def _small(self, capacity: int) -> Flags:
        """What lasts and is so small that all of it together takes next to no memory: it stays."""
        a = self.arrays
        lasts = a.begins_on_host & (a.ends == kernel.HOME) & self._is_read
        stays = lasts & (a.nbytes <= SMALL * capacity)
        total = int(a.nbytes[stays].sum())
        fits = total <= MOST_SMALL * capacity and total <= capacity - self._most
        return stays if fits else np.zeros_like(stays)

    def _side_by_side(self, stays: Flags, first: Flags) -> tuple[Ints, int]:
        """Offsets of residents from the bottom of memory on, without gaps, and where those that
        come first end."""
        home = np.full(len(stays), kernel.AWAY, np.int64)
        below, above = np.flatnonzero(stays & first), np.flatnonzero(stays & ~first)
        nbytes = self.arrays.nbytes[np.concatenate((below, above))]
        home[np.concatenate((below, above))] = np.cumsum(nbytes) - nbytes
        base = int(self.arrays.nbytes[below].sum())
        return home, base


def _run(step: kernel.Step, home: Ints, rules: Rules) -> Passed | None:
    """A pass that begins with residents at home."""
    size = 4 * len(step.order) + 4 * len(home) + 256
    while True:
        work = kernel.workspace(step, home.copy(), size)
        length = kernel.plan_pass(step, work, rules)
        if length != kernel.LOG_IS_FULL:
            break
        size *= 2
    if length < 0:
        return None
    log = work.log[:length].copy()
    return Passed(log, work.places, work.home, int(log["end"].max(initial=0)))


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
