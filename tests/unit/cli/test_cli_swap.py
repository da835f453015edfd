"""``graphwright swap``: a table of searches, figures as JSON, the plan and the picture as files."""

import json

import pytest
from typer.testing import CliRunner

import graphwright as gw
from graphwright import cli, zoo
from graphwright.errors import InvalidOption
from graphwright.machine import cluster
from graphwright.partition import data_parallel
from graphwright.pipeline.planning import RunOptions, plan_for
from graphwright.plans import MemoryPlan, Plan

RUN = CliRunner()
SMALL = ["swap", "mlp", "--small", "--cluster", "p3.2xlarge", "--budget", "0"]
LESS = "10kB"


def test_swap_prints_the_searches_side_by_side(tmp_path):
    plan, picture = tmp_path / "plan.json", tmp_path / "streams.png"
    result = RUN.invoke(
        cli.app, [*SMALL, "--memory", LESS, "-o", str(plan), "--plot", str(picture)]
    )
    assert result.exit_code == 0, result.output
    for word in ("greedy", "belady", "lru", "genetic", "needs", "holds", "out and"):
        assert word in " ".join(result.output.split())
    assert MemoryPlan.load(plan).capacity == 10**4
    assert picture.stat().st_size > 1000


def test_swap_as_json():
    figures = json.loads(RUN.invoke(cli.app, [*SMALL, "--memory", LESS, "--json"]).stdout)
    assert figures["capacity"] == 10**4 and figures["arena"] <= 10**4
    assert figures["time"] >= figures["unlimited_time"] > 0


def test_too_little_memory_says_what_is_needed():
    result = RUN.invoke(cli.app, [*SMALL, "--memory", "1kB"])
    assert isinstance(result.exception, gw.GraphwrightError)
    assert "needs" in str(result.exception)


def test_where_all_fits_nothing_is_swapped_or_searched():
    result = RUN.invoke(cli.app, [*SMALL, "--memory", "2MB"])
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    assert "nothing has to be swapped" in words and "greedy" not in words
    figures = json.loads(RUN.invoke(cli.app, [*SMALL, "--memory", "2MB", "--json"]).stdout)
    assert figures["bytes_in"] == figures["bytes_out"] == 0 and figures["searches"] == {}
    assert figures["arena"] < 1.2 * figures["needs"]


def save_plan(folder):
    """A plan for two workers in a file, its graph, and the least memory that it can have."""
    workload = zoo.load("mlp", small=True)
    graph = gw.capture(
        workload.model,
        workload.loss_fn,
        workload.batch,
        optimizer=workload.optimizer,
        optimizer_options=workload.optimizer_options,
    )
    plan = data_parallel(graph, cluster("local:2"))
    plan.save(folder / "plan.json")
    return folder / "plan.json", graph, gw.swap(graph, "1GB", partition=plan).least


def test_a_plan_for_several_devices_gets_memory_on_each(tmp_path):
    path, _, least = save_plan(tmp_path)
    limited, picture = tmp_path / "limited.json", tmp_path / "ranks.png"
    arguments = ["swap", "mlp", "--small", "--plan", str(path), "--memory", str(least)]
    result = RUN.invoke(cli.app, [*arguments, "-o", str(limited), "--plot", str(picture)])
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    for word in ("rank", "needs", "holds", "swaps out", "with memory for everything"):
        assert word in words
    assert Plan.load(limited).memory == least and picture.stat().st_size > 1000
    figures = json.loads(RUN.invoke(cli.app, [*arguments, "--json"]).stdout)
    assert len(figures["ranks"]) == 2 and figures["time"] >= figures["unlimited_time"] > 0
    timeline = RUN.invoke(cli.app, ["simulate", "mlp", "--small", "--plan", str(limited), "--json"])
    assert timeline.exit_code == 0, timeline.output
    refused = RUN.invoke(cli.app, [*arguments, "--cluster", "local:2"])
    assert refused.exit_code == 2 and "machine of its own" in " ".join(refused.output.split())


def test_a_run_that_swaps_keeps_to_its_memory(tmp_path):
    path, graph, least = save_plan(tmp_path)
    for wanted in (Plan.load(path), "data"):
        options = RunOptions(workers=2, memory=least, swap=True, plan=wanted)
        assert plan_for(graph, 2, options, wanted).memory == least
    with pytest.raises(InvalidOption, match="say into how much"):
        RunOptions(workers=2, swap=True)
    with pytest.raises(InvalidOption, match="choose one"):
        RunOptions(workers=2, memory=least, swap=True, torch_compile=True)


def test_serve_sim_compares_partitioned_with_shared_memory(tmp_path):
    picture, data = tmp_path / "latency.svg", tmp_path / "latency.json"
    arguments = ["serve-sim", "mlp", "--small", "--cluster", "p3.2xlarge", "--memory", "40kB",
                 "--models", "2,3", "--requests", "200"]  # fmt: skip
    result = RUN.invoke(cli.app, [*arguments, "-o", str(picture)])
    assert result.exit_code == 0, result.output
    for word in ("alone", "partitioned", "shared", "cached", "loading"):
        assert word in result.output
    assert "partitioned, 3 models" in picture.read_text()
    assert RUN.invoke(cli.app, [*arguments, "-o", str(data)]).exit_code == 0
    printed = json.loads(RUN.invoke(cli.app, [*arguments, "--json"]).stdout)
    assert json.loads(data.read_text()) == printed
    assert [s["name"] for s in printed["servers"]].count("partitioned") == 2


def test_serve_sim_refuses_other_numbers():
    result = RUN.invoke(cli.app, ["serve-sim", "mlp", "--memory", "1MB", "--models", "two"])
    assert result.exit_code == 2 and "numbers with commas" in " ".join(result.output.split())
