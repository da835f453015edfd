"""The verb `simulate`: what it asks of the stages, and what it does with the timeline. The stages are stood in for."""

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import graphwright.machine as machine
import graphwright.partition as partition
import graphwright.simulate as simulate
import timelines
from graphwright import cli
from graphwright.errors import InvalidCluster

SAVED, MADE = SimpleNamespace(memory=None), SimpleNamespace(memory=None)


@pytest.fixture
def calls(monkeypatch):
    """Put stand-ins for the stages; returns what they were asked."""
    asked: dict[str, tuple] = {}
    timeline = timelines.small()

    def note(name, result):
        def stage(*arguments, **options):
            asked[name] = (*arguments, *options.values())
            return result

        return stage

    monkeypatch.setattr("graphwright.cli.simulate.load_graph", note("load", timeline.graph))
    monkeypatch.setattr("graphwright.plans.Plan.load", note("plan", SAVED))
    monkeypatch.setattr(machine, "cluster", note("cluster", timeline.cluster))
    monkeypatch.setattr(simulate, "simulate", note("simulate", timeline), raising=False)
    monkeypatch.setattr(partition, "baseline", note("baseline", MADE))
    return asked


def run(*arguments: str):
    result = CliRunner().invoke(cli.app, ["simulate", "mlp", "--cluster", "toys", *arguments])
    if result.exception:
        raise result.exception
    return result


def test_data_parallelism_is_simulated_unless_told_otherwise(calls):
    output = run("--small", "--batch-size", "4").stdout
    assert calls["load"] == ("mlp", 4, True, None)
    assert calls["cluster"] == ("toys",)
    assert calls["baseline"][0] == "data" and calls["baseline"][3] == 0
    assert calls["simulate"][1] is MADE
    for words in ("mlp, one training step", "24 µs", "gpu 0 out: 800 B"):
        assert words in output


@pytest.mark.parametrize("strategy", ["data", "replicate", "random", "layers"])
def test_strategies_and_seed_are_passed_on(calls, strategy):
    run("--strategy", strategy, "--seed", "5")
    name, graph, cluster, seed = calls["baseline"]
    assert (name, seed) == (strategy, 5)
    assert (graph, cluster) == (calls["simulate"][0], calls["simulate"][2])


def test_a_saved_plan_needs_no_strategy(calls, tmp_path):
    run("--plan", str(tmp_path / "plan.json"))
    assert "baseline" not in calls
    assert calls["simulate"][1] is SAVED


@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".png", ".svg"])
def test_the_timeline_is_saved(calls, tmp_path, suffix):
    path = tmp_path / f"timeline{suffix}"
    result = run("-o", str(path), "--json")
    assert path.stat().st_size > 500
    assert "saved" in result.stderr
    assert json.loads(result.stdout)["makespan"] == pytest.approx(24e-6)


def test_a_price_replaces_that_of_the_machine(calls):
    run("--price", "2.5")
    assert calls["simulate"][2].price == 2.5
    with pytest.raises(InvalidCluster, match=r"price.*-1"):
        run("--price", "-1")
