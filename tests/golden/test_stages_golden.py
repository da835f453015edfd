"""Plan, task graph and program of small models, as text: any change of them shows as a difference.

Two devices so slow, with links so fast, that even these models are worth splitting; costs by
formulas, so that the files are the same on every machine.
"""

from functools import cache

import numpy as np
import pytest

from graphwright.ir import Graph
from graphwright.lower import lower
from graphwright.machine import Cluster, Device, Level
from graphwright.partition import data_parallel, plan
from graphwright.plans import CATEGORIES, KINDS, Plan, TaskGraph
from graphwright.simulate import CostModel
from graphwright.tasks import expand
from random_plans import zoo_graph

COSTS = CostModel(measured=False)
MODELS = ("mlp", "lenet", "dlrm", "rnnlm-2")
WAYS = ("data", "fastest")


def slow_pair() -> Cluster:
    device = Device(name="slow", memory=10**9, rates={"float32": 1e8}, bandwidth=1e8, launch=1e-6)
    level = Level(name="gpu", count=2, bandwidth=1e9, latency=1e-6)
    return Cluster(name="slow pair", levels=(level,), devices=(device, device))


@cache
def planned(name: str, way: str) -> tuple[Graph, Plan]:
    graph = zoo_graph(name)
    if way == "data":
        return graph, data_parallel(graph, slow_pair())
    compile_kernels()
    return graph, plan(graph, slow_pair(), costs=COSTS).fastest()


@cache
def compile_kernels() -> None:
    """A search has some seconds for what is not exact; compiling its kernels is none of it."""
    plan(zoo_graph("mlp"), slow_pair(), costs=COSTS)


def plan_text(graph: Graph, plan: Plan) -> str:
    lines = [f"{plan.algorithm} on {plan.cluster.name}: {plan.figures}", "", "inputs"]
    lines += [f"  {name} {sharding}" for name, sharding in sorted(plan.inputs.items())]
    lines += ["", "keep"] if plan.keep else []
    lines += [f"  {name} {kept}" for name, kept in sorted(plan.keep.items())]
    lines += ["", "strategies"]
    lines += [f"  {node.name}: {node.op}, {plan.strategy(node.name)}" for node in graph.nodes]
    return "\n".join(lines) + "\n"


def tasks_text(graph: Graph, tasks: TaskGraph) -> str:
    """A line for each task: its time, what it waits for and occupies, what it reads and makes."""
    before = [[] for _ in range(len(tasks) + 1)]
    for t in range(len(tasks)):
        for later in tasks.succ[tasks.succ_ptr[t] : tasks.succ_ptr[t + 1]].tolist():
            before[later].append(str(t))
    v = tasks.values
    makes, uses, over = ([[] for _ in range(len(tasks) + 1)] for _ in range(3))
    for rows, value, task in (
        (makes, v.birth_value, v.birth_task),
        (uses, v.use_value, v.use_task),
        (over, v.over_value, v.over_task),
    ):
        for number, t in zip(value.tolist(), task.tolist(), strict=True):
            rows[t].append(f"v{number}")
    lines = ["tasks"]
    for t in range(len(tasks) + 1):
        if t == len(tasks):
            words = ["end"]
        elif tasks.kind[t]:
            kind, label = KINDS[tasks.kind[t]], tasks.labels[tasks.node[t]]
            words = [f"{label} ({kind}), {tasks.nbytes[t]} bytes, {tasks.duration[t]} ps"]
            links = slice(tasks.resource_ptr[t], tasks.resource_ptr[t + 1])
            pairs = zip(tasks.resource[links].tolist(), tasks.load[links].tolist(), strict=True)
            words += [f"{tasks.resource_names[r]} {load}" for r, load in pairs]
        else:
            node = graph.nodes[tasks.node[t]].name
            words = [f"{node} on {tasks.device[t]}, {tasks.duration[t]} ps"]
        for word, rows in (("after", before), ("uses", uses), ("makes", makes), ("over", over)):
            words += [f"{word} {' '.join(rows[t])}"] if rows[t] else []
        lines.append(f"  {t}: {', '.join(words)}")
    lines += ["", "values"]
    for number in range(len(v)):
        lives = "; lives between steps" if v.persistent[number] else ""
        what = CATEGORIES[v.category[number]]
        lines.append(f"  v{number}: {v.nbytes[number]} {what} on {v.device[number]}{lives}")
    assert np.array_equal(np.sort(tasks.key), tasks.key)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_plan(name, way, golden):
    graph, plan = planned(name, way)
    golden(f"plan/{name}-{way}.txt", plan_text(graph, plan))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["mlp", "dlrm"])
def test_task_graph(name, way, golden):
    graph, plan = planned(name, way)
    golden(f"tasks/{name}-{way}.txt", tasks_text(graph, expand(graph, plan, COSTS)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_program(name, way, golden):
    graph, plan = planned(name, way)
    program = lower(graph, plan, costs=COSTS).program(1)
    homes = (f"# {tensor}: {sharding}" for tensor, sharding in program.shardings.items())
    golden(f"program/{name}-{way}.txt", "\n".join([*homes, str(program), ""]))
