"""The names of algorithms on the command line are those of the registry."""

import pytest
from typer.testing import CliRunner

from graphwright import cli
from graphwright.cli.simulate import Baseline
from graphwright.partition import ALGORITHMS, BASELINES, RECIPES, SYSTEMS


@pytest.mark.parametrize(
    ("verb", "names"),
    [
        ("plan", (*ALGORITHMS, *RECIPES)),
        ("profile", (*ALGORITHMS, *RECIPES)),
        ("run", ("mcmc", *RECIPES, *SYSTEMS)),
    ],
)
def test_help_lists_every_name(verb, names):
    text = CliRunner().invoke(cli.app, [verb, "--help"], env={"COLUMNS": "200"}).stdout
    assert "{" not in text.replace("{model}", "")
    for name in names:
        assert name in text


def test_simulate_knows_the_recipes_that_need_no_search():
    assert {strategy.value for strategy in Baseline} == {*BASELINES, "random"}
