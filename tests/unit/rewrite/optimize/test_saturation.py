"""Equality saturation: classes of equal terms, merges of many, extraction against brute force."""

from itertools import product

import numpy as np
import pytest
import torch

from graphwright.capture import export
from graphwright.errors import InvalidOption
from graphwright.ir import TensorType
from graphwright.rewrite.optimize import (
    Pool,
    Reader,
    cut,
    fixed_tensors,
    patterns_of,
    rewrite_graph,
)
from graphwright.rewrite.optimize.saturation import saturating
from graphwright.rewrite.optimize.saturation.egraph import EGraph
from graphwright.rewrite.optimize.saturation.extraction import (
    Alternative,
    Extraction,
    _cycle,
    cost_of,
)
from graphwright.rewrite.optimize.saturation.saturate import Saturation
from graphwright.rewrite.substitutions import every_rule
from inference_models import Averages, Branches, Heads, Inception, flops, settled

IMAGE = torch.rand(1, 4, 6, 6, dtype=torch.float64)
MATRIX = TensorType((4, 4), "float32")
PATTERNS = saturating(patterns_of(every_rule()))


def saturated(model, x=IMAGE, nodes=2000):
    graph = export(settled(model), x).graph
    fixed = fixed_tensors(graph)
    pool = Pool(flops)
    (region,) = cut(graph, fixed)
    state = Saturation(pool, PATTERNS, Reader(pool, graph, fixed).read(region))
    rounds = 0
    while state.round(nodes):
        rounds += 1
    return state, rounds


def test_what_reads_equal_terms_is_equal():
    pool = Pool(flops)
    a, b, c = (pool.input(n, MATRIX, fixed=False) for n in range(3))
    egraph = EGraph(pool)
    above = [pool.make("relu", (), (pool.make("matmul", (), (x, c)),)) for x in (a, b)]
    for number in above:
        egraph.add(number)
    assert egraph.find(above[0]) != egraph.find(above[1])
    egraph.union(a, b)
    egraph.rebuild()
    assert egraph.find(above[0]) == egraph.find(above[1])
    assert len(egraph.nodes(above[0])) == 1  # one node, in two spellings
    again = pool.make("matmul", (), (b, c))
    assert egraph.add(again) == egraph.find(pool.entries[above[0]].args[0])


def test_splits_of_equal_tensors_at_other_places_are_not_equal():
    pool = Pool(flops)
    sizes = [(4, 1), (4, 3), (4, 3), (4, 1)]
    a, b, c, d = (pool.input(n, TensorType(s, "float32"), fixed=False) for n, s in enumerate(sizes))
    wholes = [pool.make("relu", (), (pool.make("concat", (-1,), p),)) for p in ((a, b), (c, d))]
    parts = [pool.make("split0", (-1,), (whole,)) for whole in wholes]
    egraph = EGraph(pool)
    for number in parts:
        egraph.add(number)
    egraph.union(*wholes)
    egraph.rebuild()
    assert egraph.find(parts[0]) != egraph.find(parts[1])


def test_concatenations_are_equal_however_they_are_nested():
    pool = Pool(flops)
    egraph = EGraph(pool)
    a, b, c = (pool.input(n, MATRIX, fixed=False) for n in range(3))

    def join(x, y):
        return pool.make("concat", (-1,), (x, y))

    assert egraph.add(join(join(a, b), c)) == egraph.add(join(a, join(b, c)))
    assert egraph.add(join(join(a, c), b)) != egraph.find(join(a, join(b, c)))


@pytest.mark.parametrize("branches", [4, 8])
def test_merges_of_two_four_and_all_stand_beside_each_other(branches):
    """Grouped convolutions of each size: 2, 4, ... up to all branches."""
    state, rounds = saturated(Branches(branches))
    assert rounds < 15 and len(state.egraph) < 500  # nothing is left to be done
    pool = state.pool
    convs = [n for n in state._every() if pool.entries[n].op == "conv"]
    groups = {pool.sizes[pool.entries[n].args[0]][1] // pool.sizes[pool.entries[n].args[1]][1]
              for n in convs if pool.sizes[pool.entries[n].args[1]][2:] == (3, 3)}  # fmt: skip
    assert {2**n for n in range(branches.bit_length())} <= groups


