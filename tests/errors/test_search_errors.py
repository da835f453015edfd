"""Mistakes with `gw.plan` and `gw.profile`: what is asked for does not exist, or does not fit."""

import pytest

import graphwright as gw
from additive import COSTS, coarse_of
from graphwright.errors import (
    DoesNotFit,
    InvalidCluster,
    InvalidLimit,
    InvalidOption,
    PlanMismatch,
    UnknownCluster,
)
from graphwright.machine import cluster
from graphwright.partition import (
    Annealing,
    FrontierTracking,
    Search,
    Zero2,
    explain,
    sizes_of,
)
from graphwright.plans import figures_of
from graphwright.simulate import simulate
from random_plans import zoo_graph


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"objective": "best"},
            InvalidOption,
            "no objective 'best'; one of frontier, time, memory",
        ),
        ({"objective": ["time"]}, InvalidOption, "no objective"),
        ({"algorithm": "magic"}, InvalidOption, "no algorithm 'magic'; one of frontier, mcmc"),
        (
            {"algorithm": "data"},
            InvalidOption,
            "no algorithm 'data'; frontier.others.* needs no search; or one of",
        ),
        (
            {"algorithm": Zero2()},
            InvalidOption,
            "no algorithm 'zero2'; frontier.others.*needs no search",
        ),
        ({"algorithm": 3}, InvalidOption, "no algorithm 3; one of frontier, mcmc"),
        (
            {"algorithm": Annealing(), "seed": 3},
            InvalidOption,
            "seed belongs to the algorithm, which is given as Annealing(budget=30.0",
        ),
        (
            {"baselines": "data"},
            InvalidOption,
            "baselines='data' is one name; give names",
        ),
        ({"baselines": "none"}, InvalidOption, "give names, .. for none"),
        ({"baselines": ("data", "magic")}, InvalidOption, "no baseline 'magic'; some of data"),
        ({"colour": "red"}, InvalidOption, "the options of a search are algorithm, memory"),
        ({"points": 0}, InvalidOption, "points has to be 1 or more, not 0"),
        ({"points": "many"}, InvalidOption, "points has to be 1 or more, not 'many'"),
        ({"points": True}, InvalidOption, "points has to be 1 or more, not True"),
        ({"margin": 0.9}, InvalidOption, "margin has to be 1 or more"),
        ({"margin": float("inf")}, InvalidOption, "margin has to be 1 or more"),
        ({"batch_dim": 17}, InvalidOption, "at most 2 dims"),
        ({"batch_dim": -1}, InvalidOption, "batch_dim=-1"),
        ({"precision": -1}, InvalidOption, "precision has to be 0 or more"),
        ({"budget": -1}, InvalidOption, "budget is a number of seconds, or None, not -1"),
        ({"budget": "long"}, InvalidOption, "budget is a number of seconds"),
        ({"budget": float("nan")}, InvalidOption, "budget is a number of seconds"),
        ({"precision": float("nan")}, InvalidOption, "precision has to be 0 or more"),
        ({"memory": "lots"}, InvalidLimit, "'lots'"),
        ({"memory": "-3GB"}, InvalidLimit, "-3GB"),
    ],
)
def test_options(options, error, message):
    with pytest.raises(error, match=message.replace("(", "\\(")):
        gw.plan(zoo_graph("mlp"), "local:2", costs=COSTS, **options)


@pytest.mark.parametrize("objective", ["time", "bytes", "devices"])
def test_a_limit_that_nothing_fits_names_what_is_needed(objective):
    with pytest.raises(DoesNotFit, match="the smallest needs") as caught:
        gw.plan(
            zoo_graph("gpt2"), "local:2", objective=objective, memory="2kB", points=2, costs=COSTS
        )
    error, graph = caught.value, zoo_graph("gpt2")
    free = gw.plan(graph, "local:2", points=2, costs=COSTS)
    assert error.limit == 2000
    assert error.needed == figures_of(free.smallest()).memory
    sizes = sorted((t.type.nbytes for t in graph.tensors.values()), reverse=True)
    assert [graph.tensors[n].type.nbytes for n in error.largest] == sizes[: len(error.largest)]
    assert error.largest[0] in str(error)
    assert "more devices" in str(error)


def test_a_devices_own_memory_is_the_limit_less_a_margin():
    graph = zoo_graph("mlp")
    need = figures_of(gw.plan(graph, "local:1", costs=COSTS).smallest()).memory
    on = cluster("local:1")
    memory = on.devices[0].memory
    gw.plan(graph, on, objective="time", costs=COSTS, margin=memory / need * 0.99)
    with pytest.raises(DoesNotFit):
        gw.plan(graph, on, objective="time", costs=COSTS, margin=memory / need * 1.01)


@pytest.mark.parametrize("graph", [None, "mlp", 3, object()])
def test_what_is_no_graph(graph):
    with pytest.raises(PlanMismatch, match=r"is no graph; capture one with gw\.capture"):
        gw.plan(graph, "local:2")


def test_clusters():
    with pytest.raises(UnknownCluster):
        gw.plan(zoo_graph("mlp"), "nowhere")
    with pytest.raises(InvalidCluster):
        gw.plan(zoo_graph("mlp"), "local:0")


def test_plans_are_refused_for_another_graph():
    plan = gw.plan(zoo_graph("mlp"), "local:2", points=1, costs=COSTS).fastest()
    with pytest.raises(PlanMismatch, match="plan again"):
        simulate(zoo_graph("lenet"), plan)


def test_reasons_are_refused_for_another_graph():
    plan = gw.plan(zoo_graph("mlp"), "local:2", points=1, baselines=(), costs=COSTS).fastest()
    with pytest.raises(PlanMismatch):
        explain(coarse_of("lenet"), plan, COSTS)


@pytest.mark.parametrize("counts", [[0], [-3], ["2"], [True], [1.0]])
def test_sizes(counts):
    with pytest.raises(InvalidOption, match="is no number of devices"):
        sizes_of(cluster("local:2"), counts)


def test_options_are_checked_before_the_search():
    with pytest.raises(InvalidOption):
        Search(algorithm="")
    assert Search().baselines


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (FrontierTracking, {"points": 0}, "points has to be 1 or more, not 0"),
        (FrontierTracking, {"precision": -1}, "precision has to be 0 or more, not -1"),
        (FrontierTracking, {"tracking_work": "long"}, "tracking_work has to be 0 or more"),
        (Annealing, {"budget": -1}, "budget is a number of seconds, or None, not -1"),
        (Annealing, {"max_proposals": True}, "max_proposals has to be 0 or more, not True"),
    ],
)
def test_algorithms_check_their_options(make, options, message):
    with pytest.raises(InvalidOption, match=message):
        make(**options)


def test_profiles_check_the_same_options():
    with pytest.raises(InvalidOption, match="no algorithm"):
        gw.profile(zoo_graph("mlp"), "local:2", algorithm="magic")
    with pytest.raises(PlanMismatch, match="is no graph"):
        gw.profile("mlp", "local:2")
