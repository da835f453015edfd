"""The command line where its output cannot go, and options refused before they cost anything."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from graphwright.cli import app
from limits import HANG

ASCII = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}


def run(*arguments, stdout=subprocess.PIPE, **variables):
    return subprocess.run(
        [sys.executable, "-m", "graphwright", *arguments],
        env={**os.environ, **variables},
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=HANG,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_device(options):
    with Path("/dev/full").open("wb") as full:
        done = run("zoo", *options, stdout=full)
    assert done.returncode == 1
    assert done.stderr.decode().strip() == "cannot write the output: No space left on device"


def test_a_reader_that_leaves():
    """As `| head` does: nothing to complain about."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = run("zoo", stdout=closed)
    assert done.stderr.strip() == b""


@pytest.mark.parametrize(
    "arguments", [["describe", "aten.mm"], ["doctor", "--cluster", "dgx-h100"]]
)
def test_a_terminal_without_such_letters(arguments):
    done = run(*arguments, **ASCII)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii() and len(done.stdout) > 500


def test_units_on_a_terminal_without_such_letters():
    """A question mark in the place of µ leaves seconds in doubt."""
    script = "from graphwright.cli.app import SPELLED; print('µs × → ☃'.encode('ascii', SPELLED))"
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=HANG)
    assert done.stdout.strip() == b"b'us x -> ?'"


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "lenet", "--workers", "2"],
        ["plan", "lenet", "--cluster", "local:2"],
        ["optimize", "lenet"],
        ["swap", "lenet", "--memory", "1GB"],
        ["simulate", "lenet", "--cluster", "local:2"],
        ["gnn-train", "mine.py:make"],
        ["serve-sim"],
    ],
)
def test_seeds_that_a_generator_does_not_take(arguments):
    done = run(*arguments, "--seed", "9" * 23)
    assert done.returncode == 2
    assert b"Input should be less than or equal to 4294967295" in done.stderr


def test_an_error_on_a_terminal_without_such_letters(tmp_path):
    done = run("plan", str(tmp_path / "☃.json"), "--cluster", "dgx-h100", **ASCII)
    assert done.returncode == 1
    assert done.stderr.startswith(b"GraphFileError: cannot read ") and done.stderr.isascii()


@pytest.mark.parametrize("size", [str(10**20), str(10**400), str(1 << 25)])
def test_a_batch_that_no_tensor_can_hold(size):
    done = run("capture", "lenet", "--batch-size", size)
    assert done.returncode == 1
    assert done.stderr.startswith(b"InvalidWorkload: ") and b"16,777,216" in done.stderr


@pytest.mark.parametrize("verb", [["run", "lenet", "--small"], ["demo"]])
def test_more_workers_than_memory_are_refused_before_anything_is_planned(verb, tmp_path):
    options = [] if verb[0] == "run" else ["-o", str(tmp_path / "picture.png")]
    done = run(*verb, "--workers", "99999", *options, GRAPHWRIGHT_COSTS=str(tmp_path / "costs"))
    assert done.returncode == 1
    assert done.stderr.startswith(b"InvalidLaunch: 99999 workers need ")
    assert list(tmp_path.iterdir()) == []


def test_every_verb_has_json():
    command = typer.main.get_command(app)
    without = [
        name
        for name, verb in command.commands.items()
        if not any("--json" in option.opts for option in verb.params)
    ]
    assert without == []


@pytest.mark.slow
def test_the_demo_as_json(tmp_path):
    picture = tmp_path / "picture.svg"
    done = run("demo", "--model", "mlp", "--workers", "2", "-o", str(picture), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["workers"] == 2 and told["picture"] == str(picture) and picture.is_file()
    assert told["check"]["agrees"] and len(told["check"]["steps"]) == 3
    assert len(told["ways"]) == 3 and told["operators"] > 10 and told["seconds"]["run"] > 0
