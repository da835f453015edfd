"""Laws of schedules: the full simulation obeys the law that it states, the incremental one equals it to the last bit."""

from __future__ import annotations

import heapq
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.plans import CATEGORIES, TaskGraph
from graphwright.simulate.delta.schedule import DeltaSchedule
from graphwright.simulate.engine import Schedule, schedule
from graphwright.simulate.memory import memory
from task_graphs import (
    Mirror,
    lockstep,
    make_task_graph,
    make_values,
    random_resources,
    random_task_graph,
    training_step,
)

seeds = st.integers(0, 2**32 - 1)


def successors(g: TaskGraph, t: int) -> list[int]:
    return g.succ[g.succ_ptr[t] : g.succ_ptr[t + 1]].tolist()


def resources(g: TaskGraph, t: int) -> list[int]:
    return g.resource[g.resource_ptr[t] : g.resource_ptr[t + 1]].tolist()


def reference(g: TaskGraph) -> tuple[list[int], list[int], list[int], list[int]]:
    """The law, slowly: ready, start, end, and the order of (ready, key)."""
    n = len(g)
    predecessors: dict[int, list[int]] = {t: [] for t in range(n)}
    for t in range(n):
        for s in successors(g, t):
            predecessors[s].append(t)
    missing = {t: len(predecessors[t]) for t in range(n)}
    queue = [(0, int(g.key[t]), t) for t in range(n) if not missing[t]]
    heapq.heapify(queue)
    ready, start, end, order = [0] * n, [0] * n, [0] * n, []
    previous: dict[int, int] = {}
    while queue:
        time, _, t = heapq.heappop(queue)
        ready[t] = time
        order.append(t)
        start[t] = max([ready[t], *(end[previous[r]] for r in resources(g, t) if r in previous)])
        end[t] = start[t] + int(g.duration[t])
        previous |= dict.fromkeys(resources(g, t), t)
        for s in successors(g, t):
            missing[s] -= 1
            if not missing[s]:
                heapq.heappush(queue, (max(end[p] for p in predecessors[s]), int(g.key[s]), s))
    return ready, start, end, order


@given(seed=seeds, n=st.integers(0, 60), num_resources=st.integers(1, 6), longest=st.integers(0, 4))
def test_full_simulation_obeys_the_law(seed, n, num_resources, longest):
    g = random_task_graph(np.random.default_rng(seed), n, num_resources, longest=longest)
    s = schedule(g)
    ready, start, end, order = reference(g)
    assert s.ready.tolist() == ready
    assert s.start.tolist() == start
    assert s.end.tolist() == end
    assert s.order.tolist() == order
    assert s.makespan == max(end, default=0)


@given(seed=seeds, n=st.integers(1, 60), num_resources=st.integers(1, 6))
def test_makespan_has_its_lower_bounds_and_tasks_do_not_overlap(seed, n, num_resources):
    g = random_task_graph(np.random.default_rng(seed), n, num_resources, longest=50)
    s = schedule(g)
    longest = [0] * n
    for t in reversed(range(n)):
        rest = max((longest[u] for u in successors(g, t)), default=0)
        longest[t] = rest + int(g.duration[t])
    assert s.makespan >= max(longest)
    for r in range(num_resources):
        users = [t for t in s.order.tolist() if r in resources(g, t)]
        assert s.makespan >= sum(int(g.duration[t]) for t in users)
        assert all(s.end[a] <= s.start[b] for a, b in pairwise(users))
    for t in range(n):
        assert all(s.end[t] <= s.ready[u] <= s.start[u] for u in successors(g, t))


def assert_same(delta: DeltaSchedule, mirror: Mirror) -> Schedule:
    """The incremental schedule is the full one of the same graph."""
    full = schedule(mirror.task_graph())
    slots, ready, start, end = delta.times()
    keys = sorted(mirror.tasks)
    assert [mirror.slot[keys[t]] for t in full.order.tolist()] == slots.tolist()
    assert np.array_equal(full.ready[full.order], ready)
    assert np.array_equal(full.start[full.order], start)
    assert np.array_equal(full.end[full.order], end)
    assert delta.makespan == full.makespan
    return full


