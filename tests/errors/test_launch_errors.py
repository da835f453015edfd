"""What cannot be launched or joined is refused with what is wrong and what to do, and nothing is left behind."""

import os
import socket
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from graphwright.errors import InvalidLaunch, NotSendable, WorkerFailed
from graphwright.machine import num_cores
from graphwright.run.processes.launch import launch
from graphwright.run.processes.rendezvous import listen
from limits import HANG


class Unreadable:
    """A value that can be packed and not made anew."""

    def __reduce__(self):
        return int, ("not a number",)


def return_a_lambda():
    return lambda: 0


def return_unreadable():
    return Unreadable()


def launch_again():
    return launch(2)(print)


def leave_the_program():
    sys.exit("enough")


@pytest.mark.parametrize("num_workers", [0, -1, 2.0, "2", None, True])
def test_numbers_of_workers(num_workers):
    with pytest.raises(InvalidLaunch, match=r"num_workers=.*whole number from 1 upwards"):
        launch(num_workers)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, "threads=0; give a whole number"),
        ({"threads": 1.5}, r"threads=1\.5; give a whole number"),
        ({"timeout": 0}, "timeout=0; give seconds above 0, or None"),
        ({"timeout": float("nan")}, "timeout=nan; give seconds"),
        ({"join_timeout": -1}, "join_timeout=-1; give seconds above 0"),
    ],
)
def test_options(options, message):
    with pytest.raises(InvalidLaunch, match=message):
        launch(2, **options)


def test_threads_share_the_cores():
    assert launch(1).threads == num_cores()
    assert launch(1000).threads == 1


def test_functions_without_a_name_to_import():
    def nested():
        pass

    for function, kind in ((lambda: 0, "a lambda"), (nested, "inside another function")):
        with pytest.raises(NotSendable, match=f"is {kind}; write it with def at the top level"):
            launch(2)(function)
    with pytest.raises(NotSendable, match="5 is not a function"):
        launch(2)(5)


def test_arguments_that_cannot_be_sent():
    with pytest.raises(NotSendable, match=r"builtins\.print with its arguments cannot be sent"):
        launch(2)(print, lambda: 0)


def test_a_session_without_a_file():
    program = (
        "from graphwright.run.processes.launch import launch\n"
        "def double(x): return 2 * x\n"
        "launch(2)(double, 1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "NotSendable: workers import the function by its name, and double is in no file" in done.stderr  # fmt: skip


def test_a_worker_launches_no_workers(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InvalidLaunch, match="this process is rank 1 of 2 already"):
        launch(2)(print)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (launch_again, r"InvalidLaunch: this process is rank 0 of 1 already"),
        (return_a_lambda, r"NotSendable: the result cannot be sent to another process"),
        (leave_the_program, r"raised SystemExit: enough"),
    ],
)
def test_workers_that_break_a_rule(function, message):
    with pytest.raises(WorkerFailed, match=message) as caught:
        launch(1, timeout=HANG)(function)
    assert caught.value.rank == 0
    its_own_lines = function is not return_a_lambda
    assert ("Traceback" in caught.value.traceback) == its_own_lines


def test_a_result_that_cannot_be_read():
    with pytest.raises(NotSendable, match="the result of rank 0 cannot be read: invalid literal"):
        launch(1, timeout=HANG)(return_unreadable)


def test_a_script_without_its_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("from graphwright.run.processes.launch import launch\nlaunch(2)(print)\n")
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, timeout=HANG
    )
    assert done.returncode == 1
    assert "InvalidLaunch: this process is rank 0 of 2 already" in done.stderr
    assert "WorkerFailed: rank" in done.stderr
    assert "ended with exit code 1 before it began; its own output says why" in done.stderr
    assert 'under `if __name__ == "__main__":`' in done.stderr


