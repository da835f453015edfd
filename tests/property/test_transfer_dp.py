"""The fewest bytes from the host: equal to trying everything, and never more than a plan copies."""

from itertools import combinations
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.memory import Choice, Planner, find_plan, least_bytes_in, program_order
from graphwright.plans import MemoryProblem, Operator, Storage


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
