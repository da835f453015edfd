"""Mistakes with the verbs of planning: one clear line, before anything long is done, and nothing left behind."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import graphwright as gw
from graphwright import cli, ir, zoo
from graphwright.errors import (
    DoesNotFit,
    GraphFileError,
    InvalidCluster,
    InvalidLimit,
    InvalidOption,
    PlanFormatError,
    PlanMismatch,
    UnknownCluster,
    UnknownModel,
)
from graphwright.partition import data_parallel

RUN = CliRunner()
PLAN = ("plan", "mlp", "--small", "--cluster", "local:2")
PROFILE = ("profile", "mlp", "--small", "--cluster", "v100-2x8")


def failure(*arguments: str):
    result = RUN.invoke(cli.app, list(arguments))
    assert result.exit_code != 0
    return result.exception, " ".join(f"{result.exception} {result.output}".split())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("plan", "mlp"), SystemExit, "Missing option '--cluster'"),
        (("plan", "mlp", "--cluster", "nowhere"), UnknownCluster, "there is no cluster 'nowhere'; use a preset"),
        (("plan", "mlp", "--cluster", "local:0"), InvalidCluster, "the count after the colon must be at least 1"),
        (("plan", "mlp", "--cluster", "local:-1"), InvalidCluster, "a number of them comes after the colon, as local:4"),
        (("plan", "mlp", "--cluster", "dgx-h100:99999999999"), InvalidCluster, "as dgx-h100:4"),
        (("plan", "mlpp", "--cluster", "local:2"), UnknownModel, "did you mean 'mlp'"),
        ((*PLAN, "--objective", "best"), SystemExit, "'best' is not one of"),
        ((*PLAN, "--algorithm", "magic"), InvalidOption, "no algorithm 'magic'; one of frontier, mcmc, optcnn"),
        ((*PLAN, "--baselines", "data,magic"), InvalidOption, "no baseline 'magic'; some of data, layers"),
        ((*PLAN, "--baselines", "all,data"), InvalidOption, "no baseline 'all'"),
        ((*PLAN, "--baselines", ","), InvalidOption, "write `none` to compare with nothing"),
        ((*PLAN, "--memory", "lots"), InvalidLimit, "'lots' is not a size"),
        ((*PLAN, "--memory", "-3GB"), InvalidLimit, "memory"),
        ((*PLAN, "--margin", "0.5"), InvalidOption, "margin has to be 1 or more"),
        ((*PLAN, "--points", "0"), InvalidOption, "points has to be 1 or more"),
        ((*PLAN, "--budget", "-1"), InvalidOption, "budget is a number of seconds"),
        ((*PLAN, "--seed", "-1"), SystemExit, "greater than or equal to 0"),
        ((*PLAN, "-o", "plan.toml"), GraphFileError, "has to end in .json, .json.gz"),
        ((*PLAN, "-o", "no/folder/plan.json"), GraphFileError, "there is no folder no/folder"),
        ((*PLAN, "--plot", "plan.pdf"), GraphFileError, "has to end in .png, .svg"),
        ((*PROFILE, "--devices", "some"), InvalidOption, "'some' is no number of devices; write 1,2,4,8 or 1-16"),
        ((*PROFILE, "--devices", "0-4"), InvalidOption, "'0-4' has to go upwards from 1"),
        ((*PROFILE, "--devices", "11"), InvalidOption, "v100-2x8 cannot have any of [11] devices"),
        ((*PROFILE, "-o", "profile.csv"), GraphFileError, "has to end in .json"),
        (("explain", "nothing.json", "mlp"), GraphFileError, "cannot read nothing.json"),
        (("explain", "nothing.json"), SystemExit, "Missing argument 'model'"),
        (("explain", "nothing.json", "mlp", "--picture", "p.gif"), GraphFileError, "has to end in .png, .svg"),
        (("diff", "nothing.json", "nothing.json"), GraphFileError, "cannot read nothing.json"),
        (("diff", "a.json", "b.json", "--small"), SystemExit, "--batch-size and --small go with a model"),
        (("simulate", "mlp", "--cluster", "local:2", "--pick", "fastest"), SystemExit, "give it with --plan"),
    ],
)  # fmt: skip
def test_messages(arguments, error, message):
    found, text = failure(*arguments)
    assert isinstance(found, error)
    assert message.lower() in text.replace("│ ", "").lower()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A graph, a plan and a frontier of it, and files that are none of these."""
    folder = tmp_path_factory.mktemp("plans")
    graph = zoo.load("mlp", small=True).capture()
    ir.save(graph, folder / "graph.json")
    data_parallel(graph, "local:2").save(folder / "plan.json")
    gw.plan(graph, "local:2", points=2, baselines=("data",)).save(folder / "frontier.json")
    other = zoo.load("lenet", small=True).capture()
    data_parallel(other, "local:2").save(folder / "other.json")
    (folder / "neither.json").write_text(json.dumps({"format": "graphwright.recipe"}))
    (folder / "text.json").write_text("a plan")
    return folder


