"""`graphwright run` with real processes: the training of one device, whatever happens to the workers."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

import graphwright as gw
from graphwright import zoo
from graphwright.cli.inputs.models import load_model
from graphwright.errors import WorkerFailed
from graphwright.pipeline import RunOptions, open_session
from graphwright.run import latest
from limits import HANG

COMMAND = (sys.executable, "-m", "graphwright", "run")


def run(*arguments, command=COMMAND, status=0):
    done = subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done


def train(model, **options):
    """The same without the command line."""
    make = partial(load_model, model, None, True)
    return open_session(make, RunOptions(quiet=True, **options)).run(lambda line: None)


def losses(steps):
    return {s["step"]: s["loss"] for s in steps}


def test_training_on_two_workers_is_that_of_one_device():
    found = json.loads(
        run("lenet", "--small", "--workers", 2, "--plan", "tofu", "--check", "--json").stdout
    )
    assert found["check"]["agrees"]
    assert found["check"]["against"] == "PyTorch on one device"
    assert found["check"]["dtype"] == "float64"
    assert set(found["check"]["differences"]) >= {"loss", "conv1.weight", "fc3.bias.momentum_buffer"}  # fmt: skip
    assert 0 < max(found["check"]["differences"].values()) < 1e-10


def test_dropout_draws_alike_on_any_number_of_workers(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def make():\n"
        "    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 2))\n"
        "    return model, torch.nn.functional.mse_loss, (torch.randn(6, 8), torch.randn(6, 2)), torch.optim.Adam\n"
    )
    graph = load_model(f"{tmp_path}/mine.py:make", None, False).capture()
    two = gw.cluster("dgx-h100").resized({"gpu": 2})  # a plan for any two devices runs
    plan = gw.plan(graph, two, objective="memory")
    outcome = train_file(tmp_path / "mine.py", workers=2, plan=plan, check=True, steps=2)
    assert outcome.comparison.agrees, outcome.comparison
    assert outcome.comparison.against == "a plan for one device"


def test_a_model_that_casts_is_compared_in_its_own_dtype(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "class Casting(torch.nn.Linear):\n"
        "    def forward(self, x):\n"
        "        return super().forward(x.float())\n"
        "def make():\n"
        "    return Casting(8, 2), torch.nn.functional.mse_loss, (torch.randn(6, 8), torch.randn(6, 2)), torch.optim.SGD\n"
    )
    found = train_file(tmp_path / "mine.py", workers=2, plan="data", check=True).comparison
    assert (found.dtype, found.tolerance) == ("its own dtype", 1e-3)
    assert found.agrees, found


def train_file(path, **options):
    make = partial(load_model, f"{path}:make", None, False)
    return open_session(make, RunOptions(quiet=True, **options)).run(lambda line: None)


def test_a_training_that_differs_ends_with_status_1(tmp_path):
    """The model is another one each time that it is made, so what it is compared with differs."""
    (tmp_path / "mine.py").write_text(
        "import os, torch\n"
        "def make():\n"
        "    os.environ['CALLS'] = str(int(os.environ.get('CALLS', 0)) + 1)\n"
        "    model = torch.nn.Linear(4, 2)\n"
        "    torch.nn.init.constant_(model.weight, float(os.environ['CALLS']))\n"
        "    return model, torch.nn.functional.mse_loss, (torch.randn(4, 4), torch.randn(4, 2)), torch.optim.SGD\n"
    )
    done = run(f"{tmp_path}/mine.py:make", "--workers", 2, "--check", status=1)
    assert "NOT THE SAME as PyTorch on one device" in done.stdout


def test_a_loss_that_is_no_number_on_one_device_either_is_told(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def make():\n"
        "    batch = (torch.full((4, 4), float('nan')), torch.randn(4, 2))\n"
        "    return torch.nn.Linear(4, 2), torch.nn.functional.mse_loss, batch, torch.optim.SGD\n"
    )
    done = run(f"{tmp_path}/mine.py:make", "--workers", 2, "--check", status=1)
    assert "not a finite number on one device either" in done.stdout


def test_ranks_that_make_different_models_are_refused(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import os, torch\n"
        "def make():\n"
        "    model = torch.nn.Linear(4, 2)\n"
        "    torch.nn.init.constant_(model.weight, int(os.environ.get('RANK', 0)))\n"
        "    return model, torch.nn.functional.mse_loss, (torch.randn(4, 4), torch.randn(4, 2)), torch.optim.SGD\n"
    )
    with pytest.raises(WorkerFailed, match="rank 1 has a model with other values than rank 0"):
        train_file(tmp_path / "mine.py", workers=2, plan="data")


def test_four_workers_then_three_then_two_train_as_one_does(tmp_path):
    expected, made = eager_losses("mlp", 6), {}
    for workers, steps, plan in ((4, 2, "fastest"), (3, 4, "zero"), (2, 6, "tofu")):
        outcome = train(
            "mlp", workers=workers, steps=steps, plan=plan, seed=1, checkpoint=tmp_path, resume=workers < 4
        )  # fmt: skip
        assert {s.num_workers for s in outcome.steps} == {workers}
        made |= {s.step: s.loss for s in outcome.steps}
    assert list(made) == [1, 2, 3, 4, 5, 6]
    assert list(made.values()) == pytest.approx(expected, rel=1e-5)
    assert expected[-1] < expected[0]


def eager_losses(model, steps):
    """Training on one device, as PyTorch does it."""
    work = zoo.load(model, small=True, device="cpu")
    optimizer, found = work.optimizer(work.model.parameters(), **work.optimizer_options), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = work.loss_fn(work.model(work.batch[0]), work.batch[1])
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def test_processes_of_torchrun_join_and_resume(tmp_path):
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "graphwright", "run")  # fmt: skip
    shared = ("mlp", "--small", "--plan", "data", "--checkpoint", tmp_path)
    first = run(
        *shared, "--steps", 2, "--elastic", command=torchrun
    )  # --elastic: there is none yet
    assert first.stdout.count("step     2   loss") == 1  # one rank talks
    assert "2 workers, plan data, predicted" in first.stdout
    found = json.loads(run(*shared, "--steps", 3, "--resume", "--workers", 1, "--json").stdout)
    assert [s["step"] for s in found["steps"]] == [3]


def test_a_worker_that_is_killed_is_done_without(tmp_path):
    command = [
        *COMMAND, "lenet", "--workers", "3", "--plan", "data", "--steps", "60", "--checkpoint", f"{tmp_path}/run", "--checkpoint-every", "20",
        "--elastic", "--json",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(process, tmp_path / "run" / "000001-step-20")
    os.kill(workers_of(process.pid)[1], signal.SIGKILL)
    out, err = process.communicate()
    assert process.returncode == 0, err
    found = json.loads(out)
    assert [(r["lost_rank"], r["exit_code"], r["num_workers"]) for r in found["restarts"]] == [(1, -9, 2)]  # fmt: skip
    assert "rank 1 is lost (exit code -9); going on with 2 workers from" in err
    begun = Path(found["restarts"][0]["checkpoint"])
    step = int(begun.name.rpartition("-")[2])
    assert [s["step"] for s in found["steps"]] == list(range(1, 61))
    assert {s["num_workers"] for s in found["steps"] if s["step"] > step} == {2}

    os.renames(begun, tmp_path / "again" / begun.name)  # the same checkpoint, with nobody killed
    make = partial(load_model, "lenet", None, False)
    options = RunOptions(workers=2, plan="data", steps=60, checkpoint=tmp_path / "again", resume=True, quiet=True)  # fmt: skip
    again = open_session(make, options).run(lambda line: None)
    expected = losses(found["steps"])
    assert {s.step: s.loss for s in again.steps} == {n: expected[n] for n in range(step + 1, 61)}


def wait_for(process, path):
    deadline = time.monotonic() + HANG
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def workers_of(pid):
    """The processes of the ranks, in the order in which they were started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            command = (path / "cmdline").read_text()
        except OSError:
            continue
        if parent == pid and "spawn_main" in command:
            found.append(int(path.name))
    return sorted(found)


def test_resume_takes_the_newest_whole_checkpoint_and_says_so(tmp_path):
    """Workers see damage in the bytes of tensors; damage in the index is seen before they start."""
    shared = ("mlp", "--small", "--workers", 2, "--plan", "data", "--checkpoint", tmp_path)
    run(*shared, "--steps", 3, "--checkpoint-every", 1)
    _, second, third = sorted(tmp_path.iterdir())
    (third / "graphwright.json").write_text("{")
    done = run(*shared, "--steps", 3, "--resume")
    assert f"cannot read {third}" in done.stdout and f"from {second}" in done.stdout
    file = latest(tmp_path) / "__0_0.distcp"
    file.write_bytes(bytes(byte ^ (n % 50 == 0) for n, byte in enumerate(file.read_bytes())))
    done = run(*shared, "--steps", 4, "--resume")
    assert f"{file} is damaged" in done.stderr and f"going on from {second}" in done.stderr
    made = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("step ")]
    assert made == ["3", "4"]
