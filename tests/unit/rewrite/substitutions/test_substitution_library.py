"""The library that is shipped: proved, guarded, and read back as it was written."""

import json

import pytest

from graphwright.rewrite.substitutions import InvalidRule, load_rules, save_rules, shipped
from graphwright.rewrite.substitutions.generate.__main__ import resuming
from graphwright.rewrite.substitutions.graphs import Substitution, apply, matches, parse
from graphwright.rewrite.substitutions.library import RULES
from graphwright.rewrite.substitutions.properties import OWN_PROPERTIES, PROPERTIES
from graphwright.rewrite.substitutions.prove import Prover
from graphwright.symbolic.prove import Verdict

GUARDED = [item.equation for item in PROPERTIES if item.when]


def test_every_rule_names_axioms_that_there_are():
    known = {item.equation for item in (*PROPERTIES, *OWN_PROPERTIES)}
    assert len(shipped()) > 500
    for rule in shipped().rules:
        assert {*rule.axioms} <= known and rule.axioms, rule
        assert rule.effort > 0


def test_rules_that_need_a_guarded_axiom_have_a_guard():
    guarded = [rule for rule in shipped().rules if {*rule.axioms} & {*GUARDED}]
    assert len(guarded) > 10
    assert all(rule.substitution.guards for rule in guarded)
    assert all({*rule.axioms} & {*GUARDED} for rule in shipped().rules if rule.substitution.guards)


def test_proofs_can_be_made_again():
    """For some of them: the same axioms, guards and steps."""
    prover = Prover()
    for rule in shipped().rules[::60]:
        proof, guards = prover.prove(rule.substitution.source, rule.substitution.target)
        assert proof.verdict is Verdict.PROVED
        assert (proof.axioms, proof.effort) == (rule.axioms, rule.effort)
        assert guards == rule.substitution.guards


def test_counts_add_up():
    counts = shipped().counts
    assert counts["proved"] == len(shipped())
    assert counts["initial"] > counts["renamed"] > counts["common"] > counts["proved"]
    left = ("coincidences", "derived", "special", "unknown", "proved")
    both = counts["common"] - sum(counts[name] for name in left)
    assert both >= 0  # what both families have is counted in each of them, and kept once


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (["matmul(x, y)", "matmul(x, z)"], "matmul(x, concat(-1, y, z))"),
        (["conv(1, same, relu, x, y)", "conv(1, same, relu, x, z)"], "conv(1, same, relu, x, concat(0, y, z))"),
        (["ewadd(pool_avg(3, 1, same, x), conv(1, same, none, x, w))"], "conv(1, same, none, x, ewadd("),
        (["concat(1, conv(1, same, none, x, y), conv(1, same, none, x, z))"], "conv(1, same, none, x, concat(0, y, z))"),
        (["relu(conv(2, valid, none, x, y))"], "conv(2, valid, relu, x, y)"),
        (["matmul(matmul(x, y), z)"], "matmul(x, matmul(y, z))"),
    ],
)  # fmt: skip
def test_the_cases_of_the_paper_are_reached(source, target):
    """By one rule, or by two: an average pooling becomes a convolution before it is added to one."""
    graphs = [tuple(parse(text) for text in source)]
    for _ in range(2):
        graphs = [changed for graph in graphs for changed in neighbours(graph)]
        if any(target in str(output) for graph in graphs for output in graph):
            return
    raise AssertionError(f"{target} is not among {len(graphs)} graphs")


def neighbours(graph):
    for rule in shipped().rules:
        item = rule.substitution
        for each in (item, item.reversed()) if item.is_reversible else (item,):
            yield from (apply(graph, match) for match in matches(graph, each))


def test_a_library_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "rules.json"
    save_rules(shipped(), path)
    assert path.read_text() == RULES.read_text()
    assert load_rules(path) == shipped()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: text[: len(text) // 2], "cannot read substitutions"),
        (lambda text: "[]", "no table at its top"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "no file of substitutions of version 1"),
        (lambda text: text.replace("ewadd(x0, x1)", "ewadd(x0, x1", 1), r"rules\[\d+\]"),
        (lambda text: text.replace('"by": [', '"by": [99999, ', 1), r"rules\[\d+\]"),
        (lambda text: text.replace('"rules"', '"ruled"'), "KeyError"),
        (lambda text: text.replace('"target": ["', '"target": ["ewadd(x9, x9)", "', 1), "do not fit"),
    ],
)  # fmt: skip
def test_damaged_libraries_are_refused(tmp_path, damage, said):
    path = tmp_path / "rules.json"
    path.write_text(damage(RULES.read_text()))
    with pytest.raises(InvalidRule, match=said):
        load_rules(path)


def test_a_missing_library_is_refused(tmp_path):
    with pytest.raises(InvalidRule, match="cannot read substitutions"):
        load_rules(tmp_path / "none.json")


def test_proofs_are_resumed_from_a_file_even_if_its_last_line_is_cut(tmp_path):
    path = tmp_path / "proofs.jsonl"
    item = Substitution((parse("ewadd(x, y)"),), (parse("ewadd(y, x)"),))
    made = resuming(path).prove(item.source, item.target)
    path.write_text(path.read_text() + '["half of a li')
    again = resuming(path)
    assert again.prove(item.source, item.target) == made
    assert len(json.loads(path.read_text().splitlines()[0])) == 2
