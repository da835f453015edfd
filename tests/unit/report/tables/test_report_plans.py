"""Tables of frontiers, plans and profiles: what is marked, and what is said where nothing fits."""

import json
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

import graphwright as gw
from graphwright.errors import GraphFileError, InvalidOption
from graphwright.partition import Profile, Row
from graphwright.plans import Figures, make_frontier, make_plan
from graphwright.report import show, to_dict
from random_plans import chain
from timelines import make_cluster, small

GRAPH = chain(2, 8)
CLUSTER = make_cluster(2, 2, memory=100_000)
PNG = b"\x89PNG\r\n\x1a\n"


def plan(memory, time, algorithm="frontier", **more):
    made = make_plan(GRAPH, CLUSTER, {}, algorithm=algorithm)
    return replace(made, figures=Figures(memory=memory, time=time, **more))


def frontier(notes=()):
    plans = [
        plan(10_000, 5.0, estimate_time=4.0, estimate_memory=9_000),
        plan(20_000, 2.0, compute_time=1.0, communication_time=0.5, breakdown={"gradient": 9_000}),
        plan(80_000, 1.9, "layers"),
    ]
    others = {"data": plan(90_000, 4.0, "data"), "layers": plan(80_000, 1.9, "layers")}
    return make_frontier(plans, others=others, notes=notes)


def text_of(result, limit=None):
    console = Console(width=110, record=True, file=StringIO())
    show(result, console, title="toy", limit=limit)
    return [" ".join(line.split()) for line in console.export_text().splitlines()]


def test_a_frontier_marks_what_to_take():
    lines = text_of(frontier(["one thing was left out"]), 50_000)
    assert lines[0] == "toy: time against memory on 4 devices of toys"
    assert lines[2] == "1 10 kB 9 kB 5 s 4 s 0 B"
    assert lines[3] == "2 20 kB 2 s 0 B fastest within 50 kB, turning point"
    assert lines[4] == "3 80 kB 1.9 s 0 B by layers"
    assert "90 kB 4 s 0 B data: does not fit" in lines
    assert any("computes 50% and the busiest link moves 25%" in line for line in lines)
    assert "note: one thing was left out" in lines


def test_what_is_compared_with_is_set_against_the_fastest_that_fits():
    lines = text_of(frontier(), 95_000)
    assert "90 kB 4 s 0 B data: 2.11 times as long" in lines
    assert "80 kB 1.9 s 0 B layers: as fast" in lines


def test_a_frontier_of_which_nothing_fits_says_so():
    text = " ".join(text_of(frontier(), 5_000))
    assert "nothing fits: a plan may take 5 kB of a device, the smallest needs 10 kB" in text
    assert to_dict(frontier(), limit=5_000)["fastest_that_fits"] is None


def test_a_frontier_as_data():
    found = json.loads(json.dumps(to_dict(frontier(), limit=50_000)))
    assert (found["fastest_that_fits"], found["turning_point"]) == (2, 2)
    assert [p["memory"] for p in found["plans"]] == [10_000, 20_000, 80_000]
    assert found["others"]["data"]["time"] == 4.0


def test_one_plan():
    made = plan(20_000, 2.0, "mcmc", estimate_time=1.5, estimate_memory=18_000)
    text = " ".join(text_of(replace(made, seed=3)))
    for words in ("2 s (estimate 1.5 s)", "20 kB of 100 kB", "(estimate 18 kB)", "mcmc, seed 3"):
        assert words in text
    assert to_dict(made)["algorithm"] == "mcmc"


def profile(price=None):
    def row(count, time, memory):
        cost = None if price is None or time is None else price * count * time / 3600
        return Row(num_devices=count, time=time, memory=memory, cost=cost, plan=None)

    return Profile((row(1, None, 200_000), row(2, 4.0, 90_000), row(4, 2.5, 50_000)), CLUSTER)


def test_a_profile_says_how_well_more_devices_pay():
    lines = text_of(profile())
    assert "1 - 200 kB does not fit" in lines
    assert "2 4 s 1 100% 90 kB cheapest" in lines
    assert "4 2.5 s 1.6 80% 50 kB fastest" in lines
    assert "speed-up is against 2 devices, the fewest that it fits on" in lines
    assert any("no price_per_device_hour" in line for line in lines)


def test_a_profile_with_prices():
    lines = text_of(profile(3600.0))
    assert "2 4 s 1 100% 90 kB 8 cheapest" in lines
    assert not any("no price" in line for line in lines)


def test_a_profile_as_data():
    rows = json.loads(json.dumps(to_dict(profile())))["rows"]
    assert [row["fits"] for row in rows] == [False, True, True]
    assert rows[0]["memory"] == 200_000


@pytest.mark.parametrize("make", [frontier, profile, small, lambda: (GRAPH, plan(1, 1.0))])
def test_whatever_a_stage_returns_can_be_drawn(make, tmp_path):
    gw.plot(make(), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(PNG)


def test_what_cannot_be_drawn(tmp_path):
    with pytest.raises(InvalidOption, match=r"draw \(graph, plan\)"):
        gw.plot(plan(1, 1.0), tmp_path / "picture.png")
    with pytest.raises(InvalidOption, match="int has no picture; draw a Frontier"):
        gw.plot(3, tmp_path / "picture.png")
    with pytest.raises(GraphFileError, match=r"has to end in .png or .svg"):
        gw.plot(frontier(), tmp_path / "picture.pdf")
    assert not list(tmp_path.iterdir())


def test_what_is_no_result_of_a_stage_is_refused():
    for refuse in (to_dict, show):
        with pytest.raises(InvalidOption, match="int is no result of a stage"):
            refuse(3)
