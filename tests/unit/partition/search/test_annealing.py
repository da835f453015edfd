"""Annealing: what it returns, when it ends, and that it never does worse than where it began."""

from functools import cache
from itertools import product
from random import Random

import numpy as np
import pytest

from _reference_searches.exhaustive import search
from _reference_searches.finite_space import FiniteSpace
from _reference_searches.lower_bounds import chains, tabulate
from graphwright import zoo
from graphwright.errors import InvalidOption, NothingFound
from graphwright.machine import cluster
from graphwright.partition import data_parallel, layers, make_estimate, other_plan, replicate
from graphwright.partition.search.annealing.alignment import Alignment
from graphwright.partition.search.annealing.chains import anneal
from graphwright.partition.search.annealing.proposals import (
    Proposal,
    Proposals,
    beneath,
    random_axes,
)
from graphwright.partition.space.coarsen import Weight, coarsen
from graphwright.partition.space.strategies import Space
from graphwright.plans import Mesh, make_plan, whole_mesh
from graphwright.simulate import CostModel
from graphwright.tasks import Expansion, find_moves
from part_by_part import simulate

FOUR = cluster("flexflow-p100:1")
COSTS = CostModel(measured=False)


@cache
def coarse_of(name="mlp", batch_size=None):
    return coarsen(zoo.load(name, small=batch_size is None, batch_size=batch_size).capture())


@cache
def model_of(name="mlp", batch_size=None, subsets=True):
    return make_estimate(coarse_of(name, batch_size), FOUR, COSTS, Space(subsets=subsets))


def start(coarse, make=data_parallel):
    return make(coarse.facts.graph, FOUR)


def run(coarse, **options):
    options = {"starts": [start(coarse)], "max_proposals": 60, **options}
    return anneal(coarse, FOUR, COSTS, **options)


# -- what is returned ---------------------------------------------------------------------------------


def test_the_makespan_is_that_of_the_plan():
    coarse = coarse_of("lenet", 256)
    found = run(coarse, max_proposals=300)
    assert found.makespan == pytest.approx(
        simulate(coarse.facts.graph, found.plan, costs=COSTS).makespan, abs=1e-12
    )
    assert found.plan.algorithm == "mcmc"
    assert found.plan.seed == 0
    assert found.num_accepted <= found.num_proposals <= 300


def test_a_bad_start_is_left_behind():
    coarse = coarse_of("lenet", 1024)
    bad = start(coarse, layers)
    found = run(coarse, starts=[bad], max_proposals=400)
    assert found.makespan < 0.9 * found.start_makespans[0]


def test_history_goes_down():
    found = run(coarse_of("lenet", 1024), starts=[start(coarse_of("lenet", 1024), replicate)])
    seconds, proposals, best = zip(*found.history, strict=True)
    assert list(seconds) == sorted(seconds)
    assert list(proposals) == sorted(proposals)
    assert list(best) == sorted(best, reverse=True)
    assert best[-1] == found.makespan


def test_the_same_seed_finds_the_same_plan():
    coarse = coarse_of("lenet", 256)
    a, b = (run(coarse, seed=3, max_proposals=150) for _ in range(2))
    assert a.plan == b.plan
    assert (a.makespan, a.num_accepted, a.kinds) == (b.makespan, b.num_accepted, b.kinds)
    assert run(coarse, seed=4, max_proposals=150).kinds != a.kinds


def test_a_start_with_places_for_parameters_counts_as_it_is_given():
    coarse = coarse_of()
    given = other_plan("zero", coarse, FOUR, COSTS)
    assert given.inputs
    found = run(coarse, starts=[given], max_proposals=5)
    assert found.start_makespans[0] == pytest.approx(
        simulate(coarse.facts.graph, given, costs=COSTS).makespan, abs=1e-12
    )
    assert found.makespan <= found.start_makespans[0]


# -- when it ends -------------------------------------------------------------------------------------


