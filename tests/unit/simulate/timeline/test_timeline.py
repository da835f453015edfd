"""A timeline's figures, on a step that was drawn by hand and on random ones."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import timelines
from graphwright.errors import GraphFileError
from graphwright.plans import HANDLING, KINDS, SWAPS, TaskGraph, format_seconds
from graphwright.simulate import caption
from task_graphs import make_task_graph, random_task_graph

US = 1e-6


@pytest.fixture(scope="module")
def small():
    return timelines.small()


def random_timeline(seed: int):
    tasks = random_task_graph(np.random.default_rng(seed), 60, 6)
    cluster = timelines.make_cluster(1, 1)
    tasks = replace(tasks, resource_names=("gpu 0", *tasks.resource_names[1:]))
    return timelines.make_timeline(tasks, cluster, timelines.make_graph())


def predecessors(tasks: TaskGraph) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(len(tasks))]
    for task in range(len(tasks)):
        for after in tasks.succ[tasks.succ_ptr[task] : tasks.succ_ptr[task + 1]]:
            found[after].add(task)
    return found


def resources(tasks: TaskGraph, task: int) -> set[int]:
    return set(tasks.resource[tasks.resource_ptr[task] : tasks.resource_ptr[task + 1]].tolist())


def test_time_and_use_of_the_devices(small):
    assert small.makespan == pytest.approx(24 * US)
    assert small.busy == pytest.approx(np.array([17, 7, 0, 0, 6, 6, 6, 6]) * US)
    assert small.utilisation == pytest.approx([17 / 24, 7 / 24])
    assert small.exposed_communication == pytest.approx([7 * US, 17 * US])


def test_time_by_phase_operator_and_transfer(small):
    assert small.phase_time == pytest.approx({"forward": 14e-6, "backward": 5e-6, "update": 5e-6})
    assert list(small.operator_time) == ["aten.forward", "aten.backward", "aten.update"]
    assert sum(small.operator_time.values()) == pytest.approx(sum(small.phase_time.values()))
    assert small.transfer_time == pytest.approx({"all_reduce": 6e-6})


def test_bytes_by_link_and_in_all(small):
    assert small.link_bytes == dict.fromkeys(
        ("gpu 0 out", "gpu 0 in", "gpu 1 out", "gpu 1 in"), 800
    )
    assert small.moved_bytes == 1600


def test_the_critical_path_says_why_each_step_waited(small):
    assert [(step.name, step.kind, step.resource, step.waited) for step in small.critical_path] == [
        ("n0", "forward", "gpu 0", None),
        ("n1", "backward", "gpu 0", "queued"),
        ("%w.grad all_reduce", "all_reduce", "gpu 0 out", "needs"),
        ("n2", "update", "gpu 1", "needs"),
    ]
    assert [step.start for step in small.critical_path] == pytest.approx([0, 10e-6, 15e-6, 21e-6])
    expected = {"forward": 10e-6, "all_reduce": 6e-6, "backward": 5e-6, "update": 3e-6}
    assert small.critical_time == pytest.approx(expected)
    assert list(small.critical_time) == list(expected)


@pytest.mark.parametrize("seed", range(30))
def test_each_step_of_the_critical_path_starts_when_the_one_before_ends(seed):
    timeline = random_timeline(seed)
    tasks, found = timeline.tasks, timeline.schedule
    before = predecessors(tasks)
    path = timeline.critical_path
    assert found.start[path[0].task] == 0
    assert found.end[path[-1].task] == found.makespan
    assert sum(int(tasks.duration[step.task]) for step in path) == found.makespan
    for earlier, step in pairwise(path):
        assert found.end[earlier.task] == found.start[step.task]
        if step.waited == "needs":
            assert earlier.task in before[step.task]
            assert found.start[step.task] == found.ready[step.task]
        else:
            shared = resources(tasks, earlier.task) & resources(tasks, step.task)
            assert step.resource in {tasks.resource_names[r] for r in shared}
            assert found.start[step.task] > found.ready[step.task]


@pytest.mark.parametrize("seed", range(10))
def test_resources_serve_all_of_their_tasks_one_after_the_other(seed):
    timeline = random_timeline(seed)
    for resource in range(timeline.tasks.num_resources):
        tasks, _ = timeline.served.by(resource)
        expected = {t for t in range(60) if resource in resources(timeline.tasks, t)}
        assert set(tasks.tolist()) == expected and len(tasks) == len(expected)
        start, end = timeline.schedule.start[tasks], timeline.schedule.end[tasks]
        assert (start[1:] >= end[:-1]).all()
        assert timeline.busy[resource] == pytest.approx((end - start).sum() / 1e12)


def test_of_equal_causes_the_first_by_key_counts():
    tasks = make_task_graph([5, 5, 1], [(0, 2), (1, 2)], num_resources=1)
    timeline = timelines.make_timeline(tasks, timelines.make_cluster(1, 1), timelines.make_graph())
    assert [step.task for step in timeline.critical_path] == [0, 2]


def test_memory(small):
    assert small.memory.peak.tolist() == [500_000, 250_000]
    assert "500 kB on gpu 0 (100 kB parameter, 400 kB activation)" in small.summary()


def test_summary_and_repr(small):
    assert repr(small) == (
        "Timeline(24 µs on toys, 2 devices, 6 tasks, at most 500 kB on one device)"
    )
    assert small.summary().splitlines()[:3] == [
        "24 µs for one step on toys (2 devices)",
        "devices compute 29% to 71% of it; 1.6 kB move between devices",
        "critical path: forward 42%, all reduce 25%, backward 21%, update 12%",
    ]


def test_all_figures_as_json(small):
    found = json.loads(json.dumps(small.to_dict()))
    assert found["makespan"] == pytest.approx(24e-6)
    assert found["seed"] == 7 and found["graph"] == small.graph.hash
    assert [device["peak_bytes"] for device in found["devices"]] == [500_000, 250_000]
    assert found["devices"][0]["peak_bytes_by_category"]["activation"] == 400_000
    assert [link["name"] for link in found["links"]] == list(small.link_bytes)
    assert found["critical_path"]["steps"] == 4
    assert [step["waited"] for step in found["critical_path"]["longest"]] == [
        None, "needs", "queued", "needs",
    ]  # fmt: skip


def test_a_step_without_tasks():
    tasks = make_task_graph([], num_resources=1)
    timeline = timelines.make_timeline(
        replace(tasks, resource_names=("gpu 0",)),
        timelines.make_cluster(1, 1),
        timelines.make_graph(),
    )
    assert timeline.makespan == 0
    assert timeline.critical_path == ()
    assert timeline.utilisation.tolist() == [0]
    assert "critical path: nothing" in timeline.summary()
    assert json.dumps(timeline.to_dict())


def test_other_suffixes_are_refused(small, tmp_path):
    with pytest.raises(GraphFileError, match=r"has to end in \.json, \.json\.gz, \.png, \.svg"):
        small.save(tmp_path / "timeline.pdf")
    with pytest.raises(GraphFileError, match="has to end in"):
        small.save(tmp_path / "timeline.gz")
    assert not list(tmp_path.iterdir())


def test_all_kinds_of_transfer_are_counted():
    timeline = timelines.large(8, 24)
    assert list(timeline.transfer_time) == [
        kind for kind in KINDS[1:] if kind not in (*SWAPS, HANDLING)
    ]
    assert sum(timeline.critical_time.values()) == pytest.approx(timeline.makespan)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (1.234, "1.23 s"), (0.9996, "1 s"), (2.5e-3, "2.5 ms"), (3e-6, "3 µs"), (4e-9, "4 ns"),
     (1234.5, "1,234 s"), (5e-13, "0.0005 ns")],
)  # fmt: skip
def test_lengths_of_time(seconds, text):
    assert format_seconds(seconds) == text


def test_the_caption_says_where_a_picture_is_from():
    text = caption("dgx-h100", "data", 3, "0123456789abcdef")
    assert text.startswith("graphwright ")
    assert text.endswith(" · dgx-h100 · data · seed 3 · graph 0123456789ab")
    assert "seed" not in caption("dgx-h100", "", None, "0123456789abcdef")
