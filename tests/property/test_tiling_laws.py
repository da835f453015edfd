"""Tilings: the exact search against trying everything, and the bytes of a plan against its transfers, one by one."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import inf
from random import Random
from typing import ClassVar

import pytest
import torch

import threads
from _random_programs import random_program
from _reference_searches import milp
from graphwright.errors import DoesNotFit
from graphwright.partition.tiling import (
    make_problem,
    make_tiling_graph,
    plan_tilings,
    sides_of,
    worker_cluster,
)
from graphwright.partition.tiling.transfers import transfer_bytes
from graphwright.plans import Sharding, local_bytes, transfers, whole_mesh
from graphwright.simulate import CostModel
from graphwright.tasks import Expansion, GraphFacts, find_moves, place_node, reshard
from reshardings import random_sharding

COSTS = CostModel(measured=False)
LARGE = (1 << 12, 3 << 12)
SMALL = (6, 8, 12)


def drawn(seed: int, least: int, most: int, sizes=LARGE):
    rng = Random(f"program {seed}")
    return random_program(rng, rng.randint(least, most), sizes)


# -- the least there is -----------------------------------------------------------------------------


@cache
def price(cluster, type, source, target) -> int:
    return reshard(cluster, COSTS, type, source, target).nbytes


def try_everything(graph, workers: int, memory: float = inf) -> float:
    """The least bytes of all tilings, each placed and priced by itself."""
    facts, cluster = GraphFacts(graph), worker_cluster(workers)
    tilings = make_tiling_graph(facts, cluster, sides_of(cluster))
    first = tilings.num_inputs
    nodes = [
        [place_node(facts, node, strategy, cluster) for strategy in own.strategies]
        for node, own in zip(graph.nodes, tilings.tilings[first:], strict=True)
    ]
    homes = [[own.made[0][n] for n in range(len(own))] for own in tilings.tilings[:first]]
    least = inf
    for chosen in product(*homes, *nodes):
        total = duplicates = 0
        for array in tilings.arrays:
            made = chosen[array.maker]
            source = made if isinstance(made, Sharding) else made.outputs[array.output]
            needs = {chosen[r].inputs[a] for r, args in array.readers.items() for a in args}
            sizes = [int(local_bytes(need, array.type).max()) for need in needs]
            duplicates += sum(sizes) - min(sizes, default=0)
            total += sum(price(cluster, array.type, source, need) for need in needs)
            if array.result and source.is_partial and all(n.is_partial for n in needs):
                total += min(
                    price(cluster, array.type, source, home) for home in tilings.homes(array)
                )
            if total >= least:
                break
        else:
            if duplicates <= memory:
                least = min(least, total)
    return least


@pytest.mark.parametrize("workers", [2, 3])
def test_the_exact_search_finds_the_least_of_all_tilings(workers):
    for seed in range(25):
        graph = drawn(seed, 2, 5)
        plan = plan_tilings(graph, workers)
        assert plan.exact
        assert plan.nbytes == try_everything(graph, workers), seed


def test_the_exact_search_finds_the_least_of_all_blocks():
    for seed in range(12):
        graph = drawn(seed, 2, 2)
        assert plan_tilings(graph, 4).nbytes == try_everything(graph, 4), seed


def test_the_exact_search_keeps_a_budget_for_duplicates():
    limited = 0
    for seed in range(12):
        graph = drawn(seed, 3, 4)
        free = plan_tilings(graph, 2)
        for memory in (0, free.duplicates // 2):
            least = try_everything(graph, 2, memory)
            if least == inf:
                with pytest.raises(DoesNotFit, match="no tilings keep duplicates within"):
                    plan_tilings(graph, 2, memory=memory)
                continue
            plan = plan_tilings(graph, 2, memory=memory)
            assert plan.duplicates <= memory
            assert plan.nbytes == least, seed
            limited += plan.nbytes > free.nbytes
    assert limited


def test_highs_finds_as_much():
    for seed in range(6):
        graph = drawn(seed, 6, 12)
        cluster = worker_cluster(2)
        made = make_problem(make_tiling_graph(GraphFacts(graph), cluster, sides_of(cluster)))
        best = plan_tilings(graph, 2).nbytes
        assert milp.solve(made.problem).time == pytest.approx(best, abs=1, rel=1e-9)


@pytest.mark.parametrize("workers", [2, 4, 6])
def test_no_other_way_takes_fewer_bytes(workers):
    for seed in range(25):
        graph = drawn(seed, 2, 15)
        best = plan_tilings(graph, workers)
        for algorithm in ("greedy", "rows"):
            assert best.nbytes <= plan_tilings(graph, workers, algorithm=algorithm).nbytes


# -- bytes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [2, 3, 4, 6, 8])
def test_tables_have_the_bytes_of_the_cheapest_transfers(workers):
    cluster, rng = worker_cluster(workers), Random(workers)
    for _ in range(60):
        type = rng.choice(list(drawn(rng.randrange(50), 2, 2, (48, 96)).tensors.values())).type
        source, target = (
            random_sharding(rng, whole_mesh(cluster), type.shape, reducer=reducer, halos=halos)
            for reducer, halos in (("sum", False), (None, True))
        )
        (entry,) = transfer_bytes(cluster, type, (source,), (target,)).ravel()
        exact = price(cluster, type, source, target)
        if source.is_partial and target.pieces:  # as if each worker fetched no element twice
            assert exact / 2 <= entry <= exact, (type, source, target)
        else:
            assert entry == exact, (type, source, target)


class CountingLinks(threads.ThreadLinks):
    """Links that count what is received, element by element."""

    received: ClassVar[list[float]] = []

    def collect(self, what, value):
        if what.kind == transfers.AllReduce():
            n = len(what.group)
            self.received.append(2 * (n - 1) / n * value.numel() * value.element_size())
        return super().collect(what, value)

    def _receive(self, key, place):
        super()._receive(key, place)
        self.received.append(place.numel() * place.element_size())


@pytest.mark.parametrize("workers", [2, 3, 4, 6])
@pytest.mark.parametrize("algorithm", ["exact", "greedy", "rows"])
def test_a_plan_has_the_bytes_of_its_blocks(workers, algorithm):
    for seed in range(12):
        graph = drawn(seed, 2, 10, SMALL)
        plan = plan_tilings(graph, workers, algorithm=algorithm, small=0)
        x = Expansion(GraphFacts(graph), plan.plan, COSTS)
        moves = [move for name in graph.tensors for move in find_moves(x, name)]
        assert plan.nbytes == sum(int(move.movement.nbytes.sum()) for move in moves), seed
        assert all(plan.shardings[name] == x.source(name) for name in graph.tensors)


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_a_plan_computes_what_one_worker_does_and_receives_what_it_says(workers, monkeypatch):
    monkeypatch.setattr(threads, "ThreadLinks", CountingLinks)
    for seed in range(5):
        graph = drawn(seed, 3, 8, SMALL)
        plan = plan_tilings(graph, workers, small=0)
        torch.manual_seed(seed)
        inputs = {name: torch.rand(graph.tensors[name].type.shape) / 8 for name in graph.inputs}
        CountingLinks.received.clear()
        worst, name = threads.largest_difference(graph, plan.plan, inputs, steps=1)
        assert worst < 1e-5, (seed, name)
        assert sum(CountingLinks.received) == pytest.approx(plan.nbytes), seed
