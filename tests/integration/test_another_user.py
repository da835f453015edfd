"""Another user of the machine: can neither join a run, nor read it, nor have anything executed.

A process with another user's id needs root to start it, so most of this is skipped without.
"""

import json
import os
import socket
import stat
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import distributed_c10d

import graphwright as gw
from graphwright.errors import InvalidCheckpoint, InvalidWorld, WorkerFailed
from graphwright.plans import make_plan
from graphwright.run import leave, world
from graphwright.run.processes import gather_results, refuse_strangers
from limits import HANG

NOBODY = 65534
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


def as_nobody(attempt, *arguments):
    """What a function returns, or the name of what it raises, in a process of another user."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        try:
            outcome = attempt(*arguments)
        except BaseException as error:
            outcome = type(error).__name__
        os.write(writing, json.dumps(outcome).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as answer:
        return json.load(answer)


def connect(port):
    with socket.socket() as other:
        other.connect(("127.0.0.1", port))
    return "connected"


def attacked():
    """Inside a run: what another user can do with all that the ranks know."""
    here = world()
    outcome = None
    if here.rank == 0:
        store = Path(os.environ["GRAPHWRIGHT_STORE"])
        outcome = {
            "is there": store.is_file(),
            "mode": stat.S_IMODE(store.parent.stat().st_mode),
            "list": as_nobody(os.listdir, store.parent),
            "read": as_nobody(store.read_bytes),
            "write": as_nobody(store.write_bytes, b"rank 1"),
            "put": as_nobody((store.parent / "new").touch),
            "port": as_nobody(connect, int(os.environ["MASTER_PORT"])),
        }
    gather_results(lambda: None)
    return outcome


@needs_root
def test_another_user_finds_no_way_into_a_run():
    outcome = gw.launch(2, timeout=HANG)(attacked)[0]
    denied = dict.fromkeys(("list", "read", "write", "put"), "PermissionError")
    refused = {"port": "ConnectionRefusedError"}
    assert outcome == {"is there": True, "mode": 0o700, **denied, **refused}


def own_group():
    """`init_process_group` without arguments meets the other ranks through the same file."""
    dist.init_process_group("gloo")
    total = torch.tensor([dist.get_rank() + 1])
    dist.all_reduce(total)
    leave()
    return int(total)


def test_a_group_of_the_users_own_meets_in_the_private_folder():
    assert gw.launch(2, timeout=HANG)(own_group) == [3, 3]


def test_a_store_that_others_could_write_is_refused(tmp_path):
    code = "from graphwright.run import world; world()"
    variables = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables, "MASTER_PORT": "1", "GRAPHWRIGHT_STORE": f"{folder}/store"},
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert "InvalidWorld" in done.stderr and "other users can enter" in done.stderr


def accept_from_nobody():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.setresuid(NOBODY, NOBODY, NOBODY)
            with socket.socket() as client:
                client.connect(("127.0.0.1", port))
                os.read(reading, 1)
            os._exit(0)
        try:
            with server.accept()[0], pytest.raises(InvalidWorld, match=f"process of user {NOBODY}"):
                refuse_strangers()
        finally:
            os.write(writing, b"x")
            os.waitpid(child, 0)
            os.close(reading)
            os.close(writing)


@needs_root
@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="the system does not say who")
def test_a_connection_of_another_user_is_refused():
    accept_from_nobody()
    refuse_strangers()  # once it is gone


ATTACK = """
import encodings.idna, os, sys
import torch, torch.distributed as dist
from datetime import timedelta
import graphwright.run
world_module = sys.modules["graphwright.run.processes.world"]
world_module.refuse_strangers = lambda: None        # the attacker does not mind
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
world_module.world(timeout=60)
class Command:
    def __reduce__(self):
        return os.system, (f"touch {sys.argv[1]}",)
try:
    dist.all_gather_object([None, None], Command())
except Exception:
    pass
"""
VICTIM = """
from graphwright.run import gather_results, world
world(timeout=60)
print(gather_results(lambda: "fine"))
"""


@needs_root
@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="the system does not say who")
def test_another_user_who_joins_a_run_of_torchrun_is_refused(tmp_path):
    """Its store has no secret, so anybody on the machine can become a rank."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    mark = tmp_path / "executed"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(mark)],
            env={**os.environ, **shared, "RANK": rank, "LOCAL_RANK": rank},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, code in (("0", VICTIM), ("1", ATTACK))
    ]
    (_, said), (_, attack_said) = (process.communicate(timeout=HANG) for process in processes)
    assert f"InvalidWorld: a process of user {NOBODY}" in said, (said, attack_said)
    assert not mark.exists()


def without_pickle(folder):
    """A step, its values and its checkpoints on ranks that cannot unpickle anything."""

    def refuse(*arguments):
        raise AssertionError("a rank unpickles what another one has sent")

    distributed_c10d._unpickler = refuse
    torch.manual_seed(0)
    model, optimizer = nn.Linear(4, 6), torch.optim.Adam
    batch = torch.ones(8, 4), torch.zeros(8, 6)
    graph = gw.capture(model, nn.functional.mse_loss, batch, optimizer=optimizer)
    updates = {n.name: "i0" for n in graph.nodes if n.name == "weight.new"}
    plan = make_plan(graph, gw.machine.cluster("local:2"), updates)
    step = gw.compile(plan, model, nn.functional.mse_loss, optimizer, batch=batch)
    step(batch)
    step.save(folder)
    before = step.values()
    step.state_dict()
    step(batch)
    step.load(folder)
    with pytest.raises(InvalidCheckpoint):  # an error of all ranks travels, too
        step.load(Path(folder) / "nothing")
    return all(torch.equal(value, before[name]) for name, value in step.values().items())


def test_ranks_never_unpickle_what_others_send(tmp_path):
    try:
        assert gw.launch(2, timeout=HANG)(without_pickle, str(tmp_path)) == [True, True]
    except WorkerFailed as error:
        pytest.fail("".join(traceback.format_exception(error)))
