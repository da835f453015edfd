"""The fewest bytes from the host: equal to trying everything, and never more than a plan copies."""

from itertools import combinations
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.memory import (
    Choice,
    Planner,
    check_transfers,
    find_plan,
    keep_nothing,
    keep_recent,
    keep_soonest,
    least_bytes_in,
    least_transfers,
    program_order,
)
from graphwright.plans import MemoryProblem, Operator, Storage
from memory_problems import random_problem


@st.composite
def small_problems(draw, most=5):
    """A few operators over a few inputs; all may be copied, nothing is written in place."""
    numbers = st.integers(1, 4)
    storages = [
        Storage(name=f"x{n}", nbytes=draw(numbers), out_time=1, in_time=1, begins_on_host=True)
        for n in range(draw(st.integers(0, 2)))
    ]
    operators = []
    for i in range(draw(st.integers(1, most))):
        known = list(range(len(storages)))
        reads = draw(st.lists(st.sampled_from(known), max_size=2, unique=True)) if known else []
        operators.append(
            Operator(name=f"o{i}", reads=tuple(reads), makes=(len(storages),), duration=1)
        )
        storages.append(Storage(name=f"t{i}", nbytes=draw(numbers), out_time=1, in_time=1))
    return MemoryProblem(operators=tuple(operators), storages=tuple(storages))


def try_everything(problem, capacity):
    """Forwards: every order, and after every operator every set of tensors that could stay."""

    def go(done, held):
        if len(done) == len(problem.operators):
            return 0
        least = inf
        for i, op in enumerate(problem.operators):
            if i in done or not set(problem.predecessors[i]) <= done:
                continue
            missing = set(op.reads) - held
            for kept in subsets(held - set(op.reads)):
                at_once = kept | set(op.reads) | set(op.makes)
                if sum(problem.storages[s].nbytes for s in at_once) <= capacity:
                    moved = sum(problem.storages[s].nbytes for s in missing)
                    least = min(least, moved + go(done | {i}, at_once))
        return least

    return go(frozenset(), frozenset())


def subsets(items):
    return (frozenset(c) for k in range(len(items) + 1) for c in combinations(sorted(items), k))


@settings(max_examples=60)
@given(small_problems(most=4), st.integers(0, 8))
def test_it_equals_trying_everything(problem, more):
    capacity = max(problem.needs) + more
    assert least_bytes_in(problem, capacity) == try_everything(problem, capacity)


def test_less_than_one_operator_needs_is_impossible():
    problem = MemoryProblem(
        operators=(Operator(name="o", reads=(), makes=(0,), duration=1),),
        storages=(Storage(name="t", nbytes=4, out_time=1, in_time=1),),
    )
    assert least_bytes_in(problem, 3) == inf
    assert least_bytes_in(problem, 4) == 0


@given(small_problems(most=7), st.integers(0, 6))
def test_no_plan_copies_less(problem, more):
    capacity = max(problem.needs) + more
    least = least_bytes_in(problem, capacity)
    plans = [Planner(problem).plan(program_order(problem), capacity, Choice())]
    plans.append(find_plan(problem, capacity, searches=("greedy",)).plan)
    nbytes = {s.name: s.nbytes for s in problem.storages}
    for plan in plans:
        if not any(a.stream == "compute" and a.again for a in plan.actions):
            assert sum(nbytes[a.name] for a in plan.actions if a.stream == "in") >= least


# -- one order ------------------------------------------------------------------------------------


def try_all_sets(problem, capacity, residents, count_out):
    """Forwards over the problem's own order: after every operator, every set that could stay."""
    ops, storages = problem.operators, problem.storages
    written = {s for op in ops for s in op.writes}
    size = lambda those: sum(storages[s].nbytes for s in those)

    def is_needed(s, i):
        outlives = storages[s].ends == "kept" or (storages[s].ends == "home" and s in written)
        return outlives or any(s in op.reads for op in ops[i:])

    def go(i, held, on_host):
        if i == len(ops):
            late = [s for s in held - residents if storages[s].ends == "home" and s not in on_host]
            return count_out * size(late) if residents <= held else inf
        op, least = ops[i], inf
        for kept in subsets(held - set(op.reads)):
            leaving = held - kept - set(op.reads)
            at_once = kept | (held & set(op.reads)) | set(op.reads) | set(op.makes)
            if size(at_once) > capacity:
                continue
            dirty = {s for s in leaving if s not in on_host and is_needed(s, i)}
            missing = set(op.reads) - held
            if missing - on_host:
                continue
            copied = (on_host | dirty) - set(op.writes) - set(op.makes)
            moved = size(missing) + count_out * size(dirty)
            least = min(least, moved + go(i + 1, frozenset(at_once), frozenset(copied)))
        return least

    on_host = {s for s, storage in enumerate(storages) if storage.begins_on_host}
    return go(0, frozenset(residents), frozenset(on_host - (residents & written)))


@settings(max_examples=80)
@given(st.data(), st.integers(0, 8), st.booleans())
def test_over_one_order_it_equals_trying_all_sets(data, more, count_out):
    problem = random_problem(data.draw, max_operators=5)
    capacity = (
        max(
            sum(problem.storages[s].nbytes for s in {*op.reads, *op.makes})
            for op in problem.operators
        )
        + more
    )
    chosen = least_transfers(problem, capacity, count_out=count_out)
    assert chosen.is_least
    assert check_transfers(problem, capacity, chosen) == chosen
    read = {s for op in problem.operators for s in op.reads}
    lasting = [
        s for s in read if problem.storages[s].ends == "home" and problem.storages[s].begins_on_host
    ]
    best = min(
        try_all_sets(problem, capacity, frozenset(residents), count_out)
        for count in range(len(lasting) + 1)
        for residents in combinations(lasting, count)
    )
    assert chosen.bytes_in + count_out * chosen.bytes_out == best


@given(st.data(), st.integers(0, 12))
def test_nothing_else_copies_less_over_the_same_order(data, more):
    """Least recently used and streaming fit, are counted right, and copy at least as much."""
    problem = random_problem(data.draw, max_operators=9)
    capacity = (
        max(
            sum(problem.storages[s].nbytes for s in {*op.reads, *op.makes})
            for op in problem.operators
        )
        + more
    )
    least = least_transfers(problem, capacity)
    for keep in (keep_recent, keep_nothing, keep_soonest):
        choice = keep(problem, capacity)
        assert check_transfers(problem, capacity, choice) == choice
        assert least.nbytes <= choice.nbytes
    assert not least.is_least or least_transfers(problem, capacity + 5).nbytes <= least.nbytes


@given(small_problems(most=6), st.integers(0, 6))
def test_the_best_order_copies_no_more_than_the_given_one(problem, more):
    capacity = max(problem.needs) + more
    one = least_transfers(problem, capacity, count_out=False)
    assert least_bytes_in(problem, capacity) <= one.bytes_in
