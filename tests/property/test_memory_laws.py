"""Plans of random problems are valid, are timed as the simulator times them, and never beat what is possible."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwright.memory import Choice, Planner, program_order, task_graph
from graphwright.plans import InvalidMemoryPlan, MemoryPlan, retime, verify_actions, verify_memory
from graphwright.simulate import memory, schedule, verify_task_graph
from memory_problems import random_problem

CHOICES = (
    Choice(),
    Choice(pressure=1.0),
    Choice(policy="belady"),
    Choice(policy="belady", threshold=3),
    Choice(policy="lru", lookahead=2),
    Choice(homing=1.0),
    Choice(homing=1.0, recompute=1.0, gap=0.0),
    Choice(recompute=1.0, gap=0.0),
    Choice(recompute=10.0, gap=0.1),
)


@st.composite
def planned(draw):
    problem = random_problem(draw)
    capacity = max(problem.needs) + draw(st.integers(0, 20))
    choice = draw(st.sampled_from(CHOICES))
    return problem, Planner(problem).plan(program_order(problem), capacity, choice)


@given(planned())
def test_every_capacity_that_holds_one_operator_has_a_valid_plan(case):
    problem, plan = case
    assert isinstance(plan, MemoryPlan)
    verify_memory(plan, problem)
    assert plan.makespan >= problem.compute_time


@given(st.data(), st.sampled_from((0.3, 0.7, 1.0)))
def test_a_step_may_begin_with_any_share_of_what_lasts(data, keep):
    """A plan that begins with more than stays is none, or right."""
    problem = random_problem(data.draw)
    capacity = max(problem.needs) + data.draw(st.integers(0, 20))
    plan = Planner(problem).plan(program_order(problem), capacity, Choice(keep=keep))
    if plan is not None:
        verify_memory(plan, problem)


@given(planned())
def test_the_planner_times_actions_as_the_simulator_does(case):
    problem, plan = case
    tasks = task_graph(plan, problem)
    verify_task_graph(tasks)
    times = schedule(tasks)
    assert times.start.tolist() == list(plan.starts)
    assert times.end.tolist() == list(plan.ends)
    assert memory(tasks, times).peak[0] <= plan.arena


@given(planned())
def test_plans_are_read_as_they_were_written(tmp_path_factory, case):
    path = tmp_path_factory.mktemp("plans") / "memory.json"
    case[1].save(path)
    assert MemoryPlan.load(path) == case[1]


@given(planned(), st.randoms(use_true_random=False))
def test_a_plan_serves_a_machine_of_other_speeds(case, random):
    """Durations change, the plan stays right, and is timed as the simulator times it."""
    problem, plan = case
    assert retime(plan, problem) == plan
    other = replace(
        problem,
        operators=tuple(replace(o, duration=random.randint(0, 50)) for o in problem.operators),
        storages=tuple(
            replace(s, out_time=random.randint(51, 99), in_time=random.randint(51, 99))
            for s in problem.storages
        ),
    )
    verify_actions(plan, other)
    if plan.count("in") + plan.count("out"):  # copies took at most 6
        with pytest.raises(InvalidMemoryPlan, match=r"duration|starts before"):
            verify_memory(plan, other)
    again = retime(plan, other)
    verify_memory(again, other)
    assert schedule(task_graph(again, other)).end.tolist() == list(again.ends)


@given(planned(), st.randoms(use_true_random=False))
def test_a_plan_that_waits_less_is_refused_or_harmless(case, random):
    """Without one of its control edges a plan is refused, unless another edge implies that one."""
    problem, plan = case
    edges = [
        (at, s) for at, action in enumerate(plan.actions) for s in range(3) if action.after[s] >= 0
    ]
    if not edges:
        return
    at, stream = random.choice(edges)
    after = list(plan.actions[at].after)
    gone, after[stream] = after[stream], -1
    actions = list(plan.actions)
    actions[at] = replace(actions[at], after=tuple(after))
    weaker = replace(plan, actions=tuple(actions))
    tasks = schedule(task_graph(weaker, problem))
    if tasks.start[at] < plan.ends[gone]:  # it would really start earlier: only idle edges may go
        touched = _touched(problem, plan.actions[at]) & _touched(problem, plan.actions[gone])
        if touched:
            with pytest.raises(Exception, match=r"action|copy|wait"):
                verify_memory(weaker, problem)


def _touched(problem, action):
    names = [s.name for s in problem.storages]
    if action.stream != "compute":
        return {action.name}
    op = next(op for op in problem.operators if op.name == action.name)
    return {names[s] for s in (*op.reads, *op.makes)}


@given(planned())
def test_with_room_for_everything_nothing_waits(case):
    """Where all fits, an iteration that begins with its residents copies data alone."""
    problem, _ = case
    room = sum(s.nbytes for s in problem.storages)
    plan = Planner(problem).plan(program_order(problem), room, Choice())
    verify_memory(plan, problem)
    lasting = {s.name for s in problem.storages if s.ends == "home"}
    used = {problem.storages[s].name for op in problem.operators for s in op.reads}
    assert not [a for a in plan.actions if a.stream != "compute" and a.name in lasting & used]
