"""``graphwright swap``: a table of searches, figures as JSON, the plan and the picture as files."""

import json

from typer.testing import CliRunner

import graphwright as gw
from graphwright import cli
from graphwright.plans import MemoryPlan

RUN = CliRunner()
SMALL = ["swap", "mlp", "--small", "--cluster", "p3.2xlarge", "--budget", "0"]
LESS = "10kB"


def test_swap_prints_the_searches_side_by_side(tmp_path):
    plan, picture = tmp_path / "plan.json", tmp_path / "streams.png"
    result = RUN.invoke(
        cli.app, [*SMALL, "--memory", LESS, "-o", str(plan), "--plot", str(picture)]
    )
    assert result.exit_code == 0, result.output
    for word in ("greedy", "belady", "lru", "genetic", "needs", "holds", "out and"):
        assert word in " ".join(result.output.split())
    assert MemoryPlan.load(plan).capacity == 10**4
    assert picture.stat().st_size > 1000


def test_swap_as_json():
    figures = json.loads(RUN.invoke(cli.app, [*SMALL, "--memory", LESS, "--json"]).stdout)
    assert figures["capacity"] == 10**4 and figures["arena"] <= 10**4
    assert figures["time"] >= figures["unlimited_time"] > 0


def test_too_little_memory_says_what_is_needed():
    result = RUN.invoke(cli.app, [*SMALL, "--memory", "1kB"])
    assert isinstance(result.exception, gw.GraphwrightError)
    assert "needs" in str(result.exception)


def test_where_all_fits_nothing_is_swapped_or_searched():
    result = RUN.invoke(cli.app, [*SMALL, "--memory", "2MB"])
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    assert "nothing has to be swapped" in words and "greedy" not in words
    figures = json.loads(RUN.invoke(cli.app, [*SMALL, "--memory", "2MB", "--json"]).stdout)
    assert figures["bytes_in"] == figures["bytes_out"] == 0 and figures["searches"] == {}
    assert figures["arena"] < 1.2 * figures["needs"]