def test_no_time_at_all_gives_the_best_start():
    coarse = coarse_of()
    starts = [start(coarse, layers), start(coarse)]
    found = run(coarse, starts=starts, budget=0.0, max_proposals=None)
    assert found.makespan == min(found.start_makespans)
    assert found.num_proposals == 0
    assert found.stopped == "budget"


def test_chains_share_the_proposals():
    coarse = coarse_of()
    starts = [start(coarse, layers), start(coarse), start(coarse, replicate)]
    found = run(coarse, starts=starts, max_proposals=90)
    assert found.num_proposals <= 90
    assert len(found.start_makespans) == 3


def test_a_chain_that_finds_nothing_ends_at_half_time():
    class Nothing:
        def draw(self, rng, now):
            return Proposal(kind="none", changes={})

    found = run(coarse_of(), moves=Nothing(), max_proposals=100)
    assert found.stopped == "half-time rule"
    assert 50 <= found.num_proposals < 100


def test_one_device_has_nothing_to_choose():
    coarse = coarse_of()
    one = cluster("p3.2xlarge")
    found = anneal(
        coarse, one, COSTS, starts=[data_parallel(coarse.facts.graph, one)], max_proposals=20
    )
    assert found.makespan == found.start_makespans[0]


def test_what_does_not_fit_is_not_returned():
    coarse = coarse_of("lenet", 1024)
    first = start(coarse, layers)
    found = run(coarse, starts=[first], max_proposals=200, fits=lambda plan: plan is first)
    assert found.makespan == found.start_makespans[0]
    with pytest.raises(NothingFound, match="fits"):
        run(coarse, max_proposals=5, fits=lambda plan: False)


def test_options_that_make_no_sense_are_refused():
    coarse = coarse_of()
    with pytest.raises(InvalidOption, match="start from"):
        run(coarse, starts=[])
    with pytest.raises(InvalidOption, match="budget"):
        run(coarse, max_proposals=None)


def test_progress_is_reported():
    told = []
    run(coarse_of(), progress=lambda *what: told.append(what))
    assert told
    assert all(done <= total == 60 for _, done, total in told)


# -- proposals ----------------------------------------------------------------------------------------


def test_every_kind_is_drawn_and_can_be_followed():
    coarse = coarse_of("gpt2")
    moves, rng = Proposals(make_estimate(coarse, FOUR, COSTS, Space(subsets=True))), Random(0)
    plan = data_parallel(coarse.facts.graph, FOUR)
    now = {node.name: plan.strategy(node.name) for node in coarse.facts.graph.nodes}
    seen = set()
    for _ in range(150):
        proposal = moves.draw(rng, now)
        seen.add(proposal.kind.partition(",")[0])
        Expansion(
            coarse.facts, make_plan(coarse.facts.graph, FOUR, {**now, **proposal.changes}), COSTS
        )
    assert seen == {"estimate", "axis", "whole", "some", "neighbour", "copy", "alike", "node"}


def test_without_subsets_all_devices_take_part():
    moves, rng = Proposals(model_of("lenet", 256, subsets=False)), Random(0)
    graph = moves.graph
    plan = data_parallel(graph, FOUR)
    now = {node.name: plan.strategy(node.name) for node in graph.nodes}
    for _ in range(100):
        assert all(s.mesh is None for s in moves.draw(rng, now).changes.values())


def test_proposals_stay_in_their_space():
    coarse = coarse_of("lenet", 256)
    model = make_estimate(coarse, FOUR, COSTS, Space(batch_only=True))
    moves, rng, graph = Proposals(model), Random(0), coarse.facts.graph
    plan = data_parallel(graph, FOUR)
    now = {node.name: plan.strategy(node.name) for node in graph.nodes}
    for _ in range(100):
        now |= moves.draw(rng, now).changes
    heavy = [group for group in coarse.groups if group.weight is Weight.HEAVY]
    leads = [now[graph.nodes[group.slots[group.lead][0]].name] for group in heavy]
    spaces = [model.all[coarse.groups.index(group)] for group in heavy]
    for lead, group, found in zip(leads, heavy, spaces, strict=True):
        options = found.options[group.lead].choices
        allowed = {options[o] for o in np.unique(found.choice[:, group.lead])}
        assert set(lead.choices) <= allowed


