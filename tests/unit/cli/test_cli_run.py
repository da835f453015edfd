"""The verb `run`: what it asks of the pipeline, and how the pipeline chooses. One worker trains for real; more do in tests/integration."""

import json

import pytest
from typer.testing import CliRunner

import graphwright as gw
from graphwright import cli, pipeline, zoo
from graphwright.errors import DoesNotFit
from graphwright.pipeline import PLAN_NAMES, RunOptions, choose_plan, open_session
from graphwright.plans import figures_of
from graphwright.run.check.outcome import Outcome
from graphwright.run.check.training import Comparison
from graphwright.run.training.loop import StepRecord


@pytest.fixture(scope="module")
def graph():
    return zoo.load("mlp", small=True).capture()


@pytest.fixture
def asked(monkeypatch, graph):
    """What the verb asks of the pipeline, which says that 2 tensors were compared."""
    seen = {}
    plan = gw.plan(graph, "local:2", objective="memory")

    class Session:
        def run(self, say):
            say("told")
            steps = (StepRecord(step=1, loss=2.0, seconds=0.5, num_workers=2),)
            compared = Comparison(
                steps=steps, expected_losses=(2.0,), dtype="float64", against="PyTorch on one device", tolerance=1e-8,
                differences=seen["differences"],
            )  # fmt: skip
            return Outcome(plan=plan, steps=steps, comparison=compared)

    def stand_in(make, options, *, report):
        seen.update(workload=make("meta"), options=options)
        return Session()

    monkeypatch.setattr(pipeline, "open_session", stand_in)
    seen["differences"] = {"weight": 1e-12, "loss": 0.0}
    return seen


def run(*arguments):
    return CliRunner().invoke(cli.app, ["run", *map(str, arguments)], catch_exceptions=False)


def test_options_reach_the_pipeline(asked, tmp_path):
    run(
        "mlp", "--small", "--batch-size", 6, "--workers", 2, "--plan", "tofu", "--memory", "1MB", "--steps", 7, "--seed", 3,
        "--checkpoint", tmp_path, "--checkpoint-every", 2, "--resume", "--elastic",
    )  # fmt: skip
    assert asked["options"] == RunOptions(
        workers=2, plan="tofu", memory="1MB", steps=7, seed=3, checkpoint=tmp_path, every=2, resume=True, elastic=True,
    )  # fmt: skip
    assert asked["workload"].batch[0].shape[0] == 6


def test_a_saved_plan_is_read_and_picked_from_a_frontier(asked, graph, tmp_path):
    frontier = gw.plan(graph, "local:2", baselines=("data",), points=2)
    frontier.save(tmp_path / "plans.json")
    run("mlp", "--small", "--workers", 2, "--plan", tmp_path / "plans.json", "--pick", "data")
    assert asked["options"].plan == frontier.others["data"]


def test_differences_above_the_tolerance_end_with_status_1(asked):
    good = run("mlp", "--small", "--workers", 2, "--check")
    assert good.exit_code == 0
    assert "the same as PyTorch on one device" in good.stdout
    asked["differences"] = {"weight": 1e-3, "loss": 0.0}
    bad = run("mlp", "--small", "--workers", 2, "--check")
    assert bad.exit_code == 1
    assert "NOT THE SAME" in bad.stdout
    assert "1.00e-03  weight" in bad.stdout


def test_json_is_all_that_is_printed(asked):
    asked["differences"] = {"weight": float("inf")}
    done = run("mlp", "--small", "--workers", 2, "--check", "--json")
    found = json.loads(done.stdout)
    assert done.exit_code == 1
    assert "Infinity" not in done.stdout
    assert found["check"]["agrees"] is False
    assert found["measured_time"] == 0.5
    assert "told" in done.stderr


@pytest.mark.parametrize("name", [n for n in PLAN_NAMES if n != "mcmc"])
def test_every_plan_that_has_a_name_is_made(graph, name):
    plan = choose_plan(graph, 2, name)
    assert plan.cluster.name == "local:2"
    assert plan.graph_hash == graph.hash
    assert figures_of(plan).time > 0


def test_names_mean_what_they_say(graph):
    time = {name: figures_of(choose_plan(graph, 2, name)).time for name in ("fastest", "data")}
    memory = {n: figures_of(choose_plan(graph, 2, n)).memory for n in ("smallest", "fastest")}
    assert time["fastest"] < time["data"]
    assert memory["smallest"] < memory["fastest"]


def test_a_limit_of_memory_is_kept_or_refused(graph):
    smallest = figures_of(choose_plan(graph, 2, "smallest")).memory
    assert figures_of(choose_plan(graph, 2, "fastest", memory=smallest)).memory <= smallest
    for name in ("fastest", "data", "turning-point"):
        with pytest.raises(DoesNotFit, match="no plan needs at most"):
            choose_plan(graph, 2, name, memory=smallest - 1)


def test_what_is_trained_already_is_not_trained_again(graph, tmp_path):
    from functools import partial

    from graphwright.cli.inputs.models import load_model

    make = partial(load_model, "mlp", None, True)
    first = RunOptions(workers=1, steps=2, checkpoint=tmp_path, quiet=True)
    told = []
    done = open_session(make, first).run(told.append)
    assert [s.step for s in done.steps] == [1, 2]
    assert "1 worker, plan fastest" in told[0]
    again = RunOptions(workers=1, steps=2, checkpoint=tmp_path, resume=True, quiet=True)
    outcome = open_session(make, again).run(told.append)
    assert outcome.steps == ()
    assert outcome.lines() == ["nothing was left to train", f"saved {done.checkpoint}"]
