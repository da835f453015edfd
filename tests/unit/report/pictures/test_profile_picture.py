"""Pictures of profiles: time, memory and cost against the number of devices."""

from dataclasses import dataclass

import pytest

from graphwright.errors import GraphFileError, InvalidMeasurement
from graphwright.report import plot_profile
from graphwright.report.pictures.profile import draw_profile

PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Row:
    num_devices: int
    time: float | None = None
    memory: int | None = None
    cost: float | None = None


ROWS = [Row(8, 2.0, 14 * 10**9), Row(4), Row(16, 1.5, 12 * 10**9), Row(32, 1.2, 9 * 10**9)]


def lines(axes):
    return {
        line.get_label(): list(zip(*map(list, line.get_data()), strict=True)) for line in axes.lines
    }


def test_time_memory_and_the_ideal_line():
    time, memory = draw_profile(ROWS, memory_limit=16 * 10**9).axes
    found = lines(time)
    assert found["fastest plan that fits"] == [(8, 2.0), (16, 1.5), (32, 1.2)]
    assert found["ideal"] == [(8, 2.0), (16, 1.0), (32, 0.5)]
    assert next(iter(lines(memory).values())) == [(8, 14), (16, 12), (32, 9)]
    assert any(list(line.get_ydata()) == [16, 16] for line in memory.lines)


def test_what_does_not_fit_is_crossed():
    time, _ = draw_profile(ROWS).axes
    crosses = [line for line in time.lines if line.get_marker() == "x"]
    assert [list(line.get_xdata()) for line in crosses if len(line.get_xdata())] == [[4]]
    assert "no plan fits" in lines(time)
    assert "no plan fits" not in lines(draw_profile(ROWS[:1]).axes[0])


def test_a_cost_has_a_panel_of_its_own():
    rows = [Row(1, 3.0, 10**9, 0.25), Row(2, 2.0, 10**9, 0.4)]
    *_, cost = draw_profile(rows).axes
    assert len(draw_profile(rows).axes) == 3
    assert list(lines(cost).values()) == [[(1, 0.25), (2, 0.4)]]


def test_profiles_are_compared_by_name():
    time, memory = draw_profile({"frontier": ROWS, "data": [Row(16, 4.0, 10**9)]}).axes
    found = lines(time)
    assert found["data"] == [(16, 4.0)]
    assert len(memory.lines) == 2
    assert found["ideal"][0] == (8, 2.0)


def test_many_counts_are_numbered_sparsely():
    rows = [Row(n, 10 / n, 10**9) for n in range(1, 65)]
    figure = draw_profile(rows)
    ticks = figure.axes[-1].get_xticks().tolist()
    assert ticks[:3] == [1, 4, 8]
    assert figure.axes[-1].get_xscale() == "linear"
    assert draw_profile(ROWS).axes[-1].get_xscale() == "log"


def test_nothing_that_fits_can_be_drawn_and_nothing_at_all_cannot(tmp_path):
    figure = draw_profile([Row(1), Row(2)])
    assert "No plan fits" in figure.axes[0].get_title(loc="left")
    plot_profile([Row(1)], tmp_path / "p.png")
    with pytest.raises(InvalidMeasurement, match="without rows"):
        plot_profile([], tmp_path / "p.png")


def test_files_and_the_caption(tmp_path):
    plot_profile(ROWS, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(PNG)
    plot_profile(ROWS, tmp_path / "p.svg", caption="v100-2x8 · seed 3", title="Scaling")
    text = (tmp_path / "p.svg").read_text()
    for words in ("v100-2x8 · seed 3", "graphwright", "Scaling"):
        assert words in text
    with pytest.raises(GraphFileError, match=r"has to end in \.png or \.svg"):
        plot_profile(ROWS, tmp_path / "p.pdf")
