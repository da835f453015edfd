"""A host that disappears in the middle of a step: the other one says so in bounded time, and goes on alone from the checkpoint."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import graphwright as gw
from _hosts import ADDRESSES, Hosts, Wire, two_hosts, why_not
from graphwright.machine import cluster, hosts
from limits import HANG

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no two hosts here: {REASON}")

ENVIRON = {"GRAPHWRIGHT_LOST_SECONDS": "2", "OMP_NUM_THREADS": "1"}
PLAN = "plan.json"
NOTICED = 40.0
"""Bounds how long the other host may take to end, on a busy machine; the limit of a collective is half an hour."""

TRAIN = """
import sys, torch
from pathlib import Path

import graphwright as gw
from graphwright.run import world

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 10)).double()
batch = torch.randn(32, 64).double(), torch.randint(10, (32,))
folder, steps, *plan = sys.argv[1:]
loss_fn = torch.nn.functional.cross_entropy
graph = gw.capture(model, loss_fn, batch, optimizer=torch.optim.Adam)
world(timeout=1800)
plan = Path(folder).with_name(plan[0]) if plan else gw.plan(graph, "local:1", objective="time")
step = gw.compile(plan, model, loss_fn, torch.optim.Adam, batch=batch)
if any(Path(folder).glob("*-step-*")):
    step.load(folder)
while step.num_steps < int(steps):
    loss = float(step(batch))
    if step.num_steps == 3:
        step.save(folder)
    print(f"step {step.num_steps} loss {loss!r}", flush=True)
"""


def losses(text: str) -> dict[int, float]:
    lines = [line.split() for line in text.splitlines() if line.startswith("step ")]
    return {int(words[1]): float(words[3]) for words in lines}


@pytest.fixture
def script(tmp_path: Path) -> list[str]:
    path = tmp_path / "train.py"
    path.write_text(TRAIN)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 10)).double()  # fmt: skip
    batch = torch.randn(32, 64).double(), torch.randint(10, (32,))
    loss_fn = torch.nn.functional.cross_entropy
    graph = gw.capture(model, loss_fn, batch, optimizer=torch.optim.Adam)
    on = hosts(2, cluster("local:1"), bandwidth=125e6, latency=1e-4)
    gw.plan(graph, on, objective="memory").save(tmp_path / "plan.json")
    return [str(path), str(tmp_path / "checkpoints")]


def wait_for_step(made: Hosts, number: int, running: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + HANG
    while number not in losses(made.tail(0)):
        assert time.monotonic() < deadline and all(p.poll() is None for p in running), made.tail(0)
        time.sleep(0.02)


def end_of(made: Hosts, process: subprocess.Popen[bytes]) -> str:
    """Wait until the host that is left has ended; what it said."""
    lost = time.monotonic()
    process.wait(HANG)
    said = made.tail(0, 1000)
    assert time.monotonic() - lost < NOTICED, said
    assert process.returncode != 0
    assert "RankLost: rank 0 has lost the connection to the ranks at 10.214.77.2" in said
    assert "on from the newest checkpoint" in said
    return said


def test_a_host_that_falls_silent(script, tmp_path):
    """Nobody tells the other host, which goes on alone from the checkpoint."""
    with two_hosts(Wire(rate=1e9), tmp_path) as made:
        running = made.start_torchrun([*script, "1000000", PLAN], environ=ENVIRON)
        wait_for_step(made, 5, running)
        made.cut()
        said = end_of(made, running[0])
        made.kill_host(1)
        alone = made.start(0, [sys.executable, *script, "8"], ENVIRON)
        assert alone.wait(HANG) == 0, made.tail(0)
        after = losses(made.tail(0, 1000)[len(said) :])
    assert sorted(after) == [4, 5, 6, 7, 8]
    for step in (4, 5):  # the same training: both hosts have made these steps before
        assert after[step] == pytest.approx(losses(said)[step], rel=1e-12)


def test_a_host_whose_processes_are_killed(script, tmp_path):
    """Its system closes the connections."""
    torchrun = {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29500"}  # fmt: skip
    with two_hosts(Wire(rate=1e9), tmp_path) as made:
        running = [
            made.start(host, [sys.executable, *script, "1000000", PLAN], ENVIRON | torchrun | {"RANK": str(host)})
            for host in range(2)
        ]  # fmt: skip
        wait_for_step(made, 4, running)
        made.kill_host(1)
        end_of(made, running[0])


def test_nothing_is_left_behind(tmp_path):
    started = []

    def stop() -> None:
        with two_hosts(Wire(rate=1e8), tmp_path) as made:
            started.append(made.start(0, ["sleep", "1000"]))
            assert started[0].poll() is None
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert started[0].returncode is not None
    listed = subprocess.run(("ip", "netns", "list"), capture_output=True, text=True, check=True)
    assert f"-{os.getpid()}-" not in listed.stdout
