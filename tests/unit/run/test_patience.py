"""A rank that waits long says for whom, and in which line of the user's program."""

import sys
from inspect import currentframe
from time import sleep

import pytest

from graphwright.run import patience
from graphwright.run.patience import tell, telling, where


def test_a_long_wait_is_told_with_its_line(monkeypatch, capsys):
    monkeypatch.setattr(patience, "NOTICE", 0.05)
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
    monkeypatch.setattr(patience, "NOTICE", 0.2)
    try:
        with telling(0):
            if fails:
                raise ValueError
    except ValueError:
        pass
    sleep(0.4)
    assert capsys.readouterr().err == ""


def test_others_are_named_once(capsys):
    tell(0, [3, 1, 3], "train.py, line 7")
    assert "for rank 1, 3 (train.py, line 7)" in capsys.readouterr().err


def test_the_line_is_the_users(monkeypatch):
    """Frames of Graphwright and PyTorch are passed by."""
    inside = {"__name__": "graphwright.run.step", "where": where}
    exec("def call(): return where()", inside)
    assert inside["call"]() == f"test_patience.py, line {sys._getframe().f_lineno}"
