"""The whole way from the command line: capture, plan, simulate, save, simulate the saved plan."""

import json

import pytest
from typer.testing import CliRunner

import graphwright as gw
from graphwright import cli, ir, zoo
from graphwright.partition import BASELINES, baseline


def run(*arguments):
    result = CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("strategy", [*BASELINES, "random"])
def test_every_recipe(strategy, tmp_path):
    trace = tmp_path / "step.json"
    found = json.loads(
        run("simulate", "lenet", "--small", "--cluster", "dgx-1v", "--strategy", strategy, "-o", str(trace), "--json")
    )  # fmt: skip
    assert found["makespan"] > 0
    assert found["fits"]
    assert json.loads(trace.read_text())["traceEvents"]


def test_a_saved_graph_and_a_saved_plan(tmp_path):
    graph = zoo.load("mlp", small=True).capture()
    ir.save(graph, tmp_path / "graph.json")
    plan = baseline("data", graph, "dgx-h100")
    plan.save(tmp_path / "plan.json")
    arguments = ("simulate", str(tmp_path / "graph.json"), "--plan", str(tmp_path / "plan.json"))
    found = json.loads(run(*arguments, "--json"))
    assert found["makespan"] == gw.simulate(graph, plan).makespan
    assert gw.simulate(graph, str(tmp_path / "plan.json")).makespan == found["makespan"]
    text = run(*arguments)
    assert "fits: gpu 0 needs" in text
    assert "estimated: none of the operators" in text


def test_calibrated_times_are_used_and_said(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPHWRIGHT_COSTS", str(tmp_path / "costs.sqlite"))
    run("calibrate", "mlp", "--small", "--cluster", "local:2")
    found = json.loads(run("simulate", "mlp", "--small", "--cluster", "local:2", "--json"))
    assert "measured" in found["costs"]
    assert "none" not in found["costs"]


def test_work_that_is_done_twice_is_said():
    text = run("simulate", "mlp", "--small", "--cluster", "dgx-h100", "--strategy", "replicate")
    assert "88% of the computing" in text