def change(rng: np.random.Generator, delta: DeltaSchedule, mirror: Mirror, longest: int) -> None:
    """A random proposal: some tasks near each other go, others come and are linked, survivors are linked."""
    keys = sorted(mirror.tasks)
    last = keys[-1] if keys else 0
    centre = int(rng.integers(0, last + 20))
    if rng.random() < 0.7 and keys:
        near = sorted(keys, key=lambda k: abs(k - centre))[: int(rng.integers(1, 9))]
        gone = [k for k in near if rng.random() < 0.6]
        if gone:
            mirror.remove(delta, gone)
    if rng.random() < 0.8:
        spots = {max(0, centre + int(x)) for x in rng.integers(-15, 16, int(rng.integers(1, 9)))}
        fresh = sorted(spots - set(mirror.tasks))
        mirror.add(
            delta,
            {
                k: (
                    int(rng.integers(0, longest + 1)),
                    random_resources(rng, mirror.num_resources),
                )
                for k in fresh
            },
        )
        if fresh and rng.random() < 0.2:
            mirror.remove(delta, [fresh.pop()])
        keys = sorted(mirror.tasks)
        links = []
        for k in fresh:
            at = keys.index(k)
            links += [(a, k) for a in keys[max(0, at - 20) : at] if rng.random() < 0.1]
            links += [(k, b) for b in keys[at + 1 : at + 20] if rng.random() < 0.1]
        mirror.link(delta, links)
    keys = sorted(mirror.tasks)
    if rng.random() < 0.3 and len(keys) > 1:
        a, b = sorted(rng.choice(len(keys), 2, replace=False).tolist())
        mirror.link(delta, [(keys[a], keys[b])])


@pytest.mark.parametrize("longest", [0, 1, 3, 1000])
@pytest.mark.parametrize("num_resources", [1, 4])
def test_delta_equals_full_after_each_of_many_changes(longest, num_resources):
    rng = np.random.default_rng([longest, num_resources])
    g = random_task_graph(rng, 80, num_resources, longest=longest)
    delta, slots = DeltaSchedule.of(g)
    mirror = Mirror(g, slots)
    assert_same(delta, mirror)
    for _ in range(1000):
        proposed = mirror.copy()
        change(rng, delta, proposed, longest)
        if rng.random() < 0.1:
            delta.evaluate()
            change(rng, delta, proposed, longest)
        assert delta.evaluate() == schedule(proposed.task_graph()).makespan
        if rng.random() < 0.5 and 40 < len(proposed.tasks) < 200:
            delta.accept()
            mirror = proposed
        else:
            delta.reject()
        assert_same(delta, mirror)
    assert delta.stats.total_shifted > 0.1 * delta.stats.evaluations


@pytest.mark.parametrize("longest", [1, 50])
def test_delta_equals_full_on_graphs_of_many_blocks(longest):
    rng = np.random.default_rng(longest)
    g = random_task_graph(rng, 1500, 12, longest=longest, reach=60)
    delta, slots = DeltaSchedule.of(g)
    mirror = Mirror(g, slots)
    most_windows = 0
    for _ in range(150):
        proposed = mirror.copy()
        for _ in range(int(rng.integers(1, 4))):
            change(rng, delta, proposed, longest)
        assert delta.evaluate() == schedule(proposed.task_graph()).makespan
        most_windows = max(most_windows, delta.stats.num_windows)
        if rng.random() < 0.7:
            delta.accept()
            mirror = proposed
        else:
            delta.reject()
        assert_same(delta, mirror)
    assert most_windows > 2


@settings(max_examples=60)
@given(seed=seeds, n=st.integers(0, 30), num_resources=st.integers(1, 4), longest=st.integers(0, 3))
def test_delta_equals_full_from_any_small_graph(seed, n, num_resources, longest):
    rng = np.random.default_rng(seed)
    g = random_task_graph(rng, n, num_resources, longest=longest, reach=8)
    delta, slots = DeltaSchedule.of(g)
    mirror = Mirror(g, slots)
    for _ in range(10):
        proposed = mirror.copy()
        change(rng, delta, proposed, longest)
        assert delta.evaluate() == schedule(proposed.task_graph()).makespan
        if rng.random() < 0.6:
            delta.accept()
            mirror = proposed
        else:
            delta.reject()
        assert_same(delta, mirror)


def some_tasks(rng: np.random.Generator, mirror: Mirror) -> list[int]:
    """The keys of a few tasks in a row."""
    at = int(rng.integers(0, len(mirror.tasks)))
    return sorted(mirror.tasks)[at : at + int(rng.integers(1, 5))]


def replace_tasks(rng, delta: DeltaSchedule, mirror: Mirror, chosen: list[int], longest: int):
    """Give tasks another duration, as a change of one operator's strategy does; edges stay."""
    new, links = {}, []
    factor = int(rng.integers(0, longest))
    for k in chosen:
        before, behind = mirror.neighbours(k)
        links += [(a, k) for a in before] + [(k, b) for b in behind]
        new[k] = (factor, mirror.tasks[k][1])
    mirror.remove(delta, chosen)
    mirror.add(delta, new)
    mirror.link(delta, links)