def test_the_rules_are_applied_in_the_same_order_each_time():
    first, second = (saturated(Inception())[0] for _ in range(2))
    assert first.pool.entries == second.pool.entries
    assert first.best(float("inf")) == second.best(float("inf"))


# -- extraction ------------------------------------------------------------------------------------


class Drawn(Extraction):
    """Alternatives drawn at random, cycles among them."""

    def __init__(self, seed, classes=7):
        rng = np.random.default_rng(seed)
        self.roots = (classes - 1,)
        self.alternatives = {
            n: [
                Alternative(
                    0,
                    float(rng.integers(0, 10)),
                    tuple(int(c) for c in np.flatnonzero(rng.random(classes) < 0.25) if c != n),
                )
                for _ in range(int(rng.integers(1, 4)))
            ]
            for n in range(classes)
        }


def cheapest(extraction):
    """By trying all choices."""
    best = float("inf")
    for choice in product(*extraction.alternatives.values()):
        needed = extraction._needed(dict(zip(extraction.alternatives, choice, strict=True)))
        if needed is not None:
            best = min(best, cost_of(needed))
    return best


@pytest.mark.parametrize("seed", range(40))
def test_exact_extraction_is_the_cheapest_of_all_choices(seed):
    extraction = Drawn(seed)
    least = cheapest(extraction)
    chosen = extraction.exact(60.0)
    if chosen is None:
        assert least == float("inf")
    else:
        needed = extraction._needed(chosen)
        assert needed is not None and cost_of(needed) == pytest.approx(least)
    for share in (1.0, 0.5, 0.0):
        greedy = extraction.greedy(share)
        if greedy is not None:
            better = extraction.improved(greedy, cost_of(greedy))
            assert _cycle(better) is None
            assert least <= cost_of(better) + 1e-9 <= cost_of(greedy) + 2e-9


def test_greedy_extraction_finds_a_graph_where_there_is_one():
    for seed in range(200):
        extraction = Drawn(seed)
        assert (extraction.greedy(0.0) is None) == (cheapest(extraction) == float("inf"))


# -- the whole -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "cost"),
    [(Averages(), 1), (Heads(), 5), (Inception(), 2), (Branches(4), 4), (Branches(8), 4)],
    ids=lambda value: getattr(type(value), "__name__", ""),
)
def test_the_case_studies_come_out(model, cost):
    """Costs are kernels, but for thousandths."""
    x = torch.rand(1, 5, 6, dtype=torch.float64) if isinstance(model, Heads) else IMAGE
    graph = export(settled(model), x).graph
    result = rewrite_graph(graph, flops, algorithm="saturation")
    assert result.cost < result.merged and int(result.cost) == cost and result.applied


def test_limits_are_kept():
    graph = export(settled(Inception()), IMAGE).graph
    small = rewrite_graph(graph, flops, algorithm="saturation", budget=1)
    assert small.cost == small.merged and not small.applied
    late = rewrite_graph(graph, flops, algorithm="saturation", seconds=0.0)
    assert late.cost == late.merged


def test_outputs_of_weights_alone_and_inputs_need_no_choice():
    pool = Pool(flops)
    weight, x = (pool.input(n, MATRIX, fixed=not n) for n in range(2))
    for outputs in ((pool.make("relu", (), (weight,)),), (x,), (x, weight)):
        assert Saturation(pool, PATTERNS, outputs).best(float("inf")).graph == outputs


def test_other_algorithms_are_refused():
    with pytest.raises(InvalidOption, match="'backtracking' or 'saturation'"):
        rewrite_graph(export(settled(Averages()), IMAGE).graph, flops, algorithm="egg")
