"""The whole way of planning from the command line: capture, plan, pick, explain, compare, simulate, profile."""

import json

import pytest
from typer.testing import CliRunner

import graphwright as gw
from graphwright import cli, ir, zoo
from graphwright.plans import figures_of


def run(*arguments):
    result = CliRunner().invoke(cli.app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plans")
    ir.save(zoo.load("lenet", small=True).capture(), folder / "graph.json")
    run(
        "plan", folder / "graph.json", "--cluster", "v100-2x8", "--points", 4, "--baselines", "data,zero",
        "-o", folder / "frontier.json", "--plot", folder / "frontier.svg",
    )  # fmt: skip
    return folder


def test_the_frontier_is_that_of_the_interface(folder):
    graph = gw.load(folder / "graph.json")
    found = gw.plan(graph, "v100-2x8", points=4, baselines=("data", "zero"))
    assert gw.Frontier.load(folder / "frontier.json") == found
    assert "data" in (folder / "frontier.svg").read_text()


@pytest.mark.parametrize("pick", ["fastest", "smallest", "data", "1"])
def test_every_plan_is_explained_and_simulated_to_the_same_figures(folder, pick):
    arguments = (folder / "frontier.json", folder / "graph.json", "--pick", pick)
    text = run("explain", *arguments)
    assert "conv1" in text
    explained = json.loads(run("explain", *arguments, "-o", folder / f"{pick}.json", "--json"))
    simulated = json.loads(
        run("simulate", folder / "graph.json", "--plan", folder / f"{pick}.json", "--json")
    )
    assert simulated["makespan"] == explained["plan"]["time"]
    again = run(
        "simulate", folder / "graph.json", "--plan", *arguments[:1], "--pick", pick, "--json"
    )
    assert json.loads(again)["makespan"] == simulated["makespan"]
    moved = sum(
        b["count"] * line["moved_bytes"] for b in explained["blocks"] for line in b["lines"]
    )
    assert moved == simulated["moved_bytes"]


def test_two_plans_are_compared(folder):
    files = (folder / "frontier.json", folder / "frontier.json", folder / "graph.json")
    found = json.loads(run("diff", *files, "--pick", "data", "--pick", "fastest", "--json"))
    assert found["second"]["time"] <= found["first"]["time"]
    assert found["different"] == sum(c["count"] * len(c["nodes"]) for c in found["changes"])


@pytest.mark.parametrize("objective", ["time", "memory", "bytes", "devices"])
def test_every_objective(folder, objective):
    found = json.loads(
        run("plan", folder / "graph.json", "--cluster", "local:4", "--objective", objective, "--points", 2, "--baselines", "data", "--json")
    )  # fmt: skip
    assert found["memory"] > 0
    if objective == "devices":
        assert found["devices"] == 1  # it fits anywhere


def test_profile(folder):
    rows = json.loads(
        run("profile", folder / "graph.json", "--cluster", "local:4", "--devices", "1,2", "--plot", folder / "p.png", "--json")
    )["rows"]  # fmt: skip
    assert [row["devices"] for row in rows] == [1, 2]
    assert all(row["fits"] for row in rows)
    assert (folder / "p.png").exists()


@pytest.mark.parametrize("algorithm", ["mcmc", "tofu"])
def test_other_algorithms(folder, algorithm):
    options = ("--algorithm", algorithm, "--budget", 3, "--baselines", "data", "--json")
    found = json.loads(run("plan", folder / "graph.json", "--cluster", "local:2", *options))
    assert min(p["time"] for p in found["plans"]) <= found["others"]["data"]["time"]


def test_a_whole_model_of_ones_own(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def make():\n"
        "    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 4))\n"
        "    batch = torch.ones(8, 16), torch.ones(8, 4)\n"
        "    return model, torch.nn.functional.mse_loss, batch, torch.optim.Adam\n"
    )
    model = f"{tmp_path}/mine.py:make"
    run(
        "plan",
        model,
        "--cluster",
        "local:2",
        "--objective",
        "time",
        "--points",
        2,
        "-o",
        tmp_path / "p.json",
    )
    plan = gw.Plan.load(tmp_path / "p.json")
    assert "update of" in run("explain", tmp_path / "p.json", model)
    assert figures_of(plan).time > 0