@pytest.mark.parametrize("spread", [0, 3000])
def test_devices_in_lockstep_shift(spread):
    """A barrier brings all devices together again, so what follows is shifted and not simulated."""
    rng = np.random.default_rng(spread)
    g = lockstep(8, 240, spread=spread)
    delta, slots = DeltaSchedule.of(g)
    mirror = Mirror(g, slots)
    for _ in range(150):
        proposed = mirror.copy()
        replace_tasks(rng, delta, proposed, some_tasks(rng, proposed), 100_000)
        makespan = delta.evaluate()
        assert makespan == schedule(proposed.task_graph()).makespan
        if rng.random() < 0.3:
            delta.accept()
            mirror = proposed
            assert_same(delta, mirror)
        else:
            delta.reject()
    assert_same(delta, mirror)
    assert delta.stats.total_shifted > 0.9 * delta.stats.evaluations
    assert delta.stats.total_retimed < 0.1 * len(g) * delta.stats.evaluations


@pytest.mark.parametrize("transfer", [0.3, 0.9, 1.3])
def test_a_change_of_a_forward_operator_has_a_window_in_the_backward_pass(transfer):
    rng = np.random.default_rng(3)
    g = training_step(4, 60, transfer=transfer)
    delta, slots = DeltaSchedule.of(g)
    mirror = Mirror(g, slots)
    most_windows = 0
    for _ in range(200):
        proposed = mirror.copy()
        layer = 4 * int(rng.integers(60))  # keys are the numbers of the tasks here
        replace_tasks(rng, delta, proposed, list(range(layer, layer + 4)), 10_000)
        if rng.random() < 0.1:
            replace_tasks(rng, delta, proposed, some_tasks(rng, proposed), 10_000)
        assert delta.evaluate() == schedule(proposed.task_graph()).makespan
        most_windows = max(most_windows, delta.stats.num_windows)
        if rng.random() < 0.4:
            delta.accept()
            mirror = proposed
            assert_same(delta, mirror)
        else:
            delta.reject()
    assert most_windows > 1
    assert delta.stats.total_shifted > 0
    assert delta.stats.total_retimed < 0.5 * len(g) * delta.stats.evaluations


def test_slots_edges_and_pools_are_used_again():
    rng = np.random.default_rng(7)
    g = lockstep(4, 60)
    delta, slots = DeltaSchedule.of(g)
    mirror = Mirror(g, slots)
    for _ in range(400):
        replace_tasks(rng, delta, mirror, some_tasks(rng, mirror), 1000)
        delta.accept()
    assert_same(delta, mirror)
    assert delta._num_slots < 1.2 * len(g)
    assert delta._num_edges < 1.2 * g.num_edges + 100
    assert len(delta._graph.resources) < 8 * len(g.resource) + 1024


@given(seed=seeds, n=st.integers(1, 20), num_values=st.integers(0, 25))
def test_memory_equals_counting_at_every_moment(seed, n, num_values):
    rng = np.random.default_rng(seed)
    num_devices = 3
    values = make_values(
        [
            (
                int(rng.integers(0, 2**40)),
                int(rng.integers(0, num_devices)),
                int(rng.integers(0, len(CATEGORIES))),
                bool(rng.random() < 0.2),
                rng.integers(0, n, int(rng.integers(1, 3))).tolist(),
                rng.integers(0, n, int(rng.integers(0, 4))).tolist(),
            )
            for _ in range(num_values)
        ]
    )
    base = random_task_graph(rng, n, 2, longest=3)
    g = make_task_graph(
        base.duration,
        [(t, s) for t in range(n) for s in successors(base, t)],
        [resources(base, t) for t in range(n)],
        num_resources=2,
        values=values,
        num_devices=num_devices,
    )
    s = schedule(g)
    result = memory(g, s)

    def held(device: int, moment: int) -> list[int]:
        total = [0] * len(CATEGORIES)
        for v in range(num_values):
            births = values.birth_task[values.birth_value == v]
            tasks = np.concatenate([births, values.use_task[values.use_value == v]])
            exists = values.persistent[v] or (s.start[births].min() <= moment < s.end[tasks].max())
            if values.device[v] == device and exists:
                total[values.category[v]] += int(values.nbytes[v])
        return total

    for device in range(num_devices):
        by_moment = [held(device, moment) for moment in range(s.makespan + 1)]
        totals = [sum(row) for row in by_moment]
        assert result.peak[device] == max(totals)
        assert result.peak_time[device] == totals.index(max(totals))
        at_peak = by_moment[totals.index(max(totals))]
        assert result.breakdown(device) == dict(zip(CATEGORIES, at_peak, strict=True))
        times, curve = result.curve(device)
        moments = np.round(times * 1e12).astype(np.int64)
        assert moments[0] == 0 and np.all(np.diff(moments) > 0)
        for moment in range(s.makespan + 1):
            at = np.searchsorted(moments, moment, side="right") - 1
            assert curve[:, at].tolist() == by_moment[moment]
