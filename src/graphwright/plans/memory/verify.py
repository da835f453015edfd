"""Whether a memory plan computes what its problem says, within its arena, whatever the streams do.

One action happens before another if it precedes it on its stream, or if a chain of `after` leads
from one to the other. Streams are queues, so it is enough to know for each action the latest one
of each stream that happens before it: a vector clock of three numbers.

    order       every operator runs once, behind those that it depends on
    reads       what an action reads is there, and was brought there before
    places      whoever takes a place comes after all that touched what was there
    host        a copy comes back only if it was taken, and nothing was written since
    end         what is kept is somewhere, what has a home is there again
    arena       every place is inside it, and it is within the capacity
    times       nothing starts before what it waits for has ended

Memory is a row of spans, each with the latest action of each stream that touched it. All but the
times are checked by `verify_actions`: a plan stays right where operators and copies take longer.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from graphwright.errors import InvalidMemoryPlan
from graphwright.plans.memory.plan import STREAMS, Action, MemoryPlan, Run, SwapIn, SwapOut
from graphwright.plans.memory.problem import MemoryProblem
from graphwright.plans.memory.retime import durations

Clock = tuple[int, int, int]
NEVER: Clock = (-1, -1, -1)


@dataclass(slots=True)
class _Span:
    start: int
    stop: int
    owner: int | None
    touched: list[int]


def _start(span: _Span) -> int:
    return span.start


@dataclass(slots=True)
class _State:
    """Where a storage is, who brought it there, and which of its values is here and on the host.

    `version` counts its values, 0 before there is any.
    """

    span: _Span | None = None
    brought: int = -1
    version: int = 0
    here: int = 0
    on_host: int = 0
    copied: int = -1


def verify_memory(plan: MemoryPlan, problem: MemoryProblem) -> None:
    """Raise `InvalidMemoryPlan` unless a plan is right for a problem, and timed by it."""
    verifier = _Verifier(plan, problem)
    verifier.check_actions()
    verifier.check_times()


def verify_actions(plan: MemoryPlan, problem: MemoryProblem) -> None:
    """Raise `InvalidMemoryPlan` unless a plan is right for a problem, whatever its times are."""
    _Verifier(plan, problem).check_actions()


class _Verifier:
    def __init__(self, plan: MemoryPlan, problem: MemoryProblem) -> None:
        self.plan, self.problem = plan, problem
        self.number = {s.name: n for n, s in enumerate(problem.storages)}
        self.operator = {op.name: n for n, op in enumerate(problem.operators)}
        self.states = [_State() for _ in problem.storages]
        self.clocks: list[Clock] = []
        self.stream_of: list[int] = []
        self.spans = [_Span(0, plan.arena, None, [-1, -1, -1])]
        self.read_versions: dict[int, tuple[int, ...]] = {}

    def check_actions(self) -> None:
        plan = self.plan
        if plan.arena > plan.capacity:
            raise InvalidMemoryPlan(
                f"the arena of {plan.arena:,} bytes exceeds the capacity of {plan.capacity:,}"
            )
        written = {s for op in self.problem.operators for s in op.writes}
        for s, storage in enumerate(self.problem.storages):
            if storage.begins_on_host:
                state = self.states[s]
                state.version = state.here = 1
                is_stale = storage.name in plan.residents and s in written
                state.on_host = 0 if is_stale else 1
        for name, offset in plan.residents.items():
            self._check(name in self.number, -1, f"{name} is resident, but there is no such tensor")
            self._place(-1, self.number[name], offset)
        latest = [-1, -1, -1]
        for at, action in enumerate(plan.actions):
            self._tick(at, action, latest)
            match action:
                case Run():
                    self._run_operator(at, action)
                case SwapOut():
                    self._swap_out(at, action)
                case SwapIn():
                    self._swap_in(at, action)
        self._check_end()

    def _check(self, holds: bool, at: int, message: str) -> None:
        if not holds:
            raise self._error(at, message)

    def _error(self, at: int, message: str) -> InvalidMemoryPlan:
        where = "at the beginning" if at < 0 else f"action {at} ({self.plan.actions[at]})"
        return InvalidMemoryPlan(f"{where}: {message}")

    # -- who happens before whom ------------------------------------------------------------------

    def _tick(self, at: int, action: Action, latest: list[int]) -> None:
        own = STREAMS.index(action.stream)
        clock = list(NEVER if latest[own] < 0 else self.clocks[latest[own]])
        for stream, before in enumerate(action.after):
            if before < 0:
                continue
            is_earlier = before < at and self.stream_of[before] == stream
            self._check(is_earlier, at, f"it cannot wait for {before} of stream {STREAMS[stream]}")
            clock = [max(a, b) for a, b in zip(clock, self.clocks[before], strict=True)]
        clock[own] = at
        latest[own] = at
        self.clocks.append((clock[0], clock[1], clock[2]))
        self.stream_of.append(own)

    def _is_before(self, first: int, then: int) -> bool:
        return first < 0 or self.clocks[then][self.stream_of[first]] >= first

    def _follows(self, at: int, touched: list[int]) -> bool:
        """Whether an action comes after all that touched something."""
        if at < 0:
            return all(t < 0 for t in touched)
        return all(self._is_before(t, at) for t in touched)

    def _touch(self, at: int, span: _Span) -> None:
        span.touched[self.stream_of[at]] = at

    # -- memory -----------------------------------------------------------------------------------

    def _place(self, at: int, s: int, offset: int, over: int | None = None) -> None:
        """Put a storage somewhere; what was there is gone, and may be `over` if in use now."""
        start, stop = offset, offset + self.problem.storages[s].nbytes
        name = self.problem.storages[s].name
        inside = start >= 0 and stop <= self.plan.arena
        self._check(inside, at, f"{name} at {start:,} to {stop:,} is not inside the arena")
        if (old := self.states[s].span) is not None:
            old.owner = None
        first = bisect_right(self.spans, start, key=_start) - 1
        last = first
        kept: list[_Span] = []
        while last < len(self.spans) and self.spans[last].start < stop:
            span = self.spans[last]
            last += 1
            if not self._follows(at, span.touched):
                who = "others" if span.owner is None else self.problem.storages[span.owner].name
                self._check(False, at, f"{name} overlaps {who}, which may still be in use")
            if span.owner is not None:
                in_use = at < 0 or (span.touched[0] == at and span.owner != over)
                self._check(not in_use, at, f"{name} overlaps what is in use at the same time")
                self.states[span.owner].span = None
            if span.start < start:
                kept.append(_Span(span.start, start, None, list(span.touched)))
            if span.stop > stop:
                kept.append(_Span(stop, span.stop, None, list(span.touched)))
        new = _Span(start, stop, s, [-1, -1, -1])
        self.spans[first:last] = sorted([*kept, new], key=_start)
        state = self.states[s]
        state.span, state.brought = new, at
        if at >= 0:
            self._touch(at, new)

    def _read(self, at: int, s: int) -> _Span:
        state, name = self.states[s], self.problem.storages[s].name
        span = state.span
        if span is None:
            raise self._error(at, f"it reads {name}, which is not on the device")
        self._check(
            self._is_before(state.brought, at), at, f"it does not wait until {name} has arrived"
        )
        return span

    # -- actions ----------------------------------------------------------------------------------

    def _run_operator(self, at: int, action: Run) -> None:
        self._check(action.name in self.operator, at, "there is no such operator")
        i = self.operator[action.name]
        op = self.problem.operators[i]
        spans = {s: self._read(at, s) for s in op.reads}
        for s in op.writes:
            name = self.problem.storages[s].name
            free = self._follows(at, spans[s].touched)
            self._check(free, at, f"it writes {name}, which is being read")
        for span in spans.values():
            self._touch(at, span)
        versions = tuple(self.states[s].here for s in op.reads)
        if action.again:
            known = self.read_versions.get(i)
            same = op.repeats and not op.writes and known == versions
            self._check(same, at, "it cannot run again: it would compute something else")
        else:
            self._check(i not in self.read_versions, at, "it has run already")
            ready = all(b in self.read_versions for b in self.problem.predecessors[i])
            self._check(ready, at, "it runs before what it depends on")
            self.read_versions[i] = versions
        made = {self.problem.storages[s].name for s in op.makes}
        self._check(made == set(action.places), at, f"it has to place {', '.join(sorted(made))}")
        for s in op.writes:
            state = self.states[s]
            state.version += 1
            state.here = state.version
        for n, s in enumerate(op.makes):
            is_new = action.again or self.states[s].span is None
            self._check(is_new, at, f"{self.problem.storages[s].name} is there already")
            offset = action.places[self.problem.storages[s].name]
            self._place(at, s, offset, over=op.over if n == 0 else None)
            state = self.states[s]
            state.version = state.here = 1

    def _swap_out(self, at: int, action: SwapOut) -> None:
        self._check(action.name in self.number, at, "there is no such tensor")
        s = self.number[action.name]
        span = self._read(at, s)
        self._check(self._is_before(span.touched[0], at), at, "it does not wait for its last user")
        self._touch(at, span)
        state = self.states[s]
        state.on_host, state.copied = state.here, at

    def _swap_in(self, at: int, action: SwapIn) -> None:
        self._check(action.name in self.number, at, "there is no such tensor")
        s = self.number[action.name]
        state = self.states[s]
        current = state.version > 0 and state.on_host == state.version
        self._check(current, at, "the host has no copy of its latest value")
        self._check(self._is_before(state.copied, at), at, "it does not wait for its swap-out")
        self._place(at, s, action.offset)

    # -- the end ----------------------------------------------------------------------------------

    def _check_end(self) -> None:
        missing = [op.name for i, op in enumerate(self.problem.operators)
                   if i not in self.read_versions]  # fmt: skip
        if missing:
            raise InvalidMemoryPlan(f"{len(missing)} operators never run, {missing[0]} first")
        for s, storage in enumerate(self.problem.storages):
            state = self.states[s]
            host = state.version > 0 and state.on_host == state.version
            home = self.plan.residents.get(storage.name)
            if home is not None and (state.span is None or state.span.start != home):
                raise InvalidMemoryPlan(f"{storage.name} begins at {home:,}, but ends elsewhere")
            if storage.ends == "kept" and not host and state.span is None:
                raise InvalidMemoryPlan(f"{storage.name} is lost, though it has to be kept")
            if storage.ends == "home" and not host and home is None:
                raise InvalidMemoryPlan(f"the host never gets the latest value of {storage.name}")

    def check_times(self) -> None:
        """What nothing but the prediction depends on."""
        plan = self.plan
        if len(plan.starts) != len(plan.actions) or len(plan.ends) != len(plan.actions):
            raise InvalidMemoryPlan("every action needs its predicted start and end")
        latest = [-1, -1, -1]
        for at, (action, taken) in enumerate(
            zip(plan.actions, durations(plan, self.problem), strict=True)
        ):
            own = self.stream_of[at]
            waits = [n for n in (*action.after, latest[own]) if n >= 0]
            start = max((plan.ends[n] for n in waits), default=0)
            self._check(plan.starts[at] >= start, at, "it starts before what it waits for ends")
            self._check(plan.ends[at] - plan.starts[at] == taken, at,
                        "its predicted duration is not that of the problem")  # fmt: skip
            latest[own] = at
