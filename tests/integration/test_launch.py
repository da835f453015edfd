"""Real processes: what they return, how they fail, and that none of them stays."""

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from graphwright.errors import WorkerFailed, WorkerTimedOut
from graphwright.plans import Plan
from graphwright.run.processes import supervisor
from graphwright.run.processes.launch import launch
from graphwright.run.processes.world import JOIN_SECONDS, leave, world
from limits import HANG, all_blocked, mark, run_out


@pytest.fixture(autouse=True)
def no_orphans():
    """Whatever a test does, none of its processes is there afterwards."""
    yield
    left = wait_until_gone(children(os.getpid()))
    assert not left, left


def children(pid):
    """The processes under one, apart from Python's own tracker of shared memory."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            command = (path / "cmdline").read_text()
        except OSError:
            continue
        if parent == pid and "resource_tracker" not in command:
            found += [int(path.name), *children(int(path.name))]
    return found


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pids, seconds=HANG):
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in pids if is_running(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def add_ranks(number):
    here = world()
    assert world() is here
    total = torch.tensor([float(here.rank + number)])
    dist.all_reduce(total)
    return here.rank, here.size, here.backend, total


def describe_worker():
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
    return {name: os.environ[name] for name in names}, torch.get_num_threads(), os.getpid()


def join_twice():
    sums = []
    for _ in range(2):
        here = world(device="cpu")
        total = torch.tensor(here.rank + 1)
        dist.all_reduce(total)
        sums.append(total.item())
        leave()
    dist.init_process_group("gloo")  # as a script under torchrun does
    total = torch.tensor(world().rank + 1)
    dist.all_reduce(total)
    return [*sums, total.item()]


def raise_on(rank, then, folder):
    here = world()
    mark(folder)
    if here.rank == rank:
        while len(list(Path(folder).glob("at-*"))) < here.size:  # all have joined
            time.sleep(0.01)
        raise ValueError(f"no such thing on rank {rank}")
    match then:
        case "wait":
            dist.barrier()
        case "sleep":
            time.sleep(2 * HANG)
        case "return":
            pass


def leave_on(rank):
    """The failing rank leaves before it says why, so that the others fail first."""
    here = world()
    try:
        if here.rank == rank:
            raise ValueError("the cause")
        dist.barrier()
    finally:
        if here.rank == rank:
            leave()
            time.sleep(1.0)


def kill_on(rank, number):
    here = world()
    if here.rank == rank:
        os.kill(os.getpid(), number)
    dist.barrier()


def hang_on(rank, folder):
    here = world()
    mark(folder)
    if here.rank == rank:
        time.sleep(2 * HANG)
    dist.barrier()


def hang_and_ignore_everything(folder):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    mark(folder)
    time.sleep(2 * HANG)


def exit_with(code):
    os._exit(code)


def start_a_sleeper(path, then):
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    Path(path, os.environ["RANK"]).write_text(str(sleeper.pid))
    if then == "raise":
        raise ValueError("with a sleeper")


def return_tensors(given):
    large = torch.arange(3_000_000) + int(os.environ["RANK"])
    return {"large": large, "given": given * 2, "model": nn.Linear(2, 3)}


def load_data():
    rows = torch.arange(6.0)
    loader = torch.utils.data.DataLoader(rows, batch_size=3, num_workers=1)
    return [batch.sum().item() for batch in loader]


class Adder:
    def __init__(self, number):
        self.number = number

    def __call__(self, other):
        return self.number + other + int(os.environ["RANK"])


def test_results_by_rank_with_all_reduce_inside():
    results = launch(2, timeout=HANG)(add_ranks, 10)
    assert [result[:3] for result in results] == [(0, 2, "gloo"), (1, 2, "gloo")]
    assert all(torch.equal(result[3], torch.tensor([21.0])) for result in results)


def test_twice_in_a_row_in_new_processes_with_torchruns_variables():
    before = dict(os.environ)
    first, second = (launch(2, threads=2, timeout=HANG)(describe_worker) for _ in range(2))
    assert dict(os.environ) == before
    for rank, (variables, threads, _) in enumerate(first):
        assert variables == {
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
        }
        assert threads == 2
    assert len({result[2] for result in first + second} | {os.getpid()}) == 5


def test_variables_that_were_there_are_put_back_after_a_failure(monkeypatch):
    monkeypatch.setenv("MASTER_PORT", "1234")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = dict(os.environ)
    with pytest.raises(WorkerFailed):
        launch(1, timeout=HANG)(exit_with, 3)
    assert dict(os.environ) == before


def test_join_leave_join_and_the_programs_own_group():
    assert launch(2, timeout=HANG)(join_twice) == [[3, 3, 3], [3, 3, 3]]


def test_large_tensors_and_modules_go_both_ways():
    results = launch(2, timeout=HANG)(return_tensors, torch.arange(2_000_000))
    for rank, result in enumerate(results):
        assert torch.equal(result["large"], torch.arange(3_000_000) + rank)
        assert torch.equal(result["given"], torch.arange(2_000_000) * 2)
        assert result["model"](torch.ones(1, 2)).shape == (1, 3)


def test_a_partial_function_of_a_callable_object():
    assert launch(2, timeout=HANG)(functools.partial(Adder(3), 4)) == [7, 8]


def test_workers_may_have_workers_of_their_own():
    assert launch(1, timeout=HANG)(load_data) == [[3.0, 12.0]]


@pytest.mark.parametrize(
    ("then", "last_while", "last"),
    [
        ("wait", HANG, "then rank 0 raised RuntimeError: "),
        ("sleep", 2.0, "rank 0 still ran, and was ended"),
        ("return", HANG, None),
    ],
)
def test_a_worker_that_raises(then, last_while, last, tmp_path):
    with pytest.raises(WorkerFailed) as caught:
        launch(2, timeout=HANG, join_timeout=last_while)(raise_on, 1, then, str(tmp_path))
    first, second, *rest = str(caught.value).split("\n\n")
    assert first == "rank 1 of 2 raised ValueError: no such thing on rank 1"
    assert second.startswith("Traceback (most recent call last):\n")
    assert "in raise_on" in second
    assert "worker.py" not in second
    assert second == caught.value.traceback
    assert (caught.value.rank, caught.value.exit_code) == (1, None)
    assert [part[: len(last)] for part in rest] == [last] if last else not rest


def refused():
    return Plan.load("missing.json")


@pytest.mark.parametrize(("function", "shown"), [(refused, "in refused"), (Plan.load, "")])
def test_our_own_errors_show_the_users_lines_only(function, shown):
    with pytest.raises(WorkerFailed) as caught:
        launch(1)(function, *(() if shown else ("missing.json",)))
    assert "missing.json" in str(caught.value)
    assert shown in caught.value.traceback and "in load" not in caught.value.traceback
    assert bool(caught.value.traceback) == bool(shown)


def test_the_cause_comes_before_what_follows_from_it():
    with pytest.raises(WorkerFailed, match="rank 1 of 2 raised ValueError: the cause") as caught:
        launch(2, timeout=HANG, join_timeout=HANG)(leave_on, 1)
    assert "then rank 0 raised RuntimeError" in str(caught.value)


def test_kill_9():
    begin = time.monotonic()
    with pytest.raises(WorkerFailed, match=r"^rank 1 of 2 was killed by signal 9 \(SIGKILL\)") as caught:  # fmt: skip
        launch(2)(kill_on, 1, signal.SIGKILL)
    assert (caught.value.rank, caught.value.exit_code) == (1, -9)
    assert time.monotonic() - begin < JOIN_SECONDS  # nobody waits for a collective's own limit


def test_a_crash_shows_where():
    with pytest.raises(WorkerFailed, match=r"killed by signal 11 \(SIGSEGV\)") as caught:
        launch(1, timeout=HANG)(kill_on, 0, signal.SIGSEGV)
    assert "in kill_on" in caught.value.traceback


def test_a_hang_ends_in_time_and_shows_where(monkeypatch, tmp_path):
    run_out(monkeypatch, supervisor, all_blocked(tmp_path, 2))
    said = "rank 1 of 2 had not finished after 600 seconds, nor had rank 0"
    with pytest.raises(WorkerTimedOut, match=said) as caught:
        launch(2, timeout=HANG)(hang_on, 1, str(tmp_path))
    assert caught.value.rank == 1  # rank 0 only waits for it
    assert "in hang_on" in caught.value.traceback
    assert "worker.py" not in str(caught.value)
    assert "in barrier" in str(caught.value)


def test_a_worker_that_ignores_signals_ends_too(monkeypatch, tmp_path):
    run_out(monkeypatch, supervisor, all_blocked(tmp_path, 1))
    with pytest.raises(WorkerTimedOut):
        launch(1, timeout=HANG)(hang_and_ignore_everything, str(tmp_path))


def test_the_end_of_a_process_is_no_result():
    with pytest.raises(WorkerFailed, match="ended with exit code 0 and returned nothing"):
        launch(1, timeout=HANG)(exit_with, 0)


@pytest.mark.parametrize("then", ["raise", "return"])
def test_what_workers_start_ends_with_them(tmp_path, then):
    if then == "raise":
        with pytest.raises(WorkerFailed, match="with a sleeper"):
            launch(2, timeout=HANG)(start_a_sleeper, str(tmp_path), then)
    else:
        assert launch(2, timeout=HANG)(start_a_sleeper, str(tmp_path), then) == [None, None]
    sleepers = [int((tmp_path / str(rank)).read_text()) for rank in range(2)]
    assert not wait_until_gone(sleepers)


SCRIPT = """
import os, sys, time
from graphwright.run.processes.launch import launch

