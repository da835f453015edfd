"""A rank that waits long says for whom, and in which line of the user's program."""

import subprocess
import sys
from inspect import currentframe
from io import StringIO
from time import sleep

import pytest
from torch import fx, nn

from graphwright.run.processes import notices
from graphwright.run.processes.notices import tell, telling, telling_of_compiling, where


def test_a_long_wait_is_told_with_its_line(monkeypatch, capsys):
    monkeypatch.setattr(notices, "NOTICE", 0.05)
    with telling(2):
        line = currentframe().f_lineno - 1
        sleep(0.5)
    told = capsys.readouterr().err
    assert told.startswith(
        f"graphwright: rank 2 has waited 0 s for other ranks (test_patience.py, line {line})."
    )
    assert told.count("\n") == 1


@pytest.mark.parametrize("fails", [False, True])
def test_a_short_one_is_not(monkeypatch, capsys, fails):
    monkeypatch.setattr(notices, "NOTICE", 0.2)
    try:
        with telling(0):
            if fails:
                raise ValueError
    except ValueError:
        pass
    sleep(0.4)
    assert capsys.readouterr().err == ""


def test_long_compiling_is_told(monkeypatch, capsys):
    monkeypatch.setattr(notices, "NOTICE", 0.05)
    with telling_of_compiling(0, 3602):
        sleep(0.5)
    assert "on the 3,602 operators of rank 0's program" in capsys.readouterr().err


def test_others_are_named_once(capsys):
    tell(0, [3, 1, 3], "train.py, line 7")
    assert "for rank 1, 3 (train.py, line 7)" in capsys.readouterr().err


def test_the_line_is_the_users():
    """Frames of Graphwright and PyTorch are passed by, and so is the code that PyTorch generates."""
    inside = {"__name__": "graphwright.run.step", "where": where}
    exec("def call(*_): return where()", inside)
    assert inside["call"]() == f"test_patience.py, line {sys._getframe().f_lineno}"
    graph = fx.Graph()
    graph.output(graph.call_function(inside["call"], (graph.placeholder("x"),)))
    module = fx.GraphModule(nn.Module(), graph)
    assert module(1) == f"test_patience.py, line {sys._getframe().f_lineno}"


def test_where_nothing_is_the_users_there_is_no_line(capsys):
    code = "from graphwright.run.processes.notices import where; print(repr(where()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "''\n"
    tell(1, [], "")
    assert "for other ranks. All ranks" in capsys.readouterr().err


def test_a_notice_that_nobody_reads_ends_nothing(monkeypatch):
    closed = StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    tell(0, [1], "")
