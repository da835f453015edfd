"""Processes of this machine: estimated, or measured once and kept; and several hosts like it."""

import subprocess
from dataclasses import replace

import pytest

from graphwright.errors import InvalidCluster
from graphwright.machine import (
    Store,
    cluster,
    estimated_cluster,
    from_toml,
    hosts,
    local,
    local_cluster,
    measured_cluster,
    note_of,
    to_toml,
)


def measured(processes: int):
    """A cluster whose figures are not the estimates."""
    before = estimated_cluster(processes)
    device = replace(before.devices[0], bandwidth=1.25e9, launch=7e-6)
    return replace(before, devices=(device,) * processes, source="measured")


@pytest.fixture
def started(monkeypatch):
    """What would be started to measure; nothing is."""
    commands = []

    def run(command, **options):
        commands.append(command)
        Store().put_note(note_of(int(command[-1])), to_toml(measured(int(command[-1]))))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(local.subprocess, "run", run)
    monkeypatch.setenv(local.SWITCH, "1")
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return commands


def test_processes_are_measured_on_first_use_alone(started):
    assert cluster("local:2") == measured(2)
    assert cluster("local:2") == measured(2)
    assert len(started) == 1
    assert started[0][1:] == ("-m", "graphwright.run.measure.machine", "2")
    assert local_cluster(3) == estimated_cluster(3)  # which asks nobody
    assert len(started) == 1


@pytest.mark.parametrize(("variable", "value"), [(local.SWITCH, "0"), ("RANK", "1")])
def test_nothing_is_measured_where_that_is_switched_off_nor_by_ranks(started, monkeypatch, variable, value):  # fmt: skip
    monkeypatch.setenv(variable, value)
    assert cluster("local:2") == estimated_cluster(2)
    assert not started


def test_nor_with_more_processes_than_the_machine_can_run(started, monkeypatch):
    monkeypatch.setattr(local, "num_cores", lambda: 2)
    assert cluster("local:64").num_devices == 64
    assert not started


def test_a_failure_leaves_the_estimates_and_is_said_once(started, monkeypatch, capsys):
    failed = subprocess.CompletedProcess((), 3)
    monkeypatch.setattr(local.subprocess, "run", lambda command, **options: failed)
    for _ in range(2):
        assert cluster("local:2") == estimated_cluster(2)
    said = capsys.readouterr().err
    assert said.count("local:2 was not measured (exit status 3)") == 1
    assert "GRAPHWRIGHT_MEASURE=0" in said


def test_a_note_that_is_no_cluster_counts_for_nothing():
    Store().put_note(note_of(2), "name = 3")
    assert measured_cluster(2) is None


def test_notes_are_kept_beside_what_an_older_store_has(tmp_path):
    store = Store(tmp_path / "costs.sqlite")
    assert store.load_note("a") is None
    store.put_note("a", "1")
    store.put_note("a", "2")
    assert (store.load_note("a"), store.load_note("b")) == ("2", None)
    assert store.counts() == (0, 0)


def test_hosts_are_a_level_around_the_processes_of_one():
    one = estimated_cluster(4)
    on = hosts(2, one, bandwidth=125e6, latency=1e-4, name="two")
    assert [(level.name, level.count) for level in on.levels] == [("host", 2), ("process", 4)]
    assert on.num_devices == 8
    assert on.route(0, 4).bandwidth == 125e6
    assert on.route(0, 3).bandwidth == one.levels[0].bandwidth
    assert all(device.overlaps for device in on.devices)
    assert from_toml(to_toml(on)) == on


@pytest.mark.parametrize("given", [{"count": 0}, {"bandwidth": 0.0}, {"latency": -1.0}])
def test_hosts_that_cannot_be(given):
    with pytest.raises(InvalidCluster):
        hosts(**{"count": 2, "on": estimated_cluster(1), "bandwidth": 1e8, "latency": 0.0, **given})
