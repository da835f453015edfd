"""Frontiers: which plans are on them, which one is chosen, and how they are written and read."""

import json
import re
from dataclasses import replace
from random import Random

import pytest

from graphwright.errors import DoesNotFit, InvalidLimit, PlanFormatError, PlanMismatch
from graphwright.plans import (
    Figures,
    Frontier,
    TooLargeForDevice,
    does_not_fit,
    make_frontier,
    make_plan,
    on_one,
)
from random_plans import chain
from timelines import make_cluster

CLUSTER = make_cluster(2, 2)
GRAPH = chain(3, 8)
BARE = make_plan(GRAPH, CLUSTER, {"mm": on_one(2)}, keep={"w": "before"})


def plan(memory: int, time: float, **more):
    return replace(BARE, figures=Figures(memory=memory, time=time, **more))


def points(frontier):
    return [(p.figures.memory, p.figures.time) for p in frontier]


def test_what_is_dominated_is_left_out():
    given = [(5, 2.0), (1, 9.0), (3, 4.0), (4, 4.0), (3, 5.0), (9, 2.0), (5, 2.0), (2, 9.5)]
    frontier = make_frontier([plan(*at) for at in given])
    assert points(frontier) == [(1, 9.0), (3, 4.0), (5, 2.0)]
    assert len(frontier) == 3 and frontier[1].figures.memory == 3 and len(frontier[1:]) == 2


@pytest.mark.parametrize("seed", range(10))
def test_random_plans(seed):
    rng = Random(seed)
    plans = [plan(rng.randint(1, 50), float(rng.randint(1, 50))) for _ in range(40)]
    frontier = make_frontier(plans)
    for one in plans:
        beaten = any(p.figures.dominates(one.figures) for p in plans)
        assert ((one.figures.memory, one.figures.time) in points(frontier)) == (not beaten)
    for limit in range(51):
        fitting = [p.figures.time for p in plans if p.figures.memory <= limit]
        if fitting:
            assert frontier.fastest(limit).figures.time == min(fitting)
        else:
            with pytest.raises(DoesNotFit):
                frontier.fastest(limit)


def test_choosing():
    frontier = make_frontier([plan(10**9, 9.0), plan(3 * 10**9, 4.0), plan(14_500_000_000, 3.9)])
    assert frontier.smallest().figures.time == 9.0
    assert frontier.fastest("14.5GB").figures.time == 3.9
    assert frontier.fastest("14.4GB") is frontier.fastest(3 * 10**9) is frontier[1]
    assert frontier.turning_point() is frontier[1]


