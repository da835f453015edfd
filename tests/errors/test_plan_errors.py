"""Strategies that cannot be followed, plans for something else, files that are not plans: each message says what is wrong."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from graphwright.errors import (
    GraphwrightError,
    InvalidStrategy,
    PlanFormatError,
    PlanMismatch,
    UnknownDevice,
)
from graphwright.partition import baseline
from graphwright.plans import (
    Along,
    Figures,
    Keep,
    Mesh,
    Partial,
    Plan,
    Replicate,
    Replicated,
    Sharding,
    Split,
    Strategy,
    make_plan,
    on_one,
    parse_choice,
    parse_placement,
    replicated,
    whole_mesh,
)
from graphwright.simulate import CostModel, Incremental, simulate
from graphwright.tasks import expand
from random_plans import chain
from timelines import make_cluster

CLUSTER = make_cluster(2, 2)
GRAPH = chain(2, 3)
COSTS = CostModel(measured=False)
WHOLE = whole_mesh(CLUSTER)
ONCE = Replicate()


def refused(error: type[GraphwrightError], message: str):
    return pytest.raises(error, match=re.escape(message))


# -- strategies ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (
            Strategy((Along("q"), ONCE)),
            "mm: aten.mm(float32[3, 3], float32[3, 3]) has no split along 'q'; its splits are: i, j, k",
        ),
        (
            Strategy((Along("i"), Along("i"))),
            "mm: aten.mm: aten.mm splits along i (extent 3, quantum 1) into at most 3 parts, not 4",
        ),
        (
            Strategy((Keep((0, 1)), ONCE)),
            "mm: aten.mm is not linear in its arguments (0, 1) together, so terms cannot pass through it; possible: +0; +1",
        ),
        (Strategy((Along("i"),)), "mm: 1 choices (i), but toys has 2 axes: (2, 2)"),
        (Strategy(()), "mm: 0 choices (-), but toys has 2 axes: (2, 2)"),
        (on_one(4), "mm is placed on device 4, but toys has 4: 0 to 3"),
        (on_one(-1), "mm is placed on device -1, but toys has 4: 0 to 3"),
    ],
)
def test_strategies_that_cannot_be_followed(strategy, message):
    with refused(InvalidStrategy, message):
        expand(GRAPH, make_plan(GRAPH, CLUSTER, {"mm": strategy}), COSTS)


def test_an_unknown_device_is_told_apart():
    with refused(UnknownDevice, "device 7"):
        make_plan(GRAPH, CLUSTER, {"mm": on_one(7)})
    with refused(UnknownDevice, "x is placed on device 9"):
        make_plan(GRAPH, CLUSTER, {}, inputs={"x": replicated(Mesh((9,), ()))})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mesh((0, 1), (3,)), "a mesh of shape (3,) holds 3 devices, not 2"),
        (lambda: Mesh((1, 1), (2,)), "a device stands twice in (1, 1)"),
        (lambda: Mesh((0, 1), (-1, -2)), "a mesh of shape (-1, -2) has an axis without devices"),
        (lambda: Mesh((), (0,)), "a mesh of shape (0,) has an axis without devices"),
        (
            lambda: Strategy((ONCE,), Mesh((0, 1, 2, 3), (2, 2))),
            "1 choices for a mesh of 2 axes (2, 2)",
        ),
        (lambda: Sharding(WHOLE, (Split(0),)), "1 placements for a mesh of 2 axes (2, 2)"),
        (
            lambda: Sharding(WHOLE, (Split(0), Replicated()), ((0, ((0, 3),)),)),
            "dim 0 is split 2 ways, but 1 pieces are given",
        ),
        (lambda: parse_choice(""), "an empty choice; write - for replication"),
        (lambda: parse_choice("+"), "'+': after + come the numbers of the arguments"),
        (lambda: parse_choice("+0,x"), "'+0,x': after + come the numbers of the arguments"),
        (lambda: parse_choice("+²"), "'+²': after + come the numbers of the arguments"),
        (lambda: parse_placement("Q"), "'Q' is no placement; one of R, S0, S1, ..., P(sum)"),
        (lambda: parse_placement("S"), "'S' is no placement"),
        (lambda: parse_placement("S²"), "'S²' is no placement"),
        (lambda: parse_placement("S" + "9" * 5000), "is no placement"),
        (lambda: parse_placement("P(sum"), "'P(sum' is no placement"),
    ],
)
def test_impossible_values(make, message):
    with refused(InvalidStrategy, message):
        make()


@pytest.mark.parametrize(
    ("sharding", "message"),
    [
        (
            Sharding(WHOLE, (Partial("sum"), Replicated())),
            "x cannot live as terms between steps: [P(sum) R]",
        ),
        (
            Sharding(WHOLE, (Split(2), Replicated())),
            "x is float32[3, 3], which has no dim 2 to split",
        ),
        (
            Sharding(WHOLE, (Split(0), Replicated()), ((0, ((0, 1), (2, 3))),)),
            "x lives in even parts between steps; leave its pieces out",
        ),
    ],
)
def test_where_an_input_cannot_live(sharding, message):
    with refused(InvalidStrategy, message):
        make_plan(GRAPH, CLUSTER, {}, inputs={"x": sharding})


# -- plans for something else --------------------------------------------------------------------


def test_a_plan_is_for_its_graph():
    plan, other = make_plan(GRAPH, CLUSTER, {}), chain(3, 3)
    message = f"the plan was made for graph {GRAPH.hash[:12]}, this one is {other.hash[:12]}"
    for use in (
        lambda: expand(other, plan, COSTS),
        lambda: simulate(other, plan),
        lambda: Incremental(other, plan, COSTS),
    ):
        with refused(PlanMismatch, message):
            use()


def test_what_the_graph_does_not_have():
    with refused(PlanMismatch, "a strategy for 'conv', which the graph does not have"):
        make_plan(GRAPH, CLUSTER, {"conv": on_one(0)})
    with refused(PlanMismatch, "the plan places 'mm', which is not an input of the graph"):
        make_plan(GRAPH, CLUSTER, {}, inputs={"mm": replicated(WHOLE)})


def test_copies_that_cannot_be_kept():
    with refused(PlanMismatch, "keeps 'mmm', which the graph does not have; its tensors are"):
        make_plan(GRAPH, CLUSTER, {}, keep={"mmm": "before"})
    with refused(InvalidStrategy, "keep of mm: 'none' is none of 'before' and 'after'"):
        make_plan(GRAPH, CLUSTER, {}, keep={"mm": "none"})  # type: ignore[dict-item]
    with refused(InvalidStrategy, "keep of w: it lives between steps"):
        make_plan(GRAPH, CLUSTER, {}, keep={"w": "after"})


def test_a_plan_is_for_its_number_of_devices():
    plan = make_plan(GRAPH, CLUSTER, {})
    with refused(PlanMismatch, "the plan is for 4 devices (toys), but toys has 6; plan again"):
        simulate(GRAPH, plan, make_cluster(2, 3))
    with refused(PlanMismatch, "strategies alone do not say on which machine; give a cluster"):
        simulate(GRAPH, {"mm": on_one(0)})


def test_proposals_come_one_at_a_time():
    run = Incremental(GRAPH, make_plan(GRAPH, CLUSTER, {}), COSTS)
    with refused(PlanMismatch, "no proposal is open; propose one first"):
        run.accept()
    with refused(PlanMismatch, "no proposal is open; propose one first"):
        run.reject()
    with refused(PlanMismatch, "the graph has no node 'conv'"):
        run.propose({"conv": on_one(0)})
    before = run.makespan
    with refused(InvalidStrategy, "has no split along 'q'"):
        run.propose({"mm_1": on_one(0), "mm": Strategy((Along("q"), ONCE))})
    with refused(InvalidStrategy, "1 choices"):
        run.propose({"mm": Strategy((Along("i"),))})
    with refused(UnknownDevice, "device 5"):
        run.propose({"mm": on_one(5)})
    assert run.makespan == before
    run.propose({"mm": on_one(1)})
    with refused(PlanMismatch, "a proposal is open already; accept or reject it first"):
        run.propose({"mm": on_one(0)})
    run.reject()
    assert run.makespan == before


def test_an_unknown_recipe():
    with refused(InvalidStrategy, "no recipe 'magic'; one of data, layers, random, replicate"):
        baseline("magic", GRAPH, CLUSTER)


# -- files ---------------------------------------------------------------------------------------


def written() -> dict:
    """A plan's document with something in every field."""
    plan = make_plan(
        GRAPH,
        CLUSTER,
        {"mm": Strategy((Along("i"), Keep((0,)))), "mm_1": on_one(2)},
        inputs={"x": Sharding(WHOLE, (Split(0), Replicated()))},
        keep={"w": "before"},
        seed=3,
    )
    from graphwright.plans.plan import _to_json

    plan = replace(plan, figures=Figures(time=1.0, memory=5, breakdown={"gradient": 5}))
    return json.loads(json.dumps(_to_json(plan)))


