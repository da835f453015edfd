"""The tables of a simulated step."""

from dataclasses import replace

from rich.console import Console

import timelines
from graphwright import zoo
from graphwright.machine import cluster
from graphwright.partition import replicate
from graphwright.report import show
from graphwright.simulate import simulate


def shown(timeline) -> str:
    console = Console(width=140)
    with console.capture() as captured:
        show(timeline, console, title="mine, one step")
    return captured.get()


def test_devices_times_and_the_critical_path_are_shown():
    text = shown(timelines.small())
    for words in (
        "mine, one step",
        "by hand",
        "forward 42%, all reduce 25%",
        "gpu 0 out: 800 B, 25% of the time",
        "500 kB",
        "transfers: all reduce",
        "aten.backward",
        "its turn came",
    ):
        assert words in text


def test_a_device_over_its_limit_shows_more_than_all():
    tight = replace(timelines.small(), cluster=timelines.make_cluster(1, 2, memory=400_000))
    assert "125%" in shown(tight)


def test_of_many_devices_the_fullest_are_shown():
    text = shown(timelines.large(16, 8))
    assert "The 8 fullest of 16 kinds of 16 devices" in text


def test_devices_that_are_alike_share_a_row():
    graph = zoo.load("mlp", small=True).capture()
    text = shown(simulate(graph, replicate(graph, cluster("dgx-h100:2"))))
    assert "gpu 0 to 15" in text
    assert "gpu 1 " not in text
