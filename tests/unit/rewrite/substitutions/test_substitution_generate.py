"""Generation: every graph, its fingerprint, pruning, proofs; wrong axioms are found out."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from graphwright.rewrite.substitutions.derive import Derivations
from graphwright.rewrite.substitutions.errors import WrongProperty
from graphwright.rewrite.substitutions.generate import (
    IMAGES,
    MATRICES,
    Counts,
    Enumeration,
    Outcome,
    build,
    candidates,
    keep_proved,
)
from graphwright.rewrite.substitutions.graphs import (
    Substitution,
    Term,
    parse,
    parse_equation,
    program_of,
    size_of,
    sizes_of,
)
from graphwright.rewrite.substitutions.properties import OWN_PROPERTIES, PROPERTIES, Property
from graphwright.rewrite.substitutions.prove import Prover
from graphwright.rewrite.substitutions.prune import prune_common, prune_renamed
from graphwright.rewrite.substitutions.values import RESIDUES, evaluate, random_values, shapes_of
from graphwright.symbolic.prove import Verdict

TINY = replace(
    MATRICES,
    leaves=tuple(leaf for leaf in MATRICES.leaves if str(leaf.expression) in ("x0", "x1")),
    operators=("ewadd", "matmul", "transpose", "concat"),
)


def substitution(text):
    left, right = parse_equation(text)
    return Substitution((left,), (right,))


def every_term(family, size):
    """All terms of up to so many operators, by recursion over everything there is."""
    given = {leaf.expression: leaf.shape for leaf in family.leaves}
    known = dict(given)
    for _ in range(size):
        for op, params, kinds in family.calls():
            for args in product(list(known), repeat=len(kinds)):
                term = Term(op, params, args)
                if size_of(term) <= size and term not in known:
                    program = program_of(op, params, [known[a] for a in args])
                    if program is not None:
                        known[term] = program.shape
    return given, known


def test_the_enumeration_misses_no_value_that_brute_force_finds():
    given, terms = every_term(TINY, 2)
    values = random_values(given, np.random.default_rng(5))
    shapes = shapes_of(list(terms), given)
    found = evaluate(list(terms), values, shapes, RESIDUES)
    distinct = {(sizes_of(shapes[t]), v.tobytes()) for t, v in zip(terms, found, strict=True)}
    run = Enumeration(TINY, 3)
    run.run(3)
    inside = [c.expression for c in run.classes]  # sizes 0 to 2, with their histories
    again = evaluate(inside, values, shapes_of(inside, given), RESIDUES)
    classes = {(v.shape, v.tobytes()) for v in again}
    assert classes == distinct


def test_what_has_one_fingerprint_is_equal():
    run = Enumeration(TINY, 3)
    run.run(2)
    given = {leaf.expression: leaf.shape for leaf in TINY.leaves}
    values = random_values(given, np.random.default_rng(11))
    assert len(run.others) > 10
    for a, b in run.others:
        left, right = evaluate([a, b], values, shapes_of([a, b], given), RESIDUES)
        np.testing.assert_array_equal(left, right)


def test_associativity_of_matmul_is_found():
    """TASO's figure 2.2a."""
    found = {str(item.canonical()) for item in candidates(MATRICES, 2, Counts())}
    assert "matmul(matmul(x0, x1), x2) -> matmul(x0, matmul(x1, x2))" in found


# -- pruning: TASO's figure 2.4 ------------------------------------------------------------------


def test_the_most_general_naming_of_inputs_stays():
    general = substitution("matmul(matmul(a, b), c) = matmul(a, matmul(b, c))")
    renamed = substitution("matmul(matmul(p, q), r) = matmul(p, matmul(q, r))")
    special = substitution("matmul(matmul(a, b), a) = matmul(a, matmul(b, a))")
    assert prune_renamed([special, general, renamed]) == [general]
    assert prune_renamed([special]) == [special]