def test_a_fastest_plan_that_no_device_can_hold_is_warned_of():
    has = min(device.memory for device in CLUSTER.devices)
    within = make_frontier([plan(has // 2, 9.0), plan(has, 4.0)])
    assert within.fastest() is within[1]  # a warning would be an error here
    beyond = make_frontier([plan(has // 2, 9.0), plan(has + 1, 4.0)])
    with pytest.warns(
        TooLargeForDevice, match=rf"it does not fit.*fastest\(memory={has}\)"
    ) as said:
        assert beyond.fastest() is beyond[1]
    assert said[0].filename == __file__
    assert beyond.fastest(memory=has) is beyond[0]
    with pytest.warns(TooLargeForDevice, match="None does: the smallest needs"):
        make_frontier([plan(has + 1, 9.0), plan(has + 2, 4.0)]).fastest()


def test_the_turning_point_lies_farthest_below_the_line_of_the_ends():
    bend = [(2**n, 1 + 2.0 ** (6 - n)) for n in range(12)]  # time halves with memory, then levels
    found = make_frontier([plan(*at) for at in bend]).turning_point().figures
    assert found.memory == 2**6
    scaled = [plan(1000 * m, t / 60) for m, t in bend]
    assert make_frontier(scaled).turning_point().figures.memory == 1000 * 2**6
    straight = [plan(2**n, 2.0**-n) for n in range(5)]  # memory pays to the end
    assert make_frontier(straight).turning_point().figures.memory == 2**4
    for few in (straight[:1], straight[:2]):
        assert make_frontier(few).turning_point() is few[-1]
    assert make_frontier([plan(0, 2.0), plan(1, 1.0), plan(2, 0.0)]).turning_point() is not None


def test_nothing_fits():
    small = plan(32_000, 1.0, breakdown={"parameter": 2_000, "activation": 30_000})
    with pytest.raises(DoesNotFit, match=re.escape(
        "no plan needs at most 31 kB on every device of toys; the smallest needs 32 kB "
        "(activation 30 kB, parameter 2 kB). Use more devices, a smaller batch or a smaller model"
    )) as caught:  # fmt: skip
        make_frontier([small]).fastest("31kB")
    assert (caught.value.limit, caught.value.needed) == (31_000, 32_000)
    named = does_not_fit(31_000, small, [("embedding", 20_000), ("cat", 9_000)])
    assert "; the largest tensors are embedding 20 kB, cat 9 kB. Use" in str(named)
    assert named.largest == ("embedding", "cat")


@pytest.mark.parametrize("limit", ["14 gigs", "GB", "", True, float("nan"), [1], "0.5B"])
def test_limits_that_are_no_sizes(limit):
    with pytest.raises(InvalidLimit, match="memory: "):
        make_frontier([plan(1, 1.0)]).fastest(limit)


def test_mixtures():
    one = plan(1, 2.0)
    other = replace(plan(2, 1.0), graph_hash=chain(4, 8).hash)
    with pytest.raises(PlanMismatch, match="a frontier is of one graph, but there are plans for"):
        make_frontier([one, other])
    with pytest.raises(PlanMismatch, match="a frontier is of one graph"):
        make_frontier([one], others={"data": other})
    elsewhere = replace(plan(2, 1.0), cluster=make_cluster(1, 4))
    with pytest.raises(PlanMismatch, match="a frontier is on one cluster"):
        make_frontier([one, elsewhere])
    with pytest.raises(PlanMismatch, match="has no figures, so it cannot be compared"):
        make_frontier([one, BARE])
    with pytest.raises(PlanMismatch, match="3 is no plan"):
        make_frontier([one, 3])
    with pytest.raises(PlanMismatch, match="at least one plan"):
        make_frontier([])
    with pytest.raises(PlanMismatch, match="goes from small and slow to large and fast"):
        Frontier((plan(2, 1.0), one))


def example():
    data = plan(64_000_000_000, 0.5, nbytes=10**9, estimate_time=0.4, estimate_memory=60)
    notes = ("12 plans were simulated",)
    return make_frontier(
        [plan(10**9, 9.0), plan(2 * 10**9, 3.0), plan(4 * 10**9, 2.5)],
        others={"data": data},
        notes=notes,
    )


@pytest.mark.parametrize("name", ["frontier.json", "frontier.json.gz"])
def test_every_field_comes_back(tmp_path, name):
    frontier = example()
    frontier.save(tmp_path / name)
    assert Frontier.load(tmp_path / name) == frontier


def test_the_table():
    assert repr(example()).splitlines() == [
        "Frontier(3 plans on 4 devices of toys)",
        "     memory       time      moved",
        "       1 GB        9 s        0 B",
        "       2 GB        3 s        0 B  <- turning point",
        "       4 GB      2.5 s        0 B",
        "      64 GB     500 ms       1 GB  data",
        "  12 plans were simulated",
    ]
    long = make_frontier([plan(n, 100.0 - n) for n in range(1, 90)])
    lines = repr(long).splitlines()
    assert len(lines) < 30 and "..." in repr(long)
    assert lines[2].split() == ["1", "B", "99", "s", "0", "B"] and "89 B" in lines[-1]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("format",), "graphwright.plan", "not a frontier: the field format has to be"),
        (("version",), 2, "version 2; this Graphwright reads version 1: plan again"),
        (("graph",), 3, "graph has to be of type str, not 3"),
        (("cluster",), "name = ", "cluster: "),
        (("note",), [], "unknown field 'note'; meant is perhaps 'notes'"),
        (("notes",), [3], "notes hold text"),
        (("plans",), {}, "plans has to be of type list, not {}"),
        (("plans",), [], "a frontier has at least one plan"),
        (("plans", 1), 4, "plans[1]: a plan has to be a table, not 4"),
        (("plans", 1, "graph"), "x", "plans[1]: unknown field 'graph'"),
        (("plans", 1, "keep"), [], "plans[1]: keep has to be of type dict"),
        (("plans", 1, "figures"), None, "has no figures, so it cannot be compared"),
        (("plans", 1, "figures", "time"), 10.0, "goes from small and slow to large and fast"),
        (("others", "data", "seed"), "1", "others.data: seed has to be a whole number"),
    ],
)
def test_a_broken_field_is_named(tmp_path, path, value, message):
    file = tmp_path / "frontier.json"
    example().save(file)
    document = table = json.loads(file.read_text())
    for step in path[:-1]:
        table = table[step]
    table[path[-1]] = value
    file.write_text(json.dumps(document))
    with pytest.raises(PlanFormatError, match=re.escape(message)) as caught:
        Frontier.load(file)
    assert str(caught.value).startswith(f"{file}: ")


def test_what_is_not_json(tmp_path):
    file = tmp_path / "frontier.json"
    file.write_text("{")
    with pytest.raises(PlanFormatError, match="is not JSON"):
        Frontier.load(file)
