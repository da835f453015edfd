"""Turns count by how long ranks waited for a core, not by how long they took."""

import math
from itertools import count

import pytest

from graphwright.run.measure import turns
from graphwright.run.measure.turns import PATIENCE, Turns


def made(monkeypatch, wanted: int, shares: list[float], helped: float = 0.0) -> Turns[int]:
    """Turns of a second each, of which a rank waits for these shares, and its threads compute."""
    clock, waits = count(), iter([w for share in shares for w in (0.0, share)])
    helpers = iter([h for _ in shares for h in (0.0, helped)])
    monkeypatch.setattr(turns, "_seconds_of_helpers", lambda: next(helpers))
    monkeypatch.setattr(turns, "perf_counter", lambda: float(next(clock)))
    monkeypatch.setattr(turns, "seconds_without_core", lambda: next(waits))
    own: Turns[int] = Turns(wanted)
    number = 0
    while not own.are_enough:
        own.take(lambda number=number: number)
        number += 1
    return own


def test_a_calm_machine_makes_no_turn_again(monkeypatch):
    own = made(monkeypatch, 3, [0.0, 0.01, 0.0])
    assert own.that_count == [0, 1, 2]
    assert own.waited == pytest.approx(0.01 / 3)


def test_disturbed_turns_are_made_again(monkeypatch):
    own = made(monkeypatch, 2, [0.5, 0.0, 0.3, 0.02])
    assert own.that_count == [1, 3]


def test_what_own_threads_compute_is_no_other_program(monkeypatch):
    own = made(monkeypatch, 2, [0.2, 0.25], helped=0.25)
    assert own.that_count == [0, 1]
    assert own.waited == 0.0


def test_on_a_busy_machine_the_calmest_count_and_it_ends(monkeypatch):
    own = made(monkeypatch, 2, [0.5, 0.4, 0.9, 0.1, 0.8, 0.7])
    assert len(own.made) == PATIENCE * 2
    assert own.that_count == [1, 3]
    assert own.waited == pytest.approx(0.25)


def test_where_the_system_does_not_say_all_count(monkeypatch):
    own = made(monkeypatch, 2, [math.nan, math.nan])
    assert own.that_count == [0, 1]
    assert own.waited == 0.0
