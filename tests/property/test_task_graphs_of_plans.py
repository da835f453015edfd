"""Task graphs of random plans: complete, consistent with the shardings, and timed within their bounds."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import prod
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.ir import Graph, GraphBuilder, Role
from graphwright.machine import Cluster, Device, Level
from graphwright.partition import baseline
from graphwright.plans import (
    Along,
    Mesh,
    Partial,
    Replicated,
    Sharding,
    Split,
    Strategy,
    boxes,
    local_bytes,
    make_plan,
    on_one,
)
from graphwright.simulate import CostModel, Incremental, verify_task_graph
from graphwright.simulate.engine import schedule
from graphwright.simulate.memory import memory
from graphwright.tasks import Expansion, GraphFacts, assemble, expand, find_moves, reshard
from random_plans import any_plan, chain, matrix, random_graph, two_pass_graph, zoo_graph
from reshardings import Formulas, implied_bytes, random_cluster


class Case:
    """A random graph under a random plan on a random cluster."""

    def __init__(self, seed: int, make_graph: Callable[[Random], Graph] = random_graph) -> None:
        rng = Random(seed)
        self.graph = make_graph(rng)
        self.plan = any_plan(rng, self.graph, random_cluster(rng, 8))
        self.x = Expansion(GraphFacts(self.graph), self.plan, Formulas())
        self.tasks = assemble(self.x)

    def __repr__(self) -> str:
        plan = self.plan
        return f"{self.graph}\n{plan} {dict(plan.strategies)} {dict(plan.inputs)} {dict(plan.keep)}"


cases = st.one_of(
    st.integers(0, 2**32).map(Case),
    st.integers(0, 2**32).map(lambda seed: Case(seed, two_pass_graph)),
)


def check_bytes(x, tasks):
    """What the transfers carry is what the shardings imply, move by move."""
    implied = 0
    for name, tensor in x.facts.graph.tensors.items():
        for move in find_moves(x, name):
            source, target = move.movement.source, move.target
            costs = x.cache.pooled if x.facts.is_gathered(name) else x.costs
            hops = reshard(x.cluster, costs, tensor.type, source, target).hops
            implied += sum(implied_bytes(priced, tensor.type) for priced in hops)
    assert int(tasks.nbytes.sum()) == implied
    assert not tasks.nbytes[tasks.kind == 0].any()


def check_bounds(tasks):
    """No schedule is shorter than its longest chain or its busiest resource."""
    times = schedule(tasks)
    longest = np.zeros(len(tasks), np.int64)
    busy = np.zeros(tasks.num_resources, np.int64)
    for t in range(len(tasks)):
        longest[t] += tasks.duration[t]
        busy[tasks.resource[tasks.resource_ptr[t] : tasks.resource_ptr[t + 1]]] += tasks.duration[t]
        for s in tasks.succ[tasks.succ_ptr[t] : tasks.succ_ptr[t + 1]]:
            longest[s] = max(longest[s], longest[t])
    assert times.makespan >= longest.max(initial=0)
    assert times.makespan >= busy.max(initial=0)


@given(cases)
def test_task_graphs_are_valid_and_carry_what_shardings_imply(case):
    verify_task_graph(case.tasks)
    check_bytes(case.x, case.tasks)
    check_bounds(case.tasks)
    computing = case.tasks.kind == 0
    assert int(computing.sum()) == sum(len(p.mesh) for p in case.x.placed)


@pytest.mark.parametrize("name", ["lenet", "mlp", "rnnlm"])
def test_models(name):
    rng = Random(7)
    graph, cluster = zoo_graph(name), random_cluster(rng, 8)
    costs = CostModel(measured=False)
    plans = [baseline(recipe, graph, cluster) for recipe in ("data", "layers", "replicate")]
    for plan in [*plans, any_plan(rng, graph, cluster)]:
        x = Expansion(GraphFacts(graph), plan, costs)
        tasks = assemble(x)
        verify_task_graph(tasks)
        check_bytes(x, tasks)
        check_bounds(tasks)
        check_arrivals(x, tasks)


@given(cases)
def test_parts_make_up_their_tensors(case):
    for name, tensor in case.graph.tensors.items():
        sharding = case.x.source(name)
        pairs = zip(sharding.placements, sharding.mesh.shape, strict=True)
        copies = prod(n for p, n in pairs if not isinstance(p, Split))
        assert local_bytes(sharding, tensor.type).sum() == copies * tensor.type.nbytes


def test_new_values_of_several_inputs():
    """One tensor replaces two inputs, and an input replaces another: all of them get to where the old one lives."""
    build = GraphBuilder()
    x = build.add_input("x", matrix(4, 4))
    olds = [build.add_input(name, matrix(4, 4), Role.BUFFER) for name in "pqr"]
    (y,) = build.add("aten.mm", [x, olds[0]], {}, matrix(4, 4))
    graph = build.build([y, x], {"p": y, "q": y, "r": x})
    mesh = Mesh((0, 1), (2,))
    lives = {"p": Split(0), "q": Split(1), "r": Split(0), "x": Replicated()}
    inputs = {name: Sharding(mesh, (p,)) for name, p in lives.items()}
    plan = make_plan(graph, two_devices(1e9, 1e9), {y: Strategy((Along("k"),))}, inputs=inputs)
    x = Expansion(GraphFacts(graph), plan, Formulas())
    tasks = assemble(x)
    verify_task_graph(tasks)
    check_bytes(x, tasks)
    assert {str(move.target) for move in find_moves(x, y)} == {"[S0]", "[S1]"}
    assert [str(move.target) for move in find_moves(x, "x")] == ["[S1]", "[S0]"]
    assert Incremental(graph, plan, Formulas()).propose({y: on_one(1)}) > 0


# -- what parts wait for -------------------------------------------------------------------------


def check_arrivals(x, tasks):
    """Whatever a part reads comes from parts that have made all of it, in every term."""
    before = [0] * len(tasks)
    for t in range(len(tasks)):
        for s in tasks.succ[tasks.succ_ptr[t] : tasks.succ_ptr[t + 1]]:
            before[s] |= before[t] | 1 << t
    first = {}
    for t in np.flatnonzero(tasks.kind == 0).tolist():
        first.setdefault(int(tasks.node[t]), t)
    for i, node in enumerate(x.facts.graph.nodes):
        for arg, name in enumerate(node.inputs):
            if name is not None and name in x.facts.producer:
                check_arrival(x, before, first, i, arg, name)


def check_arrival(x, before, first, i, arg, name):
    shape = x.facts.graph.tensors[name].type.shape
    made, needed = x.source(name), x.placed[i].inputs[arg]
    maker = x.facts.producer[name][0]
    held, wanted = boxes(made, shape), boxes(needed, shape)
    for readers in groups(needed):
        box = tuple(slice(a, b) for a, b in wanted[readers[0]].tolist())
        ancestors = 0
        for place in readers:
            ancestors |= before[first[i] + place]
        for makers in terms(made):
            covered = np.zeros(shape, dtype=bool)
            for place in makers:
                if ancestors >> (first[maker] + place) & 1:
                    covered[tuple(slice(a, b) for a, b in held[place].tolist())] = True
            assert covered[box].all(), (
                f"{x.facts.graph.nodes[i].name} reads {name} as {needed}, made as {made}"
            )


def groups(sharding):
    """The places whose terms make one value."""
    return _places(
        sharding, [a for a, p in enumerate(sharding.placements) if not isinstance(p, Partial)]
    )


def terms(sharding):
    """The places that hold one term; all of them where nothing is partial."""
    return _places(
        sharding, [a for a, p in enumerate(sharding.placements) if isinstance(p, Partial)]
    )


def _places(sharding, axes):
    found = {}
    for place, at in enumerate(product(*map(range, sharding.mesh.shape))):
        found.setdefault(tuple(at[a] for a in axes), []).append(place)
    return found.values()


@given(cases)
def test_parts_wait_for_all_that_they_read(case):
    check_arrivals(case.x, case.tasks)


# -- speed ---------------------------------------------------------------------------------------


def two_devices(rate: float, bandwidth: float) -> Cluster:
    device = Device(name="one", memory=10**9, rates={"float32": rate}, bandwidth=1e12, launch=1e-6)
    level = Level(name="gpu", count=2, bandwidth=bandwidth, latency=1e-6)
    return Cluster(name="pair", levels=(level,), devices=(device, device))


@given(st.integers(1, 8), st.lists(st.integers(0, 1), min_size=8, max_size=8))
@settings(max_examples=15)
def test_more_speed_never_makes_a_chain_slower(length, places):
    graph, costs = chain(length), CostModel(measured=False)
    strategies = {n.name: on_one(p) for n, p in zip(graph.nodes, places, strict=False)}
    spans = {}
    for rate, bandwidth in product((1e9, 1e10, 1e12), (1e6, 1e8, 1e10)):
        plan = make_plan(graph, two_devices(rate, bandwidth), strategies)
        spans[rate, bandwidth] = schedule(expand(graph, plan, costs)).makespan
    for (rate, bandwidth), span in spans.items():
        for (faster, wider), other in spans.items():
            if faster >= rate and wider >= bandwidth:
                assert other <= span
    moved = len(set(places[:length])) > 1
    assert (spans[1e9, 1e6] > spans[1e9, 1e10]) == moved


# -- memory --------------------------------------------------------------------------------------


def one_device() -> Cluster:
    pair = two_devices(1e9, 1e9)
    return replace(pair, levels=(replace(pair.levels[0], count=1),), devices=pair.devices[:1])


def peak_by_hand(x, tasks) -> int:
    """On one device, from the graph and the times of its nodes alone: who is alive with whom."""
    graph, times = x.facts.graph, schedule(tasks)
    start = {int(tasks.node[t]): int(times.start[t]) for t in range(len(tasks))}
    end = {int(tasks.node[t]): int(times.end[t]) for t in range(len(tasks))}
    base = {name: name for name in graph.inputs}
    maker = {name: i for i, node in enumerate(graph.nodes) for name in node.outputs}
    for old, new in graph.updates.items():  # written over the old value, if nobody reads that later
        readers = [i for i, node in enumerate(graph.nodes) if old in node.inputs]
        others = [o for o, n in graph.updates.items() if n == new and o != old]
        if new in maker and max(readers, default=-1) <= maker[new] and not others:
            base[new] = old
    life = {}
    for i, node in enumerate(graph.nodes):
        for name in node.outputs:
            if x.facts.is_view[i] and name not in base:
                base[name] = base[next(n for n in node.inputs if n is not None)]
            elif name not in base:
                base[name] = name
                life[name] = [start[i], end[i]]
        if not x.facts.is_view[i]:
            for name in node.inputs:
                if name is not None and base[name] in life:
                    span = life[base[name]]
                    span[1] = max(span[1], end[i])
    for name in set(graph.outputs) - set(graph.updates.values()):
        if base[name] in life:
            life[base[name]][1] = times.makespan
    for i, node in enumerate(graph.nodes):  # by element, over an operand that nobody reads later
        if x.facts.writes_over[i] and node.outputs[0] in life:
            made = graph.tensors[node.outputs[0]].type
            for name in node.inputs:
                if name is None or graph.tensors[name].type != made:
                    continue
                span = life.get(base[name], [0, -1])
                if span[1] == end[i]:
                    span[1] = start[i]
                    break
    always = sum(graph.tensors[name].type.nbytes for name in graph.inputs)
    moments = {a for a, b in life.values() if b > a}
    passing = [
        sum(graph.tensors[n].type.nbytes for n, (a, b) in life.items() if a <= moment < b)
        for moment in moments
    ]
    return always + max(passing, default=0)


@pytest.mark.parametrize("name", ["lenet", "mlp", "rnnlm"])
def test_memory_of_one_device_is_what_is_alive_together(name):
    graph = zoo_graph(name)
    x = Expansion(
        GraphFacts(graph), baseline("replicate", graph, one_device()), CostModel(measured=False)
    )
    tasks = assemble(x)
    found = memory(tasks, schedule(tasks))
    assert found.peak.tolist() == [peak_by_hand(x, tasks)]
    assert len(tasks) == len(graph.nodes)


@given(st.integers(0, 2**32))
def test_memory_of_random_graphs_on_one_device(seed):
    graph = random_graph(Random(seed))
    x = Expansion(GraphFacts(graph), baseline("replicate", graph, one_device()), Formulas())
    tasks = assemble(x)
    assert memory(tasks, schedule(tasks)).peak.tolist() == [peak_by_hand(x, tasks)]


@given(cases)
def test_memory_holds_every_input_and_is_the_sum_of_its_curve(case):
    times = schedule(case.tasks)
    found = memory(case.tasks, times)
    for device in range(case.x.cluster.num_devices):
        held = staying = 0
        for name in case.graph.inputs:
            sharding = case.x.source(name)
            if device in sharding.mesh.devices:
                at = sharding.mesh.devices.index(device)
                nbytes = int(local_bytes(sharding, case.graph.tensors[name].type)[at])
                held += nbytes
                new = case.graph.updates.get(name)
                if new is None or case.x.source(new) == sharding:
                    staying += nbytes
        _, curve = found.curve(device)
        assert curve.sum(axis=0).max() == found.peak[device]
        assert curve.sum(axis=0)[0] >= held
        assert curve.sum(axis=0).min() >= staying


@given(cases)
def test_memory_is_there_before_it_is_used(case):
    times = schedule(case.tasks)
    found, values = memory(case.tasks, times), case.tasks.values
    real = values.use_task < len(case.tasks)
    assert (found.birth[values.use_value[real]] <= times.start[values.use_task[real]]).all()


@given(st.integers(0, 2**32))
def test_what_is_kept_decides_what_is_moved_twice(seed):
    """With nothing kept, every copy is made once; bringing some back adds their bytes, and takes none away."""
    case = Case(seed, two_pass_graph)
    plain = Expansion(case.x.facts, replace(case.plan, keep={}), Formulas())
    for name in case.graph.tensors:
        moves, before = (
            {(move.target, move.turn) for move in find_moves(x, name)} for x in (case.x, plain)
        )
        assert all(not turn for _, turn in before)
        if case.x.kept(name) is None:
            assert moves == before
        early = {(target, 0) for target, turn in moves if not turn}
        assert early <= before
        wanted = {target for target, _ in before}
        again = {target for target, turn in moves if turn}
        assert wanted <= {target for target, _ in moves}
        assert again - wanted <= {case.x.source(name)}
