"""A rank that waits long says for whom, and in which line of the user's program."""

import subprocess
import sys
import threading
from inspect import currentframe
from io import StringIO
from pathlib import Path
from queue import Queue

import pytest
from torch import fx, nn

from graphwright.run.processes import notices
from graphwright.run.processes.notices import (
    find_user_line,
    notice_of_compiling,
    notice_of_waiting,
    print_waiting,
)
from limits import HANG

HERE = Path(__file__).name


@pytest.fixture
def said(monkeypatch):
    """What is said, as it comes, by those who wait for no time at all."""
    words = Queue()
    monkeypatch.setattr(notices, "NOTICE_SECONDS", 0.0)
    monkeypatch.setattr(notices, "_print", words.put)
    return words


def test_a_long_wait_is_told_with_its_line(said):
    with notice_of_waiting(2):
        line = currentframe().f_lineno - 1
        told = said.get(timeout=HANG)
    assert told.startswith(f"rank 2 has waited 0 s for other ranks ({HERE}, line {line}).")
    assert said.empty()


@pytest.mark.parametrize("fails", [False, True])
def test_a_short_one_is_not(monkeypatch, capsys, fails):
    monkeypatch.setattr(notices, "NOTICE_SECONDS", 2 * HANG)
    try:
        with notice_of_waiting(0):
            if fails:
                raise ValueError
    except ValueError:
        pass
    for timer in threading.enumerate():
        if isinstance(timer, threading.Timer):
            timer.join(HANG)  # it does not wait for its time: nobody needs it any more
            assert not timer.is_alive()
    assert capsys.readouterr().err == ""


def test_long_compiling_is_told(said):
    with notice_of_compiling(0, 3602):
        assert "on the 3,602 operators of rank 0's program" in said.get(timeout=HANG)


def test_others_are_named_once(capsys):
    print_waiting(0, [3, 1, 3], "train.py, line 7")
    assert "for rank 1, 3 (train.py, line 7)" in capsys.readouterr().err


def test_the_line_is_the_users():
    """Frames of Graphwright and PyTorch are passed by, and so is the code that PyTorch generates."""
    inside = {"__name__": "graphwright.run.step.step", "find": find_user_line}
    exec("def call(*_): return find()", inside)
    assert inside["call"]() == f"{HERE}, line {sys._getframe().f_lineno}"
    graph = fx.Graph()
    graph.output(graph.call_function(inside["call"], (graph.placeholder("x"),)))
    module = fx.GraphModule(nn.Module(), graph)
    assert module(1) == f"{HERE}, line {sys._getframe().f_lineno}"


def test_where_nothing_is_the_users_there_is_no_line(capsys):
    code = "from graphwright.run.processes.notices import find_user_line; print(repr(find_user_line()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "''\n"
    print_waiting(1, [], "")
    assert "for other ranks. All ranks" in capsys.readouterr().err


def test_a_notice_that_nobody_reads_ends_nothing(monkeypatch):
    closed = StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    print_waiting(0, [1], "")
