"""The verbs `plan`, `profile`, `explain` and `diff`: what they ask of the search, and what they do with its answer. The search is stood in for."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import graphwright.partition as partition
from graphwright import cli, zoo
from graphwright.cli.inputs.plan_files import load_plan
from graphwright.cli.plan import _counts
from graphwright.errors import DoesNotFit, InvalidOption, PlanFormatError
from graphwright.partition import (
    RECIPES,
    SYSTEMS,
    Profile,
    Row,
    data_parallel,
    layers,
    replicate,
)
from graphwright.plans import Figures, Frontier, Plan, make_frontier

RUN = CliRunner()


@pytest.fixture(scope="module")
def graph():
    return zoo.load("mlp", small=True).capture()


@pytest.fixture(scope="module")
def frontier(graph):
    def figured(make, memory, time):
        return replace(make(graph, "local:2"), figures=Figures(memory=memory, time=time))

    data = figured(data_parallel, 3_000, 2.0)
    plans = [figured(layers, 1_000, 5.0), data, figured(replicate, 9_000, 1.0)]
    return make_frontier(plans, others={"data": data}, notes=["a note"])


@pytest.fixture
def asked(monkeypatch, graph, frontier):
    """Put a stand-in for the search; returns what it was asked."""
    found: dict = {}

    def plan(given, cluster, *, objective, report, **search):
        found.update(search, graph=given, cluster=cluster.name, objective=objective)
        report("searching", 1, 2)
        return frontier if objective == "frontier" else frontier[1]

    monkeypatch.setattr("graphwright.cli.plan.load_graph", lambda *a: found.update(load=a) or graph)
    monkeypatch.setattr(partition, "plan", plan)
    return found


def run(*arguments: str):
    result = RUN.invoke(cli.app, list(arguments))
    if result.exception:
        raise result.exception
    return result


def test_plan_asks_for_the_frontier_unless_told_otherwise(asked, graph):
    text = run("plan", "mlp", "--cluster", "local:2", "--small", "--batch-size", "4").stdout
    assert asked["load"] == ("mlp", 4, True)
    assert asked["graph"] is graph
    assert (asked["objective"], asked["cluster"], asked["algorithm"]) == (
        "frontier",
        "local:2",
        "frontier",
    )
    assert asked["compiled"] is False
    known = {"load", "graph", "objective", "cluster", "algorithm", "seed", "compiled"}
    assert asked.keys() <= known
    for words in (
        "mlp: time against memory on 2 devices of local:2",
        "fastest within",
        "turning point",
        "a note",
    ):
        assert words in text


def test_options_are_passed_on(asked):
    arguments = [
        "--algorithm",
        "mcmc",
        "--memory",
        "9kB",
        "--margin",
        "1.5",
        "--points",
        "3",
        "--budget",
        "2",
        "--seed",
        "5",
    ]
    run("plan", "mlp", "--cluster", "local:2", "--baselines", " data, tofu,data", *arguments)
    assert asked["baselines"] == ("data", "tofu")
    assert [asked[name] for name in ("algorithm", "memory", "margin", "points", "budget", "seed")] == [
        "mcmc", "9kB", 1.5, 3, 2.0, 5,
    ]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), [("all", (*RECIPES, *SYSTEMS)), ("none", ())])
def test_all_baselines_or_none(asked, text, wanted):
    run("plan", "mlp", "--cluster", "local:2", "--baselines", text)
    assert asked["baselines"] == wanted


def test_the_frontier_is_saved_and_drawn(asked, frontier, tmp_path):
    saved, picture = tmp_path / "f.json", tmp_path / "f.png"
    result = run(
        "plan", "mlp", "--cluster", "local:2", "-o", str(saved), "--plot", str(picture), "--json"
    )
    assert Frontier.load(saved) == frontier
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert json.loads(result.stdout)["turning_point"] == 2
    assert "saved" in result.stderr


@pytest.mark.parametrize("objective", ["time", "memory", "bytes", "devices"])
def test_other_objectives_give_one_plan(asked, frontier, objective, tmp_path):
    arguments = ["plan", "mlp", "--cluster", "local:2", "--objective", objective]
    assert "one step takes" in run(*arguments, "-o", str(tmp_path / "p.json.gz")).stdout
    assert asked["objective"] == objective
    assert Plan.load(tmp_path / "p.json.gz") == frontier[1]
    found = json.loads(run(*arguments, "--plot", str(tmp_path / "p.svg"), "--json").stdout)
    assert found["time"] == 2.0
    assert "<svg" in (tmp_path / "p.svg").read_text()


@pytest.mark.parametrize("objective", ["frontier", "memory", "time"])
def test_a_limit_that_nothing_keeps_to_leaves_nothing_behind(asked, objective, tmp_path):
    arguments = ["--memory", "900", "--objective", objective, "-o", str(tmp_path / "f.json")]
    result = RUN.invoke(cli.app, ["plan", "mlp", "--cluster", "local:2", *arguments])
    assert isinstance(result.exception, DoesNotFit)
    assert "the largest tensors are" in str(result.exception)
    assert not list(tmp_path.iterdir())


def test_profile(monkeypatch, asked, graph, tmp_path):
    seen = {}

    def profile(given, cluster, *, devices, report, **search):
        seen.update(search, devices=devices)
        rows = tuple(
            Row(num_devices=n, time=1 / n, memory=5, cost=None, plan=None)
            for n in devices
            if n != 3
        )
        return Profile(rows, cluster)

    monkeypatch.setattr(partition, "profile", profile)
    saved, picture = tmp_path / "p.json", tmp_path / "p.png"
    result = run(
        "profile", "mlp", "--cluster", "local:4", "--devices", "1-3,4", "--points", "2", "-o", str(saved), "--plot", str(picture)
    )  # fmt: skip
    assert seen == {"devices": [1, 2, 3, 4], "points": 2, "algorithm": "frontier", "seed": 0}
    assert "fastest" in result.stdout
    assert "cannot have so many devices: 3" in " ".join(result.stderr.split())
    assert [row["devices"] for row in json.loads(saved.read_text())["rows"]] == [1, 2, 4]
    assert picture.exists()
    shown = run("profile", "mlp", "--cluster", "local:4", "--devices", "1", "--json").stdout
    assert json.loads(shown)["rows"][0]["time"] == 1.0


@pytest.mark.parametrize(
    ("text", "counts"),
    [("8", [8]), ("1,2,4", [1, 2, 4]), ("1-4", [1, 2, 3, 4]), ("1-2, 8 ,2-3", [1, 2, 8, 3])],
)
def test_numbers_of_devices(text, counts):
    assert _counts(text) == counts


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "4-2", "1-", "1,,2", "1.5", "²", "1-99999"])
def test_what_is_no_number_of_devices(text):
    with pytest.raises(InvalidOption, match="--devices"):
        _counts(text)


# -- picking ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "number"),
    [
        ("fastest", 2), ("smallest", 0), ("turning-point", 1), ("1", 0), ("3", 2), ("fastest:3kB", 1),
        ("fastest:9000", 2), ("data", 1),
    ],
)  # fmt: skip
def test_a_plan_of_a_frontier_is_picked(frontier, tmp_path, choice, number):
    frontier.save(tmp_path / "f.json")
    assert load_plan(tmp_path / "f.json", choice) == frontier[number]


@pytest.mark.parametrize("choice", ["0", "4", "best", "zero", "smallest:3kB", "", "-1", "²", "1:2"])
def test_what_cannot_be_picked(frontier, tmp_path, choice):
    frontier.save(tmp_path / "f.json")
    with pytest.raises(InvalidOption, match="turning-point, 1 to 3, or data"):
        load_plan(tmp_path / "f.json", choice)


def test_there_is_nothing_to_pick_from_one_plan(frontier, tmp_path):
    frontier[0].save(tmp_path / "p.json")
    assert load_plan(tmp_path / "p.json", None) == frontier[0]
    with pytest.raises(InvalidOption, match="holds one plan, not a frontier"):
        load_plan(tmp_path / "p.json", "fastest")


def test_a_damaged_file_is_told_by_what_it_would_have_been(frontier, tmp_path):
    for name, made in (("plan", frontier[0]), ("frontier", frontier)):
        path = tmp_path / f"{name}.json"
        made.save(path)
        document = json.loads(path.read_text())
        path.write_text(json.dumps(document | {"version": 99}))
        with pytest.raises(PlanFormatError, match=f"{name}.json: version 99"):
            load_plan(path, None)


# -- explain and diff ---------------------------------------------------------------------------------


@pytest.fixture
def saved(monkeypatch, graph, frontier, tmp_path):
    monkeypatch.setattr("graphwright.cli.explain.load_graph", lambda *_: graph)
    frontier.save(tmp_path / "f.json")
    frontier[1].save(tmp_path / "p.json")
    return tmp_path


def test_explain_a_plan(saved):
    text = run("explain", f"{saved}/p.json", "mlp").stdout
    assert "mlp: data on 2 devices of local:2: 2 s, 3 kB" in text
    assert "batch in 2" in text


def test_explain_a_plan_of_a_frontier(saved, frontier, graph):
    picture, plan = saved / "who.png", saved / "one.json"
    arguments = ["--pick", "2", "--picture", str(picture), "-o", str(plan), "--json"]
    found = json.loads(run("explain", f"{saved}/f.json", "mlp", *arguments).stdout)
    assert found["plan"]["algorithm"] == "data"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert Plan.load(plan) == frontier[1]


def test_explain_every_operator(saved, graph):
    lines = run("explain", f"{saved}/p.json", "mlp", "--all").stdout.splitlines()
    assert len([line for line in lines if line.startswith("%")]) == len(graph.nodes)


@pytest.mark.parametrize(
    ("files", "picks", "names"),
    [
        ("p f", ["fastest"], ("p.json", "f.json, fastest")),
        ("f p", ["smallest"], ("f.json, smallest", "p.json")),
        ("f f", ["1", "2"], ("f.json, 1", "f.json, 2")),
        ("f f", ["3"], ("f.json, 3", "f.json, 3")),
        ("p p", [], ("p.json", "p.json")),
    ],
)
def test_diff(saved, files, picks, names):
    paths = [f"{saved}/{name}.json" for name in files.split()]
    options = [word for pick in picks for word in ("--pick", pick)]
    text = run("diff", *paths, *options).stdout
    assert all(name in text for name in names)
    assert ("operators are split alike" in text) == (names[0] == names[1])
    found = json.loads(run("diff", *paths, "mlp", *options, "--json").stdout)
    assert (found["different"] == 0) == (names[0] == names[1])