def test_a_common_argument_becomes_an_input():
    item = substitution("matmul(matmul(a, b), relu(c)) = matmul(a, matmul(b, relu(c)))")
    asked = []

    def valid(a, b, place):
        asked.append((str(a), str(b), str(place)))
        return True

    assert prune_common([item], valid) == []
    assert asked == [("matmul(matmul(a, b), fresh)", "matmul(a, matmul(b, fresh))", "relu(c)")]
    assert prune_common([item], lambda a, b, place: False) == [item]


def test_a_common_ending_is_removed():
    item = substitution("ewadd(matmul(matmul(a, b), c), d) = ewadd(matmul(a, matmul(b, c)), d)")
    assert prune_common([item], lambda a, b, place: place is None) == []


def test_what_follows_in_steps_that_never_grow_is_left_out():
    known = Derivations()
    known.add(substitution("ewadd(x, y) = ewadd(y, x)"))
    known.add(substitution("relu(transpose(x)) = transpose(relu(x))"))
    assert known.derive(substitution("ewadd(relu(transpose(a)), b) = ewadd(b, transpose(relu(a)))"))
    assert not known.derive(substitution("ewmul(a, b) = ewmul(b, a)"))


# -- proofs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "matmul(x, y) = matmul(y, x)",
        "matmul(x, ewmul(y, z)) = ewmul(matmul(x, y), z)",
        "relu(ewadd(x, y)) = ewadd(relu(x), relu(y))",
        "conv(1, same, relu, ewadd(x, y), z) = ewadd(conv(1, same, relu, x, z), conv(1, same, relu, y, z))",
        "pool_max(3, 1, same, ewadd(x, y)) = ewadd(pool_max(3, 1, same, x), pool_max(3, 1, same, y))",
        "conv(2, same, none, x, I_conv(3)) = x",
        "x = y",
    ],
)
def test_wrong_substitutions_are_not_proved(text):
    item = substitution(text)
    proof, _ = Prover().prove(item.source, item.target)
    assert proof.verdict is Verdict.UNKNOWN


def test_a_guard_of_an_axiom_becomes_a_guard_of_the_substitution():
    item = substitution(
        "concat(1, conv(1, same, none, x, y), conv(1, same, none, x, z)) = conv(1, same, none, x, concat(0, y, z))"
    )
    proof, guards = Prover().prove(item.source, item.target)
    assert proof.verdict is Verdict.PROVED
    assert {str(guard) for guard in guards} == {"ungrouped(x, y)", "ungrouped(x, z)"}


def test_an_axiom_that_is_wrong_is_found_out():
    """What it proves differs on residues, with shapes drawn anew."""
    item = substitution("matmul(x, y) = matmul(y, x)")
    wrong = Property("matmul(x, y) = matmul(y, x)", "wrong")
    prover = Prover(properties=(*PROPERTIES, *OWN_PROPERTIES, wrong))
    with pytest.raises(WrongProperty, match="its sides differ for"):
        keep_proved([item], Outcome(), prover)


def test_what_is_not_proved_is_not_kept():
    outcome = Outcome()
    wrong = substitution("matmul(x, y) = matmul(y, x)")
    true_but_unproved = substitution("relu(relu(relu(x))) = relu(relu(relu(x)))")
    right = substitution("ewadd(x, y) = ewadd(y, x)")
    keep_proved([wrong, right, true_but_unproved], outcome, Prover())
    assert [item.substitution for item in outcome.proved] == [right]
    assert outcome.counts.special == 1


def test_building_is_the_same_every_time_and_goes_on_from_known_proofs():
    small = replace(IMAGES, operators=("ewadd", "relu", "conv", "concat"))
    told = []
    first = build(1, (TINY, small), Prover(record=lambda key, proof: told.append((key, proof))))
    again = build(1, (TINY, small), Prover(known=dict(told), properties=()))
    assert first.counts == again.counts
    assert [p.substitution for p in first.proved] == [p.substitution for p in again.proved]
    assert first.counts.proved == len(first.proved) > 0
    assert str(parse("ewadd(x0, x1)")) in {str(p.substitution.source[0]) for p in first.proved}
