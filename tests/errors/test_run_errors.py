"""What cannot be run is refused before a process starts: nothing is launched and nothing is joined in these tests."""

import os
import socket
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import graphwright as gw
from graphwright import cli, zoo
from graphwright.errors import (
    AddressInUse,
    CheckpointMismatch,
    DoesNotFit,
    GraphFileError,
    InvalidCheckpoint,
    InvalidLaunch,
    InvalidOption,
    InvalidWorkload,
    InvalidWorld,
    PlanMismatch,
    UnknownModel,
)
from graphwright.run.processes.supervisor import WorkerProcess
from graphwright.run.training.elastic import elastic


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch):
    """A process that starts fails the test."""

    def start(self):
        raise AssertionError("a worker was started")

    monkeypatch.setattr(WorkerProcess, "start", start)


def refused(error, message, *arguments):
    done = CliRunner().invoke(cli.app, ["run", *map(str, arguments)])
    assert isinstance(done.exception, error), (done.exception, done.output)
    assert message in str(done.exception), done.exception


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    gw.plan(zoo.load("mlp", small=True).capture(), "local:2", objective="memory").save(path)
    return path


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (UnknownModel, "the zoo has no model 'mpl'", ("mpl", "--workers", 2)),
        (InvalidOption, "say how many processes to start here, as in --workers 4", ("mlp", "--small")),
        (InvalidOption, "no plan 'quickest': no such file, nor one of fastest, smallest", ("mlp", "--workers", 2, "--plan", "quickest")),
        (GraphFileError, "cannot read no.json", ("mlp", "--workers", 2, "--plan", "no.json")),
        (InvalidOption, "--resume needs the folder", ("mlp", "--workers", 2, "--resume")),
        (InvalidOption, "--elastic needs the folder", ("mlp", "--workers", 2, "--elastic")),
        (InvalidOption, "--checkpoint-every needs the folder", ("mlp", "--workers", 2, "--checkpoint-every", 5)),
        (InvalidOption, "--check trains a few steps", ("mlp", "--workers", 2, "--check", "--checkpoint", "folder")),
        (DoesNotFit, "no plan needs at most 100 B", ("mlp", "--small", "--workers", 2, "--memory", 100)),
    ],
)  # fmt: skip
def test_refused(error, message, arguments):
    refused(error, message, *arguments)


def test_a_plan_for_another_number_of_workers(plan):
    refused(PlanMismatch, "the plan is for 2 devices (local:2), but 3 workers run", "mlp", "--small", "--workers", 3, "--plan", plan)  # fmt: skip


def test_a_plan_for_another_graph(plan):
    for model in (("lenet", "--small"), ("mlp", "--small", "--batch-size", 12)):
        refused(PlanMismatch, "the plan was made for graph", *model, "--workers", 2, "--plan", plan)


def test_a_folder_without_a_checkpoint(tmp_path):
    resume = ("mlp", "--small", "--workers", 2, "--resume", "--checkpoint")
    refused(InvalidCheckpoint, "does not exist", *resume, tmp_path / "nowhere")
    refused(InvalidCheckpoint, "holds none", *resume, tmp_path)


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    start = ("mlp", "--small", "--workers", 2, "--checkpoint")
    refused(InvalidOption, "is no folder", *start, tmp_path / "file")
    refused(InvalidOption, "file is no folder", *start, tmp_path / "file" / "inside")


def test_a_checkpoint_of_another_model_and_one_that_would_be_mixed_up(tmp_path):
    from graphwright.run.checkpoint.save_load import save

    save(tmp_path, 3, {}, extra={"num_steps": 3})
    resume = ("mlp", "--small", "--workers", 2, "--checkpoint", tmp_path)
    refused(CheckpointMismatch, "it lacks layers.0.weight", *resume, "--resume")
    refused(InvalidOption, "holds checkpoints already, the newest is 000001-step-3", *resume)


def test_a_model_without_an_optimizer(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def make():\n"
        "    return torch.nn.Linear(4, 2), torch.nn.functional.mse_loss, (torch.ones(3, 4), torch.ones(3, 2))\n"
    )
    refused(InvalidWorkload, "return the optimizer too", f"{tmp_path}/mine.py:make", "--workers", 2)


def test_variables_of_torchrun_that_are_missing_or_contradict(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    refused(InvalidWorld, "not set, beside RANK=0", "mlp", "--small")
    for name, value in (("WORLD_SIZE", "2"), ("LOCAL_RANK", "0"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "1")):  # fmt: skip
        monkeypatch.setenv(name, value)
    refused(InvalidOption, "--workers 3, but torchrun has started 2", "mlp", "--workers", 3)


def test_a_plan_for_another_number_of_torchruns_processes(monkeypatch, plan):
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "3"), ("LOCAL_RANK", "0"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "1")):  # fmt: skip
        monkeypatch.setenv(name, value)
    refused(PlanMismatch, "but 3 workers run", "mlp", "--small", "--plan", plan)


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        variables = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
        done = subprocess.run(
            [sys.executable, "-m", "graphwright", "run", "mlp", "--small"],
            env={**os.environ, **variables, "MASTER_PORT": str(taken.getsockname()[1])},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert AddressInUse.__name__ in done.stderr
    assert "choose another MASTER_PORT" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": 0}, "num_workers=0"),
        ({"min_workers": 3}, "min_workers=3; give a number from 1 to num_workers=2"),
        ({"min_workers": 0}, "min_workers=0"),
        ({"max_restarts": -1}, "max_restarts=-1"),
        ({"threads": 0}, "threads=0"),
    ],
)
def test_elastic_runs_that_cannot_be(tmp_path, options, message):
    with pytest.raises(InvalidLaunch, match=message):
        elastic(**{"num_workers": 2, "directory": tmp_path, **options})