def sleep(folder):
    with open(os.path.join(folder, "rank" + os.environ["RANK"]), "w") as file:
        file.write(str(os.getpid()))
    os.rename(file.name, file.name.replace("rank", "pid"))
    time.sleep(1000)

def double(number):
    return 2 * number + int(os.environ["RANK"])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_parent(tmp_path, number):
    script = tmp_path / "script.py"
    script.write_text(
        SCRIPT + "if __name__ == '__main__':\n"
        "    import signal\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background begins without\n"
        "    launch(2)(sleep, sys.argv[1])\n"
    )
    with subprocess.Popen(
        [sys.executable, script, tmp_path], stderr=subprocess.PIPE, text=True
    ) as parent:
        files = [tmp_path / f"pid{rank}" for rank in range(2)]
        deadline = time.monotonic() + HANG
        while not all(file.exists() for file in files) and time.monotonic() < deadline:
            time.sleep(0.1)
        workers = [int(file.read_text()) for file in files]
        assert all(is_running(worker) for worker in workers)
        parent.send_signal(number)
        assert not wait_until_gone(workers)
        _, said = parent.communicate(timeout=HANG)
    assert parent.returncode == -number
    assert ("KeyboardInterrupt" in said) == (number == signal.SIGINT)


def test_a_function_of_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + "if __name__ == '__main__':\n    print(launch(2)(double, 4))\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[8, 9]\n", "")


def test_the_same_function_under_torchrun(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, torch, torch.distributed as dist\n"
        "from graphwright.run.processes.world import leave, world\n"
        "here = world(timeout=600)\n"
        "total = torch.tensor(here.rank + 1)\n"
        "dist.all_reduce(total)\n"
        "os.write(1, f'rank {here.rank} of {here.size}: {total.item()}\\n'.encode())\n"
        "leave()\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, str(script)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 of 2: 3", "rank 1 of 2: 3"]


def order_of_a_set():
    return list({f"layer{number}" for number in range(20)})


def test_all_ranks_iterate_over_sets_alike():
    first, second = launch(2)(order_of_a_set)
    assert first == second