def test_a_module_that_cannot_be_imported_in_a_worker(tmp_path):
    (tmp_path / "fussy.py").write_text(
        "import os\nif 'RANK' in os.environ:\n    raise ImportError('not in a worker')\ndef f(): pass\n"
    )
    program = "from graphwright.run.processes.launch import launch\nif __name__ == '__main__':\n    import fussy\n    launch(2)(fussy.f)\n"
    (tmp_path / "script.py").write_text(program)
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )
    assert "raised ImportError: not in a worker" in done.stderr


def test_a_function_that_is_defined_for_the_main_program_alone(tmp_path):
    program = "from graphwright.run.processes.launch import launch\nif __name__ == '__main__':\n    def f(): pass\n    launch(2)(f)\n"
    (tmp_path / "script.py").write_text(program)
    command = [sys.executable, tmp_path / "script.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG)
    assert (
        "(Can't get attribute 'f'" in done.stderr
        and "define functions and classes before it" in done.stderr
    )


JOIN = """
import sys, threading, time
from graphwright.errors import WorkersMissing
from graphwright.run.processes.world import world

def until_told(store, variables, wish, deadline):
    told = threading.Thread(target=sys.stdin.read, daemon=True)
    told.start()
    while told.is_alive():
        try:
            return call_roll(store, variables, wish, time.monotonic() + 0.1)
        except WorkersMissing:
            pass
    return call_roll(store, variables, wish, 0.0)

worlds = sys.modules["graphwright.run.processes.world"]
call_roll, worlds.call_roll = worlds.call_roll, until_told if sys.argv[1] == "told" else worlds.call_roll
print(world(timeout=600 if sys.argv[1] == "told" else float(sys.argv[1])))
"""


def join(seconds, **variables):
    """Start a process of a world that nobody launches: rank 0 hosts the store.

    With "told" for seconds it waits for the others until its input ends: however slowly they come.
    """
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    given = {"LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} | variables
    return subprocess.Popen(
        [sys.executable, "-c", JOIN, str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | given,
    ), given["MASTER_PORT"]


def test_rank_0_without_the_others():
    process, _ = join("told", RANK="0", WORLD_SIZE="3")
    _, said = process.communicate(timeout=HANG)
    assert "WorkersMissing: rank 0 of 3 waited in vain for rank 1, 2" in said


def test_others_without_rank_0():
    process, port = join(2, RANK="1", WORLD_SIZE="2")
    _, said = process.communicate(timeout=HANG)
    assert f"WorkersMissing: rank 1 of 2 cannot reach rank 0 at 127.0.0.1:{port}" in said


def test_an_address_that_is_no_machine():
    process, _ = join(2, RANK="1", WORLD_SIZE="2", MASTER_ADDR="no.such.machine.invalid")
    _, said = process.communicate(timeout=HANG)
    assert "InvalidWorld: MASTER_ADDR=no.such.machine.invalid is not a machine" in said


def wait_for_host(process, port):
    while process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2"}, "cannot listen at 127.0.0.1"),
        ({"RANK": "1", "WORLD_SIZE": "3"}, "rank 1 has WORLD_SIZE=3, and a rank that came before has 2"),
        ({"RANK": "1", "WORLD_SIZE": "2"}, None),
    ],
)  # fmt: skip
def test_two_processes_that_do_or_do_not_fit(second, message):
    first, port = join("told", RANK="0", WORLD_SIZE="2")
    wait_for_host(first, int(port))  # the second comes when the first one hosts
    other, _ = join(HANG, MASTER_PORT=port, **second)
    (said, trouble), (_, first_trouble) = (p.communicate(timeout=HANG) for p in (other, first))
    if message is None:
        assert "World(rank=1, size=2" in said, trouble
        assert first.returncode == 0, first_trouble
    else:
        assert message in trouble
        assert "waited in vain for rank 1" in first_trouble


def test_more_workers_than_the_memory_holds_are_refused():
    with pytest.raises(InvalidLaunch, match=r"100000 workers need .* for PyTorch alone, and .* are free; launch \d+ at most"):  # fmt: skip
        launch(100_000)(print)