def changed(document: dict, path: tuple, value: object) -> dict:
    table = document
    for step in path[:-1]:
        table = table[step]
    if value is ...:
        del table[path[-1]]
    else:
        table[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("format",), ..., "not a plan: the field format has to be 'graphwright.plan'"),
        (("format",), "graphwright.graph", "the field format has to be"),
        (("version",), ..., "version None; this Graphwright reads versions 1 to 2: plan again"),
        (("version",), 3, "version 3; this Graphwright reads versions 1 to 2: plan again"),
        (("version",), True, "version True; this Graphwright reads versions 1 to 2"),
        (("version",), 1, "unknown field 'keep'"),
        (("strategie",), [], "unknown field 'strategie'; meant is perhaps 'strategies'"),
        (("strategies", 0, "choice"), [], "strategies[0]: unknown field 'choice'"),
        (("inputs", "x", "pieces"), [], "inputs.x: unknown field 'pieces'"),
        (("keep",), ..., "keep has to be of type dict, not None"),
        (("keep", "w"), "both", "keep.w: 'both' is none of 'before' and 'after'"),
        (("keep", "w"), [], "keep.w: [] is none of 'before' and 'after'"),
        (("figures",), 3, "figures has to be a table, not 3"),
        (("figures", "time"), ..., "figures has no time"),
        (("figures", "time"), "1 s", "figures.time has to be seconds from 0 on, not '1 s'"),
        (("figures", "time"), None, "figures.time has to be seconds from 0 on, not None"),
        (("figures", "time"), float("nan"), "figures.time has to be seconds from 0 on, not nan"),
        (("figures", "estimate_time"), -1, "figures.estimate_time has to be seconds from 0 on"),
        (("figures", "memory"), 1.5, "figures.memory has to be a whole number of bytes"),
        (("figures", "memory"), None, "figures.memory has to be a whole number of bytes"),
        (("figures", "nbytes"), -1, "figures.nbytes has to be a whole number of bytes from 0 on"),
        (("figures", "speed"), 1, "figures has the unknown field 'speed'"),
        (("figures", "breakdown"), [], "figures.breakdown has to be a table, not []"),
        (("figures", "breakdown", "stack"), 1, "figures.breakdown has 'stack'; memory is held"),
        (("figures", "breakdown", "gradient"), "1", "figures.breakdown.gradient has to be a whole"),
        (("graph",), 12, "graph has to be of type str, not 12"),
        (("cluster",), None, "cluster has to be of type str, not None"),
        (("cluster",), "name = ", "cluster: "),
        (("cluster",), "name = 'x'", "cluster: "),
        (("algorithm",), [], "algorithm has to be of type str, not []"),
        (("made_by",), ..., "made_by has to be of type str, not None"),
        (("seed",), "3", "seed has to be a whole number, not '3'"),
        (("seed",), True, "seed has to be a whole number, not True"),
        (("strategies",), {}, "strategies has to be of type list, not {}"),
        (("strategies", 0), "i", "strategies[0] has to be a table"),
        (("strategies", 0, "choices"), ..., "strategies[0]: choices has to be of type list"),
        (("strategies", 0, "choices", 1), 4, "strategies[0]: 4 is not text"),
        (("strategies", 0, "choices", 1), "", "strategies[0]: an empty choice"),
        (("strategies", 0, "choices", 1), "+x", "strategies[0]: '+x': after + come the numbers"),
        (("strategies", 0, "nodes"), "mm", "strategies[0]: nodes has to be of type list"),
        (("strategies", 0, "nodes", 0), 1, "strategies[0]: 1 is not text"),
        (("strategies", 1, "nodes", 0), "mm", "strategies[1]: 'mm' has a strategy already"),
        (("strategies", 1, "shape"), ..., "strategies[1]: shape has to be of type list"),
        (("strategies", 1, "shape"), [2], "strategies[1]: a mesh of shape (2,) holds 2 devices"),
        (("strategies", 1, "shape"), [1], "strategies[1]: 0 choices for a mesh of 1 axes (1,)"),
        (("strategies", 1, "shape"), [-1, -1], "strategies[1]: a mesh of shape (-1, -1) has an"),
        (("strategies", 1, "devices"), 2, "strategies[1]: devices has to be of type list, not 2"),
        (("strategies", 1, "devices"), [2.0], "strategies[1]: devices and shape hold whole"),
        (("strategies", 1, "devices"), [True], "strategies[1]: devices and shape hold whole"),
        (("inputs",), [], "inputs has to be of type dict, not []"),
        (("inputs", "x"), "S0", "inputs.x: placements has to be of type list, not None"),
        (("inputs", "x", "placements", 0), "T0", "inputs.x: 'T0' is no placement"),
        (("inputs", "x", "placements", 0), 0, "inputs.x: 0 is not text"),
        (("inputs", "x", "placements"), ["S0"], "inputs.x: 1 placements for a mesh of 2 axes"),
        (("inputs", "x", "devices"), [0, 1, 2], "inputs.x: a mesh of shape (2, 2) holds 4"),
    ],
)  # fmt: skip
def test_a_broken_field_is_named(tmp_path, path, value, message):
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(changed(written(), path, value)))
    with refused(PlanFormatError, message) as caught:
        Plan.load(file)
    assert str(caught.value).startswith(f"{file}: ")


