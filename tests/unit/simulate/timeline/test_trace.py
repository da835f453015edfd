"""The Chrome trace of a timeline: what Perfetto reads is what was simulated."""

import gzip
import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import timelines
from graphwright.errors import GraphFileError, UnknownDevice
from graphwright.plans import HANDLING, KINDS, SWAPS


@pytest.fixture(scope="module")
def small():
    return timelines.small()


@pytest.fixture(scope="module")
def large():
    return timelines.large(32, 40, spread=30_000)


def load(timeline, path, **options):
    timeline.save(path, **options)
    return json.loads(path.read_text())


def of(trace, kind):
    return [event for event in trace["traceEvents"] if event["ph"] == kind]


def names(trace, what):
    return {
        (event["pid"], event.get("tid")): event["args"]["name"]
        for event in of(trace, "M")
        if event["name"] == what
    }


def test_events_say_what_ran_where_and_when(small, tmp_path):
    trace = load(small, tmp_path / "t.json")
    threads, processes = names(trace, "thread_name"), names(trace, "process_name")
    found = [
        (
            processes[event["pid"], None],
            threads[event["pid"], event["tid"]],
            event["name"],
            event["ts"] - 0.00025,
            event["dur"],
        )
        for event in of(trace, "X")
    ]
    transfer = ("%w.grad all_reduce", pytest.approx(15), 6)
    assert found == [
        ("gpu 0", "compute", "n0", pytest.approx(0), 10),
        ("gpu 0", "compute", "n1", pytest.approx(10), 5),
        ("gpu 0", "compute", "n2", pytest.approx(21), 2),
        ("gpu 1", "compute", "n0", pytest.approx(0), 4),
        ("gpu 1", "compute", "n2", pytest.approx(21), 3),
        ("gpu 0", "out", *transfer),
        ("gpu 0", "in", *transfer),
        ("gpu 1", "out", *transfer),
        ("gpu 1", "in", *transfer),
    ]


def test_events_carry_operator_module_phase_and_bytes(small, tmp_path):
    events = of(load(small, tmp_path / "t.json"), "X")
    assert events[0]["args"] == {"operator": "aten.forward", "module": "layer0", "phase": "forward"}
    assert events[0]["cat"] == "forward"
    assert events[-1]["args"] == {
        "transfer": "all_reduce",
        "bytes": 1600,
        "bytes on this link": 800,
    }


def test_memory_is_a_counter_of_each_device(small, tmp_path):
    trace = load(small, tmp_path / "t.json")
    processes = names(trace, "process_name")
    assert [
        (processes[event["pid"], None], round(event["ts"], 3), event["args"])
        for event in of(trace, "C")
    ] == [
        ("gpu 0", 0, {"parameter": 100_000, "activation": 400_000}),
        ("gpu 0", 15, {"parameter": 100_000, "activation": 0}),
        ("gpu 1", 0, {"parameter": 100_000, "gradient": 150_000}),
        ("gpu 1", 24, {"parameter": 100_000, "gradient": 0}),
    ]


def test_the_trace_says_where_it_is_from(small, tmp_path):
    about = load(small, tmp_path / "t.json")["otherData"]
    assert about["about"] == small.caption
    assert about["devices"] == "2 of 2 are shown"


def perfetto_nanoseconds(microseconds: float) -> int:
    """As Perfetto reads a time: in floating point, and cut off."""
    return int(microseconds * 1000.0)


def test_no_two_events_of_a_thread_overlap_as_perfetto_reads_them(large, tmp_path):
    trace = load(large, tmp_path / "t.json", devices=range(32))
    rows = defaultdict(list)
    for event in of(trace, "X"):
        begin, took = perfetto_nanoseconds(event["ts"]), perfetto_nanoseconds(event["dur"])
        rows[event["pid"], event["tid"]].append((begin, begin + took))
    assert len(rows) == 64
    for spans in rows.values():
        assert all(earlier[1] <= later[0] for earlier, later in pairwise(spans))


def test_times_are_those_of_the_schedule_to_the_nanosecond(large, tmp_path):
    trace = load(large, tmp_path / "t.json", devices=[3])
    tasks, _ = large.served.by(3)
    events = [event for event in of(trace, "X") if event["tid"] == 4]
    assert len(events) == len(tasks) == 40
    start, end = large.schedule.start[tasks], large.schedule.end[tasks]
    begins = np.array([event["ts"] for event in events])
    lengths = np.array([event["dur"] for event in events])
    assert np.abs(begins * 1e6 - start).max() < 1000
    assert np.abs(lengths * 1e6 - (end - start)).max() < 1000
    assert {event["cat"] for event in events} == {"forward", "backward", "update"}


def test_the_first_sixteen_devices_are_shown_unless_asked(large, tmp_path):
    trace = load(large, tmp_path / "t.json")
    assert list(names(trace, "process_name").values()) == [f"gpu {d}" for d in range(16)]
    assert trace["otherData"]["devices"] == "16 of 32 are shown"
    chosen = load(large, tmp_path / "t.json", devices=[20, 3, 20])
    assert list(names(chosen, "process_name").values()) == ["gpu 20", "gpu 3"]


def test_links_of_no_device_are_processes_of_their_owners(tmp_path):
    timeline = timelines.small()
    renamed = ("gpu 0", "gpu 1", "a", "b", "node 0 out", "node 0 in", "pcie bus", "link 0-1")
    timeline = replace(timeline, tasks=replace(timeline.tasks, resource_names=renamed))
    trace = load(timeline, tmp_path / "t.json")
    assert list(names(trace, "process_name").values()) == [
        "gpu 0",
        "gpu 1",
        "node 0",
        "pcie",
        "link 0-1",
    ]
    assert list(names(trace, "thread_name").values())[2:] == ["out", "in", "bus", "0-1"]


def test_no_number_is_zero_or_used_twice(large, tmp_path):
    trace = load(large, tmp_path / "t.json")
    pids = {event["pid"] for event in of(trace, "M")}
    tids = [event["tid"] for event in of(trace, "M") if event["name"] == "thread_name"]
    assert len(set(tids)) == len(tids)
    assert 0 not in pids | set(tids)
    assert not pids & set(tids)


def test_packed_traces_hold_the_same_and_are_the_same_each_time(small, tmp_path):
    small.save(tmp_path / "t.json")
    for name in ("a.json.gz", "b.json.gz"):
        small.save(tmp_path / name)
    packed = (tmp_path / "a.json.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "t.json").read_bytes()
    assert (tmp_path / "b.json.gz").read_bytes() == packed


def test_every_kind_of_transfer_is_named(large, tmp_path):
    found = {event["cat"] for event in of(load(large, tmp_path / "t.json"), "X")}
    transfers = set(KINDS[1:]) - {*SWAPS, HANDLING}
    assert found == {"forward", "backward", "update", *transfers}


def test_a_device_that_there_is_not(small, tmp_path):
    with pytest.raises(UnknownDevice, match="no device 2 to show; the timeline has devices 0 to 1"):
        small.save(tmp_path / "t.json", devices=[0, 2])
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_behind_when_writing_fails(small, tmp_path, monkeypatch):
    path = tmp_path / "t.json"
    path.write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("graphwright.files.os.fsync", fail)
    with pytest.raises(GraphFileError, match=r"cannot write .*t\.json: No space left on device"):
        small.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["t.json"]
    assert path.read_text() == "old"
    with pytest.raises(GraphFileError, match="cannot write"):
        small.save(tmp_path / "none" / "t.json")
