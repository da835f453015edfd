"""Laws of the search over plans: bounds hold for every plan, proposals can be followed, and incremental times are those of the plan."""

from functools import cache
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _reference_searches.finite_space import FiniteSpace
from _reference_searches.lower_bounds import tabulate
from graphwright import zoo
from graphwright.errors import InvalidStrategy
from graphwright.machine import cluster
from graphwright.partition import data_parallel, make_estimate
from graphwright.partition.search.annealing.chains import anneal
from graphwright.partition.search.annealing.proposals import Proposals
from graphwright.partition.space.coarsen import coarsen
from graphwright.partition.space.strategies import Space
from graphwright.plans import make_plan
from graphwright.simulate import CostModel, Incremental, Simulator
from graphwright.tasks import Expansion, GraphFacts

COSTS = CostModel(measured=False)
CASES = (
    ("mlp", None, "flexflow-p100:1"),
    ("lenet", 64, "flexflow-k80:1"),
    ("rnnlm-2", None, "flexflow-p100:1"),
    ("dlrm", None, "summit"),
)


@cache
def model_of(name, batch_size, on, subsets):
    graph = zoo.load(name, small=batch_size is None, batch_size=batch_size).capture()
    return make_estimate(coarsen(graph), cluster(on), COSTS, Space(subsets=subsets))


@cache
def tied_of(name, batch_size, on):
    tied = FiniteSpace(model_of(name, batch_size, on, False))
    plan = tied.plan([0] * len(tied.families))
    expansion = Expansion(tied.estimate.coarse.facts, plan, COSTS)
    return tied, tabulate(tied, expansion)


def in_parts(graph, plan):
    """The seconds of a step as searches see it, before kernels are put together."""
    return Simulator(GraphFacts(graph), plan.cluster, COSTS, together=False).run(plan).makespan


@pytest.mark.parametrize("case", CASES[:3], ids=lambda case: case[0])
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_no_plan_is_faster_than_its_bound_or_that_of_a_part_of_it(case, seed):
    tied, tables = tied_of(*case)
    rng = Random(seed)
    choices = [rng.randrange(len(family)) for family in tied.families]
    seconds = in_parts(tied.graph, tied.plan(choices))
    decided = [
        c if rng.random() < 0.7 else len(f) for c, f in zip(choices, tied.families, strict=True)
    ]
    for known in (choices, decided):
        assert tables.bound(np.array([*known, 0])) <= seconds + 1e-12


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_proposals_are_timed_as_the_plans_they_lead_to(case, seed):
    model = model_of(*case, True)
    graph, rng = model.coarse.facts.graph, Random(seed)
    moves = moves_of(case)
    plan = data_parallel(graph, model.cluster)
    run = Incremental(graph, plan, COSTS)
    for node in graph.nodes:
        run.strategies.setdefault(node.name, plan.strategy(node.name))
    for _ in range(6):
        changes = moves.draw(rng, run.strategies).changes
        try:
            seconds = run.propose(changes)
        except InvalidStrategy:
            continue
        run.accept()
        now = make_plan(graph, model.cluster, run.strategies)
        assert seconds == pytest.approx(in_parts(graph, now), abs=1e-12)


@cache
def moves_of(case):
    return Proposals(model_of(*case, True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
@settings(max_examples=4)
@given(seed=st.integers(0, 2**32))
def test_annealing_returns_what_it_says_and_never_worse_than_its_start(case, seed):
    model = model_of(*case, True)
    graph = model.coarse.facts.graph
    found = anneal(
        model.coarse,
        model.cluster,
        COSTS,
        starts=[data_parallel(graph, model.cluster)],
        seed=seed,
        max_proposals=40,
        moves=moves_of(case),
    )
    assert found.makespan <= found.start_makespans[0]
    assert found.makespan == pytest.approx(in_parts(graph, found.plan), abs=1e-12)