@pytest.mark.parametrize("text", ["", "plan", "{", "[" * 100_000, '{"format": "\ud800"'])
def test_what_is_not_json(tmp_path, text):
    file = tmp_path / "plan.json"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with refused(PlanFormatError, f"{file} is not JSON: "):
        Plan.load(file)


@pytest.mark.parametrize("document", [[], 3, None, "plan"])
def test_json_that_is_not_a_plan(tmp_path, document):
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(document))
    with refused(PlanFormatError, "not a plan: the field format"):
        Plan.load(file)


def test_a_plan_from_a_file_is_checked_when_it_is_used(tmp_path):
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(changed(written(), ("strategies", 1, "devices"), [9])))
    with refused(UnknownDevice, "mm_1 is placed on device 9"):
        simulate(GRAPH, Plan.load(file))
    file.write_text(json.dumps(changed(written(), ("inputs", "x", "placements", 0), "P(sum)")))
    with refused(InvalidStrategy, "x cannot live as terms between steps"):
        simulate(GRAPH, Plan.load(file))
    file.write_text(json.dumps(changed(written(), ("strategies", 0, "choices"), ["i"])))
    with refused(InvalidStrategy, "mm: 1 choices (i), but toys has 2 axes"):
        simulate(GRAPH, Plan.load(file))


def test_a_file_that_is_not_there(tmp_path):
    with refused(GraphwrightError, "nothing.json"):
        Plan.load(tmp_path / "nothing.json")
