"""Changing strategies, or which copies are kept, one by one gives, to the picosecond, what building and timing the whole anew gives."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from graphwright.machine import PICOSECONDS, Cluster
from graphwright.plans import make_plan
from graphwright.simulate import CostModel, Incremental
from graphwright.simulate.engine import schedule
from graphwright.tasks import Expansion, GraphFacts, assemble
from random_plans import any_keep, any_plan, any_strategy, random_graph, two_pass_graph, zoo_graph
from reshardings import random_cluster


def same_edges(run: Incremental, tasks) -> None:
    """The same tasks, by their keys, wait for the same others."""
    graph, found = run.delta._graph, set()
    for slot in run.delta.times()[0].tolist():
        edge = int(graph.tasks[slot]["first_out"])
        while edge >= 0:
            target = graph.tasks[graph.edges[edge]["target"]]
            found.add((int(graph.tasks[slot]["key"]), int(target["key"])))
            edge = int(graph.edges[edge]["next_out"])
    sources = np.repeat(tasks.key, np.diff(tasks.succ_ptr))
    assert found == set(zip(sources.tolist(), tasks.key[tasks.succ].tolist(), strict=True))


def same_times(run: Incremental, tasks) -> None:
    """All tasks, by their keys, are ready, start and end at the same times."""
    same_edges(run, tasks)
    slots, ready, start, end = run.delta.times()
    keys = run.delta._graph.tasks["key"][slots]
    found = dict(
        zip(
            keys.tolist(),
            zip(ready.tolist(), start.tolist(), end.tolist(), strict=True),
            strict=True,
        )
    )
    times = schedule(tasks)
    columns = (times.ready.tolist(), times.start.tolist(), times.end.tolist())
    assert found == dict(zip(tasks.key.tolist(), zip(*columns, strict=True), strict=True))


def any_cluster(rng: Random, most: int) -> Cluster:
    """Devices that only compute, or also see to transfers beside, or instead of, computing."""
    on, times = random_cluster(rng, most), [0.0, 2e-6, 3e-4]
    extra = {
        kind: {"handling": rng.choice(times), "handling_bandwidth": rng.choice([None, 2e9])}
        | ({"overlaps": False} if rng.random() < 0.2 else {})
        for kind in sorted(on.kinds(), key=lambda kind: kind.name)
    }
    return replace(on, devices=tuple(replace(d, **extra[d]) for d in on.devices))


def change_often(graph, seed: int, num_changes: int, *, most: int = 8) -> None:
    rng = Random(seed)
    cluster, costs = any_cluster(rng, most), CostModel(measured=False)
    plan = any_plan(rng, graph, cluster)
    run = Incremental(graph, plan, costs)
    other = Expansion(GraphFacts(graph), plan, costs)

    def build(plan):
        fresh = Expansion(other.facts, plan, costs)
        fresh.cache = other.cache  # what moves take does not depend on what else there is
        return assemble(fresh)

    for number in range(num_changes):
        nodes = rng.sample(graph.nodes, rng.choice([0, 1, 1, 1, 2, 3]))
        changes = {node.name: any_strategy(rng, other, node) for node in nodes}
        kept = any_keep(rng, graph, 0.1) if rng.random() < 0.4 else {}
        kept |= {name: None for name in run.expansion.keep if rng.random() < 0.05}
        before, held = run.makespan, dict(run.expansion.keep)
        proposed = run.propose(changes, kept)
        keep = {n: k for n, k in {**held, **kept}.items() if k is not None}
        strategies = {**run.strategies, **changes}
        new = make_plan(graph, cluster, strategies, inputs=plan.inputs, keep=keep)
        tasks = build(new)
        assert proposed == schedule(tasks).makespan / PICOSECONDS, (
            f"change {number}: {changes} {kept}"
        )
        if rng.random() < 0.5:
            run.accept()
            assert run.makespan == proposed
            assert dict(run.plan().strategies) == dict(new.strategies)
            assert run.plan().keep == new.keep
            if number % 5 == 0:
                same_times(run, tasks)
        else:
            run.reject()
            assert run.makespan == before
            if number % 5 == 0:
                same_times(run, build(run.plan()))
    same_times(run, build(run.plan()))


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed):
    change_often(random_graph(Random(seed), 10 + seed), seed, 60)


@pytest.mark.parametrize("seed", range(8))
def test_graphs_whose_tensors_are_read_again(seed):
    change_often(two_pass_graph(Random(seed), 16 + seed), seed, 50)


@pytest.mark.parametrize(("name", "num_changes"), [("mlp", 150), ("lenet", 90), ("rnnlm", 40)])
def test_models(name, num_changes):
    change_often(zoo_graph(name), 1, num_changes, most=4)