def test_updates_follow_to_where_their_parameters_live():
    model = model_of("lenet", 256)
    follow = Alignment(model)
    g = next(
        g
        for g, group in enumerate(model.coarse.groups)
        if group.weight is Weight.HEAVY and follow.homes[g]
    )
    mesh = Mesh((2,), ())
    changes = follow.strategies(g, model.all[g].choice[0][:, :0], mesh)
    follow.settle(g, changes)
    updates = {
        model.coarse.facts.graph.nodes[i].name
        for home in follow.homes[g]
        for i in model.coarse.groups[home.update].nodes
    }
    assert updates <= changes.keys()
    assert {changes[name].mesh for name in updates} == {mesh}


def test_some_axes_are_fixed():
    sixteen = cluster("flexflow-p100")
    assert beneath(whole_mesh(sixteen), {0: 1, 1: 0}).devices == (8, 9, 10, 11)
    assert beneath(whole_mesh(sixteen), {2: 0, 3: 1}).devices == (1, 5, 9, 13)
    rng = Random(0)
    sizes = {len(beneath(whole_mesh(sixteen), random_axes(rng, sixteen))) for _ in range(99)}
    assert sizes == {1, 2, 4, 8}


# -- the optimum --------------------------------------------------------------------------------------


def every_makespan(tied):
    graph = tied.graph
    numbers = product(*(range(len(family)) for family in tied.families))
    return {n: simulate(graph, tied.plan(n), costs=COSTS).makespan for n in numbers}


def test_the_search_of_every_plan_finds_the_best():
    tied = FiniteSpace(make_estimate(coarse_of("mlp"), FOUR, COSTS, Space()))
    every = every_makespan(tied)
    assert 10 < len(every) == tied.num_plans
    found = search(tied, COSTS)
    assert found.proved
    assert found.makespan == pytest.approx(min(every.values()), abs=1e-12)
    assert every[found.choices] == pytest.approx(found.makespan, abs=1e-12)
    assert found.num_simulated <= tied.num_plans


def test_without_time_nothing_is_proved():
    found = search(
        FiniteSpace(make_estimate(coarse_of("lenet", 256), FOUR, COSTS, Space())), COSTS, budget=0.0
    )
    assert not found.proved
    assert found.bound <= found.makespan


def test_annealing_finds_the_optimum_of_a_small_space():
    coarse = coarse_of("lenet", 1024)
    tied = FiniteSpace(make_estimate(coarse, FOUR, COSTS, Space()))
    best = search(tied, COSTS)
    assert best.proved
    rng = Random(1)
    starts = [tied.plan([rng.randrange(len(f)) for f in tied.families])]
    found = run(coarse, starts=starts, moves=tied, max_proposals=1500)
    assert found.makespan == best.makespan


def test_bounds_grow_as_more_is_decided():
    tied, rng = FiniteSpace(make_estimate(coarse_of("lenet", 256), FOUR, COSTS, Space())), Random(0)
    expansion = Expansion(tied.estimate.coarse.facts, tied.plan([0] * len(tied.families)), COSTS)
    tables = tabulate(tied, expansion)
    for _ in range(20):
        choices = np.append(tables.num_choices[:-1], 0)
        before = tables.bound(choices)
        for number in rng.sample(range(len(tied.families)), len(tied.families)):
            choices[number] = rng.randrange(len(tied.families[number]))
            after = tables.bound(choices)
            assert after >= before
            before = after


def test_chains_of_a_movement():
    coarse = coarse_of("lenet", 256)
    expansion = Expansion(coarse.facts, start(coarse), COSTS)
    moves = [m.movement for name in coarse.facts.graph.tensors for m in find_moves(expansion, name)]
    assert any(m.num_tasks for m in moves)
    for moved in moves:
        head, tail = chains(moved)
        longest = int(moved.duration.sum())
        assert 0 <= head <= longest
        assert -1 <= tail <= longest
