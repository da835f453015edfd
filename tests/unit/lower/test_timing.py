"""Instructions take what the simulation says: calls in all what a device computes, transfers what their tasks take."""

import pytest

from graphwright.lower import InstructionTimes, lower
from graphwright.machine import cluster
from graphwright.partition import data_parallel, random_plan
from graphwright.plans import Call, Collective, Exchange, Together
from graphwright.simulate import CostModel, simulate
from random_plans import zoo_graph

COSTS = CostModel(measured=False)


@pytest.mark.parametrize("kind", ["data", "random"])
def test_calls_take_what_a_device_computes(kind):
    graph, on = zoo_graph("mlp"), cluster("p3.16xlarge")
    plan = data_parallel(graph, on) if kind == "data" else random_plan(graph, on, 3)
    timeline = simulate(graph, plan, costs=COSTS)
    lowered = lower(graph, plan)
    times = InstructionTimes(lowered, COSTS)
    for rank in range(on.num_devices):
        program = lowered.program(rank)
        spent = zip(program.instructions, times.of(program), strict=True)
        computing = sum(time for what, time in spent if isinstance(what, Call)) / 1e12
        assert computing == pytest.approx(timeline.computing[rank])


def test_all_ranks_of_a_transfer_see_the_same_time():
    graph = zoo_graph("mlp")
    lowered = lower(graph, random_plan(graph, cluster("local:3"), 1))
    times = InstructionTimes(lowered, COSTS)
    known = {}
    for rank in range(3):
        program = lowered.program(rank)
        for what, time in zip(program.instructions, times.of(program), strict=True):
            match what:
                case Collective(tag=tag) | Together(sums=(Collective(tag=tag), *_)):
                    assert known.setdefault(tag, time) == time > 0
                case Exchange(tag=tag) if what.sends or what.receives:
                    assert known.setdefault(tag, time) == time > 0
                case Exchange():
                    assert time == 0
    assert known


def test_every_value_has_its_type():
    graph = zoo_graph("mlp")
    lowered = lower(graph, random_plan(graph, cluster("local:3"), 1))
    for rank in range(3):
        program = lowered.program(rank)
        for name, box in program.homes.items():
            type = program.types[program.inputs[name]]
            assert type.shape == tuple(stop - start for start, stop in box)
            assert type.dtype == graph.tensors[name].type.dtype
        for old, new in program.updates.items():
            assert program.types[new] == program.types[program.inputs[old]]
