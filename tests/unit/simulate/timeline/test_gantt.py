"""Pictures of timelines: what is drawn is what ran, however many tasks there are."""

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

import timelines
from graphwright.errors import GraphFileError, UnknownDevice
from graphwright.simulate.timeline.gantt import COLOURS, draw, merge

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def small():
    return timelines.small()


def bars_of(figure):
    """(row, begin, end) of every bar, by colour."""
    from matplotlib.colors import to_hex

    names = {colour: name for name, colour in reversed(COLOURS.items())}
    found = {}
    for bars in figure.axes[0].collections:
        corners = [path.vertices for path in bars.get_paths()]
        rows = [(round(v[:4, 1].mean()), v[:4, 0].min(), v[:4, 0].max()) for v in corners]
        found[names[to_hex(bars.get_facecolor()[0])]] = rows
    return found


def test_a_bar_for_every_task_in_the_colour_of_its_phase_or_kind(small):
    found = bars_of(draw(small, (0, 1)))
    assert found["forward"] == [(0, 0, pytest.approx(10)), (1, 0, pytest.approx(4))]
    assert found["backward"] == [(0, pytest.approx(10), pytest.approx(15))]
    assert found["update"] == [(0, 21, pytest.approx(23)), (1, 21, pytest.approx(24))]
    assert found["all_reduce"] == [
        (row, pytest.approx(15), pytest.approx(21)) for row in (2, 3, 4, 5)
    ]


def texts(figure):
    found = [figure.get_supxlabel()]
    for axes in figure.axes:
        found += [axes.get_title("left"), axes.get_ylabel()]
        found += [label.get_text() for label in axes.get_yticklabels()]
        found += [text.get_text() for text in axes.texts + axes.get_legend().get_texts()]
    return found


def test_rows_memory_and_caption_are_labelled(small):
    found = texts(draw(small, (0, 1)))
    for text in (
        "gpu 0",
        "gpu 1 in",
        "71%",
        "29%",
        "all reduce",
        "activation",
        "MB",
        small.caption,
    ):
        assert text in found
    assert "One step: 24 µs on toys" in found
    assert any("at most 500 kB" in text and "limit 1 MB (the line)" in text for text in found)


def test_the_limit_is_a_line_unless_it_is_far_above(small):
    memory = draw(small, (0, 1)).axes[1]
    assert [line.get_ydata()[0] for line in memory.lines] == [1.0]
    assert memory.get_ylim()[1] > 1.0
    far = replace(small, cluster=timelines.make_cluster(1, 2, memory=10**9))
    figure = draw(far, (0, 1))
    assert not figure.axes[1].lines
    assert any("limit 1 GB, far above" in text for text in texts(figure))


def test_pictures_are_png_or_svg_and_the_same_each_time(small, tmp_path):
    for name in ("a.png", "b.png", "a.svg", "b.svg"):
        small.save(tmp_path / name)
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)
    assert ElementTree.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")
    assert small.caption in (tmp_path / "a.svg").read_text()
    for suffix in ("png", "svg"):
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_bars_shorter_than_a_pixel_are_gathered_and_keep_their_time(tmp_path):
    timeline = timelines.large(64, 1600, spread=50_000)
    assert len(timeline.tasks) > 100_000
    figure = draw(timeline, tuple(range(64)))
    found = bars_of(figure)
    shown = [bar for bars in found.values() for bar in bars]
    assert len(shown) < len(timeline.tasks)
    computed = sum(end - begin for row, begin, end in shown if row < 64)
    scale = 1e6 if "µs" in figure.axes[1].get_xlabel() else 1e3
    assert computed == pytest.approx(timeline.busy[:64].sum() * scale, rel=0.02)
    assert any("the 16 busiest of 64 links shown" in text for text in texts(figure))
    timeline.save(tmp_path / "t.svg")
    assert (tmp_path / "t.svg").stat().st_size < 5_000_000


def test_devices_can_be_chosen(tmp_path):
    timeline = timelines.large(16, 8)
    figure = draw(timeline, (5, 2))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()][:2] == [
        "gpu 5",
        "gpu 2",
    ]
    assert any("2 of 16 devices shown" in text for text in texts(figure))
    with pytest.raises(UnknownDevice):
        timeline.save(tmp_path / "t.png", devices=[16])


@pytest.mark.parametrize("seed", range(20))
def test_merged_bars_never_overlap_and_keep_the_time(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.choice([0, 1, 3, 40, 500], 300)
    end = np.cumsum(lengths + rng.choice([0, 0, 2, 60], 300))
    kinds = rng.integers(0, 4, 300).astype(np.uint8)
    begins, widths, found = merge(end - lengths, end, kinds, 50.0)
    assert (np.diff(begins) > 0).all()
    assert (begins[1:] >= (begins + widths)[:-1] - 1e-6).all()
    assert lengths.sum() <= widths.sum() <= lengths.sum() * 1.05
    assert widths.sum() <= end[-1]
    assert set(found.tolist()) <= set(kinds.tolist())


def test_merging_one_bar_or_none():
    one = merge(np.array([5]), np.array([9]), np.array([2], np.uint8), 1.0)
    assert [part.tolist() for part in one] == [[5], [4], [2]]
    none = np.empty(0, np.int64)
    assert [len(part) for part in merge(none, none, none.astype(np.uint8), 1.0)] == [0, 0, 0]


def test_a_step_of_nothing_can_be_drawn(tmp_path):
    from task_graphs import make_task_graph

    tasks = replace(make_task_graph([0], num_resources=1), resource_names=("gpu 0",))
    timeline = timelines.make_timeline(tasks, timelines.make_cluster(1, 1), timelines.make_graph())
    timeline.save(tmp_path / "t.png")
    assert (tmp_path / "t.png").read_bytes().startswith(PNG)


def test_a_folder_that_there_is_not(small, tmp_path):
    with pytest.raises(GraphFileError, match="cannot write"):
        small.save(tmp_path / "none" / "t.png")
