"""Plans are written and read without loss, and nodes with equal strategies share an entry."""

import json
from dataclasses import replace
from random import Random

import pytest

from graphwright.ir import UNMERGED, PassRecord
from graphwright.plans import (
    Along,
    Figures,
    Keep,
    Mesh,
    Plan,
    Replicate,
    Replicated,
    Sharding,
    Split,
    Strategy,
    make_plan,
    on_one,
    whole_mesh,
)
from graphwright.simulate import CostModel, simulate
from random_plans import any_plan, chain, random_graph
from reshardings import random_cluster
from timelines import make_cluster

CLUSTER = make_cluster(2, 2)
GRAPH = chain(3, 8)


def saved(plan: Plan, path) -> Plan:
    plan.save(path)
    return Plan.load(path)


def test_every_field_comes_back(tmp_path):
    plan = make_plan(
        GRAPH,
        CLUSTER,
        {
            "mm": Strategy((Along("i"), Keep((0,)))),
            "mm_1": Strategy((Replicate(), Along("k")), Mesh((3, 1, 2, 0), (2, 2))),
            "mm_2": on_one(2),
        },
        inputs={"x": Sharding(whole_mesh(CLUSTER), (Split(1), Replicated()))},
        keep={"w": "before", "mm": "after"},
        results={GRAPH.outputs[0]: Sharding(whole_mesh(CLUSTER), (Split(0), Split(1)))},
        algorithm="by hand",
        seed=11,
    )
    figures = Figures(
        time=0.1, memory=2**40, nbytes=7, estimate_time=1 / 3, compute_time=0.05,
        breakdown={"parameter": 2**40},
    )  # fmt: skip
    plan = replace(plan, figures=figures)
    again = saved(plan, tmp_path / "plan.json")
    assert again == plan
    assert again.cluster.hash == plan.cluster.hash and again.seed == 11
    assert again.strategy("mm_1").mesh == Mesh((3, 1, 2, 0), (2, 2))
    assert again.figures == figures and again.figures.estimate_memory is None
    assert repr(again).endswith("of toys: 100 ms, 1.1 TB, 7 B moved)")


def test_files_of_version_1_have_nothing_kept_and_no_figures(tmp_path):
    path = tmp_path / "plan.json"
    plan = make_plan(replace(GRAPH, passes=UNMERGED), CLUSTER, {"mm": on_one(2)})
    plan.save(path)
    document = json.loads(path.read_text())
    assert document["version"] == 2 and "passes" not in document
    del document["keep"], document["figures"]
    path.write_text(json.dumps(document | {"version": 1}))
    assert Plan.load(path) == plan and plan.keep == {} and plan.figures is None


def test_the_passes_of_a_graph_are_in_its_plan(tmp_path):
    passes = (PassRecord("unmerge"), PassRecord("fuse", {"most": 4, "by": (1, 2.5, None, "x")}))
    for made_by in ((), UNMERGED, passes):
        plan = make_plan(replace(GRAPH, passes=made_by), CLUSTER, {"mm": on_one(2)})
        assert plan.passes == made_by
        assert saved(plan, tmp_path / "plan.json").passes == made_by


@pytest.mark.parametrize("seed", range(8))
def test_random_plans_come_back_and_take_the_same_time(tmp_path, seed):
    rng = Random(seed)
    graph, cluster = random_graph(rng), random_cluster(rng, 8)
    plan = any_plan(rng, graph, cluster)
    again = saved(plan, tmp_path / "plan.json")
    assert again == plan
    costs = CostModel(measured=False)
    times = [simulate(graph, p, costs=costs).makespan for p in (plan, again)]
    assert times[0] == times[1]


def test_equal_strategies_share_an_entry(tmp_path):
    same = Strategy((Along("i"), Replicate()))
    plan = make_plan(GRAPH, CLUSTER, {"mm": same, "mm_1": on_one(0), "mm_2": same})
    plan.save(tmp_path / "plan.json")
    document = json.loads((tmp_path / "plan.json").read_text())
    assert [entry["nodes"] for entry in document["strategies"]] == [["mm", "mm_2"], ["mm_1"]]
    assert document["strategies"][0]["choices"] == ["i", "-"]


def test_a_node_without_a_strategy_is_replicated():
    plan = make_plan(GRAPH, CLUSTER, {"mm": on_one(1)})
    assert plan.strategy("mm") == on_one(1)
    assert plan.strategy("mm_1") == Strategy((Replicate(), Replicate()))
    assert repr(plan) == "Plan(given, 1 strategies, 1 distinct, on 4 devices of toys)"


def test_a_plan_does_not_change_with_what_it_was_made_from():
    strategies = {"mm": on_one(1)}
    plan = make_plan(GRAPH, CLUSTER, strategies)
    strategies["mm_1"] = on_one(0)
    assert "mm_1" not in plan.strategies
    with pytest.raises(TypeError):
        plan.strategies["mm"] = on_one(0)  # type: ignore[index]


def test_saving_replaces_the_whole_file(tmp_path):
    path = tmp_path / "plan.json"
    make_plan(GRAPH, CLUSTER, {n.name: on_one(0) for n in GRAPH.nodes}).save(path)
    small = make_plan(GRAPH, CLUSTER, {})
    assert saved(small, path) == small
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]
