"""Rules as a table, as data, as trees and as a picture."""

import io
import json

import pytest
from rich.console import Console

from graphwright import report
from graphwright.errors import GraphFileError, InvalidOption
from graphwright.rewrite.substitutions import shipped


def printed(show) -> str:
    console = Console(file=io.StringIO(), width=200)
    show(console)
    return console.file.getvalue()


def test_a_listing_has_the_rules_with_an_operator():
    listing = report.list_rules(shipped(), operator="enlarge", size=2)
    text = printed(lambda console: report.show(listing, console))
    assert f"{len(listing.rules)} of {len(shipped())} proved substitutions" in text
    assert text.count("enlarge") >= len(listing.rules) > 0
    data = report.to_dict(listing)
    assert len(json.loads(json.dumps(data))["rules"]) == len(listing.rules)
    assert all(rule["size"] == 2 for rule in data["rules"])


def test_an_operator_that_there_is_not_is_refused():
    with pytest.raises(InvalidOption, match="no rule has an operator 'softmax'; there are ewadd"):
        report.list_rules(shipped(), operator="softmax")


def test_a_rule_is_drawn_with_its_proof():
    rule = next(r for r in shipped().rules if len(r.substitution.source) == 2)
    text = printed(lambda console: report.show_rule(rule, console))
    assert f"rule {rule.number}" in text and "source" in text and "target" in text
    assert "split0" in text and "again" in text  # the shared term is drawn once
    assert all(axiom in text for axiom in rule.axioms)


@pytest.mark.parametrize("name", ["rule.png", "rule.svg"])
def test_a_rule_has_a_picture(tmp_path, name):
    rule = next(r for r in shipped().rules if r.substitution.guards)
    report.plot_rule(rule, tmp_path / name)
    assert (tmp_path / name).stat().st_size > 2000
    with pytest.raises(GraphFileError, match=r"\.png or \.svg"):
        report.plot_rule(rule, tmp_path / "rule.txt")
