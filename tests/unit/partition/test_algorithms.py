"""Algorithms are values in one registry, which names, docs and errors follow."""

from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

import graphwright as gw
from additive import COSTS, coarse_of
from graphwright.errors import InvalidOption
from graphwright.machine import cluster
from graphwright.partition import (
    ALGORITHMS,
    RECIPES,
    REGISTRY,
    SEARCHES,
    SYSTEMS,
    Annealing,
    Elimination,
    FrontierTracking,
    Search,
    Space,
    other_plan,
)
from random_plans import zoo_graph

DOCS = Path(__file__).parents[3] / "docs" / "planning.md"


@pytest.mark.parametrize("name", REGISTRY)
def test_algorithms_are_values(name):
    algorithm = REGISTRY[name]()
    assert algorithm == REGISTRY[name]()
    assert hash(algorithm) == hash(REGISTRY[name]())
    assert algorithm.name == name
    for option in fields(algorithm):
        with pytest.raises(FrozenInstanceError):
            setattr(algorithm, option.name, None)


def test_every_algorithm_has_one_kind():
    assert [*SEARCHES, *SYSTEMS, *RECIPES, "replicate"] == list(REGISTRY)
    assert (*SEARCHES, *SYSTEMS) == ALGORITHMS


def test_the_table_in_the_docs_is_the_registry():
    after = DOCS.read_text().partition("| `algorithm=`, `baselines=` |")[2].splitlines()
    rows = after[2 : after.index("")]
    wanted = [
        f"| `{name}` | {known.whose} | {known.summary()} |"
        for name, known in REGISTRY.items()
        if known.kind != "reference"
    ]
    assert rows == wanted


@pytest.mark.parametrize("name", [a for a in ALGORITHMS if a != "mcmc"])
def test_a_value_finds_what_its_name_finds(name):
    find = lambda algorithm: gw.plan(
        zoo_graph("mlp"), "local:4", algorithm=algorithm, baselines=("data",), costs=COSTS
    )
    find(name)  # compiles kernels, so that none of a search's seconds goes into that
    assert find(name) == find(REGISTRY[name]())


def test_annealing_with_a_count_depends_on_the_seed_alone():
    def anneal(seed):
        algorithm = Annealing(budget=None, max_proposals=60, seed=seed)
        return gw.plan(
            zoo_graph("lenet"), "local:4", algorithm=algorithm, baselines=("data",), costs=COSTS
        )

    assert anneal(1) == anneal(1)
    assert anneal(1) != anneal(2)


def test_a_name_takes_its_options_from_the_search():
    space = Space(batch_only=True)
    asked = {"points": 3, "precision": 0.1, "seed": 7, "budget": 5.0, "space": space}
    find = lambda name, **options: Search(algorithm=name, **options).find_algorithm()
    assert find("frontier", **asked) == FrontierTracking(points=3, precision=0.1, space=space)
    assert find("mcmc", **asked) == Annealing(budget=5.0, seed=7)
    assert find("mcmc") == Annealing()
    assert find("optcnn", **asked) == Elimination()


def test_a_value_keeps_its_own_options():
    given = FrontierTracking(points=3, space=Space(batch_dim=1))
    search = Search(algorithm=given)
    assert search.find_algorithm() is given
    assert search.batch_dim == search.space.batch_dim == 1


def test_a_profile_with_a_value_has_its_points():
    given = FrontierTracking(points=2)
    profile = gw.profile(
        zoo_graph("mlp"), "local:2", devices=(2,), algorithm=given, costs=COSTS, baselines=()
    )
    assert profile.rows[0].plan.algorithm == "frontier"


@pytest.mark.parametrize("name", ["tofuu", "frontier", "mcmc", "", "random"])
def test_an_unknown_name_makes_no_plan(name):
    with pytest.raises(InvalidOption, match=f"no recipe or system '{name}'; one of optcnn, tofu"):
        other_plan(name, coarse_of("mlp"), cluster("local:2"), COSTS)
