"""Pictures of frontiers: every plan and every baseline is where its figures say."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from graphwright import zoo
from graphwright.errors import GraphFileError
from graphwright.machine import cluster
from graphwright.partition import replicate
from graphwright.plans import Figures, make_frontier
from graphwright.report import plot_frontier
from graphwright.report.pictures.frontier import draw_frontier

PNG = b"\x89PNG\r\n\x1a\n"
CURVE = ((6, 7.5), (7, 4.0), (8, 2.0), (12, 1.8), (20, 1.7))


@pytest.fixture(scope="module")
def base():
    return replicate(zoo.load("mlp", small=True).capture(), cluster("v100-2x8"))


def plan(base, gigabytes, seconds, **more):
    figures = Figures(time=float(seconds), memory=int(gigabytes * 1e9), **more)
    return replace(base, algorithm="frontier", seed=4, figures=figures)


def frontier(base, curve=CURVE, others=None, **more):
    named = {name: plan(base, *point) for name, point in (others or {}).items()}
    return make_frontier([plan(base, *point, **more) for point in curve], others=named)


def lines(figure):
    """The points of every line that is labelled."""
    axes = figure.axes[0]
    return {
        line.get_label().partition("\n")[0]: list(zip(*map(list, line.get_data()), strict=True))
        for line in axes.lines
        if not line.get_label().startswith("_")
    }


def texts(figure):
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text)]


def test_plans_and_baselines_are_where_their_figures_say(base):
    found = lines(draw_frontier(frontier(base, others={"data": (15, 9), "optcnn": (20, 1.7)})))
    assert found["frontier"] == [pytest.approx(point) for point in CURVE]
    assert found["data"] == [pytest.approx((15, 9))]
    assert found["optcnn"] == [pytest.approx((20, 1.7))]
    assert found["turning point"] == [pytest.approx((8, 2.0))]


def test_between_two_plans_there_is_what_the_smaller_one_does(base):
    axes = draw_frontier(frontier(base)).axes[0]
    steps = next(line for line in axes.lines if line.get_drawstyle() == "steps-post")
    assert list(steps.get_xdata())[1:-1] == [pytest.approx(x) for x, _ in CURVE]


@pytest.mark.parametrize(
    ("others", "scales"),
    [({}, ("linear", "linear")), ({"data": (109, 39)}, ("log", "log")), ({"x": (9, 39)}, ("linear", "log"))],
)  # fmt: skip
def test_axes_are_logarithmic_where_the_spread_asks_for_it(base, others, scales):
    axes = draw_frontier(frontier(base, others=others)).axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == scales
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    for x, y in (*CURVE, *others.values()):
        assert left < x < right
        assert bottom < y < top


def test_the_memory_of_a_device_is_a_line_unless_it_is_far(base):
    near = draw_frontier(frontier(base))
    assert any(list(line.get_xdata()) == [16, 16] for line in near.axes[0].lines)
    assert "a device has 16 GB" in texts(near)
    far = draw_frontier(frontier(base, curve=((0.002, 3.0), (0.004, 1.0))))
    assert not any(list(line.get_xdata()) == [16, 16] for line in far.axes[0].lines)
    assert any("a device has 16 GB, far to the right" in text for text in texts(far))


def test_parts_of_the_time_are_dotted(base):
    assert "moving, busiest link" not in lines(draw_frontier(frontier(base)))
    found = lines(draw_frontier(frontier(base, compute_time=1.5, communication_time=0.7)))
    assert found["computing, busiest device"] == [pytest.approx((x, 1.5)) for x, _ in CURVE]
    assert found["moving, busiest link"] == [pytest.approx((x, 0.7)) for x, _ in CURVE]


def test_the_caption_says_where_it_comes_from(base):
    made = replace(frontier(base), notes=("layers are estimated",))
    words = next(text for text in texts(draw_frontier(made)) if "graphwright" in text)
    for part in ("layers are estimated", "v100-2x8", "frontier", "seed 4", base.graph_hash[:12]):
        assert part in words


def test_a_frontier_of_one_plan_has_no_turning_point(base):
    found = lines(draw_frontier(frontier(base, curve=CURVE[:1])))
    assert found == {"frontier": [pytest.approx(CURVE[0])]}


def test_files_are_png_or_svg(base, tmp_path):
    made = frontier(base, others={"data": (30, 9)})
    plot_frontier(made, tmp_path / "f.png", title="Mine")
    assert (tmp_path / "f.png").read_bytes().startswith(PNG)
    plot_frontier(made, str(tmp_path / "f.svg"), title="Mine")
    first = (tmp_path / "f.svg").read_bytes()
    assert "Mine" in "".join(ElementTree.fromstring(first).itertext())
    plot_frontier(made, tmp_path / "f.svg", title="Mine")
    assert (tmp_path / "f.svg").read_bytes() == first


@pytest.mark.parametrize("name", ["f.pdf", "f", "f.PNG.gz"])
def test_other_names_are_refused(base, tmp_path, name):
    with pytest.raises(GraphFileError, match=r"has to end in \.png or \.svg"):
        plot_frontier(frontier(base), tmp_path / name)
    assert not list(tmp_path.iterdir())
