"""Blocks of an expansion: near a change they are made anew, and come out as if all of them had been."""

from random import Random

import pytest

from graphwright.simulate import CostModel
from graphwright.tasks import Copy, Expansion, GraphFacts, Move, blocks
from random_plans import any_keep, any_plan, any_strategy, random_graph, two_pass_graph, zoo_graph
from reshardings import random_cluster


def change_blocks(graph, seed: int, num_changes: int) -> None:
    rng = Random(seed)
    x = Expansion(GraphFacts(graph), any_plan(rng, graph, random_cluster(rng, 8)), CostModel(measured=False))  # fmt: skip
    kept = blocks(x)
    for _ in range(num_changes):
        nodes = {
            x.facts.position[n.name]: n for n in rng.sample(graph.nodes, rng.choice([0, 1, 2]))
        }
        for i, node in nodes.items():
            x.exchange(i, x.place(node, any_strategy(rng, x, node)))
        keep = any_keep(rng, graph, 0.1) if rng.random() < 0.5 else {}
        x.keep_copies({**x.keep, **keep})
        new = kept.renewed(nodes, keep)
        whole = blocks(x)
        assert all(new[block.name] == block for block in whole)
        kept.merge(new)
        assert list(kept) == list(whole)
        assert [kept.befores(b) for b in kept] == [whole.befores(b) for b in whole]


@pytest.mark.parametrize("seed", range(10))
def test_blocks_near_a_change_are_those_that_differ(seed):
    change_blocks((two_pass_graph if seed % 2 else random_graph)(Random(seed)), seed, 25)


@pytest.mark.parametrize("seed", range(6))
def test_every_copy_that_is_read_is_made_by_an_earlier_block(seed):
    graph = two_pass_graph(Random(seed)) if seed % 2 else zoo_graph("mlp")
    rng = Random(seed)
    x = Expansion(GraphFacts(graph), any_plan(rng, graph, random_cluster(rng, 8)), CostModel(measured=False))  # fmt: skip
    own, names = blocks(x), set()
    for block in own:
        assert {b for way in own.befores(block) for b in way if not isinstance(b, str)} <= names
        for before, theirs, mine in own.joins(block):
            assert before in names
            assert len(theirs) == len(mine)
            assert theirs.max(initial=-1) < own[before].tasks.num_tasks
            assert mine.max(initial=-1) < block.tasks.num_tasks
        assert isinstance(block.name, Copy) == isinstance(block, Move)
        assert block.name not in names
        names.add(block.name)