def uses(folder, name):
    """Every verb that takes a plan, given a file in its place."""
    path, graph = f"{folder}/{name}", f"{folder}/graph.json"
    yield "explain", path, graph
    yield "diff", path, f"{folder}/plan.json"
    yield "diff", f"{folder}/plan.json", path, graph
    yield "simulate", graph, "--plan", path


def test_a_frontier_where_a_plan_is_wanted_says_how_to_choose(files):
    for arguments in uses(files, "frontier.json"):
        found, text = failure(*arguments)
        assert isinstance(found, InvalidOption)
        assert (
            "choose one with --pick: fastest, fastest:14.5GB, smallest, turning-point, 1 to" in text
        )


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("neither.json", PlanFormatError, "is neither a plan nor a frontier; `graphwright plan"),
        ("graph.json", PlanFormatError, "is neither a plan nor a frontier"),
        ("text.json", PlanFormatError, "text.json is not JSON"),
        ("nothing.json", GraphFileError, "check the path"),
        ("other.json", PlanMismatch, "graph"),
    ],
)
def test_files_that_are_no_plan_of_the_model(files, name, error, message):
    for arguments in uses(files, name):
        found, text = failure(*arguments)
        assert isinstance(found, error), text
        assert message in text


def test_a_plan_of_another_size_says_what_to_name(files):
    found, text = failure("explain", f"{files}/plan.json", "mlp", "--batch-size", "3")
    assert isinstance(found, PlanMismatch)
    assert "with the same --batch-size and --small, or plan again" in text


def test_too_many_choices(files):
    arguments = ["--pick", "1", "--pick", "1"]
    assert (
        "given 2 times, but 1 of the two files"
        in failure("diff", f"{files}/plan.json", f"{files}/frontier.json", *arguments)[1]
    )


@pytest.mark.parametrize("more", [(), ("--objective", "time"), ("--objective", "devices")])
def test_a_limit_that_nothing_fits(files, tmp_path, more):
    path = tmp_path / "plan.json"
    graph = f"{files}/graph.json"
    arguments = ("--memory", "1kB", "--points", "2", "--baselines", "data", "-o", str(path), *more)
    found, text = failure("plan", graph, "--cluster", "local:2", *arguments)
    assert isinstance(found, DoesNotFit)
    assert "no plan needs at most 1 kB on every device of local:2; the smallest needs" in text
    assert "the largest tensors are layers.1.weight" in text
    assert found.needed > found.limit == 1000
    assert not path.exists()


def test_a_frontier_of_which_nothing_fits_that_limit(files):
    found, text = failure(
        "explain", f"{files}/frontier.json", f"{files}/graph.json", "--pick", "fastest:1kB"
    )
    assert isinstance(found, DoesNotFit)
    assert "the smallest needs" in text


def test_one_device_is_no_mistake(files):
    done = RUN.invoke(cli.app, ["plan", f"{files}/graph.json", "--cluster", "local:1"])
    assert done.exit_code == 0
    assert "on 1 device of local:1" in " ".join(done.output.split())


def test_no_time_at_all_gives_the_best_so_far_and_says_so(files):
    done = RUN.invoke(
        cli.app, ["plan", f"{files}/graph.json", "--cluster", "local:2", "--budget", "0"]
    )
    assert done.exit_code == 0
    assert "time budget" in done.output


def test_the_exit_status_is_that_of_other_errors(files):
    arguments = [
        "plan",
        f"{files}/graph.json",
        "--cluster",
        "local:2",
        "--memory",
        "1kB",
        "--points",
        "1",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "graphwright", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("DoesNotFit: no plan needs at most 1 kB")
    assert done.stderr.count("\n") == 1
