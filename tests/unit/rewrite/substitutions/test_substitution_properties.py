"""Operator properties: validated by symbolic execution; wrong ones show a counter-example."""

import pytest

from graphwright.rewrite.substitutions.errors import InvalidRule, WrongProperty
from graphwright.rewrite.substitutions.graphs import Input, Substitution, substitute
from graphwright.rewrite.substitutions.properties import (
    GROUPED_PROPERTIES,
    OWN_PROPERTIES,
    PROPERTIES,
    Property,
)
from graphwright.rewrite.substitutions.prove import Prover, redundant
from graphwright.rewrite.substitutions.validate import check, instances, require_valid
from graphwright.rewrite.substitutions.values import have_shapes
from graphwright.symbolic.prove import Verdict

EVERY = (*PROPERTIES, *OWN_PROPERTIES, *GROUPED_PROPERTIES)
GUARDED = [item for item in PROPERTIES if item.when]


def test_the_table_has_43_properties():
    assert len(PROPERTIES) == 43
    assert len({item.equation for item in EVERY}) == len(EVERY)


@pytest.mark.parametrize("item", EVERY, ids=lambda item: item.equation)
def test_a_property_holds_on_small_shapes(item):
    """Some shapes of every choice of parameters; `make validate-axioms` takes all of them."""
    assert require_valid(item, bound=2, limit=4) > 0


@pytest.mark.slow
@pytest.mark.parametrize("item", EVERY, ids=lambda item: item.equation)
def test_a_property_holds_on_all_shapes_up_to_two(item):
    assert require_valid(item, bound=2) > 0


def test_kernels_of_three_are_validated_too():
    pools = next(item for item in PROPERTIES if "C_pool" in item.equation)
    assert require_valid(pools, bound=3, limit=2) > 12


@pytest.mark.parametrize("item", GUARDED, ids=lambda item: item.equation)
def test_the_published_form_is_wrong_for_grouped_convolutions(item):
    """Without its guard, validation finds two channels in two groups: nothing smaller has groups."""
    published = Property(item.equation, item.comment)
    with pytest.raises(WrongProperty, match="does not hold") as caught:
        require_valid(published, bound=2)
    said = str(caught.value)
    assert "x: [1, 2, 1, 1]" in said and "y: [2, 1, 1, 1]" in said
    smaller = [i for i in instances(published, bound=2) if i.elements < _elements(said)]
    assert not any("[1, 2, 1, 1]" in str(i) and "[2, 1, 1, 1]" in str(i) for i in smaller)


def _elements(said: str) -> int:
    """Of all the shapes in a message."""
    import math
    import re

    return sum(math.prod(map(int, s.split(","))) for s in re.findall(r": \[([\d, ]+)\]", said))


@pytest.mark.parametrize(
    "equation",
    [
        "conv(s, p, c, ewadd(x, y), z) = ewadd(conv(s, p, c, x, z), conv(s, p, c, y, z))",
        "relu(ewadd(x, y)) = ewadd(relu(x), relu(y))",
        "matmul(matmul(x, y), x) = matmul(x, matmul(x, y))",
        "concat(a, x, y) = concat(a, y, x)",
        "split0(a, concat(a, x, y)) = y",
        "conv(s, valid, none, x, C_pool(k)) = pool_max(k, s, valid, x)",
        "pool_avg(3, 1, same, pool_avg(3, 1, same, x)) = pool_avg(3, 1, same, x)",
    ],
)
def test_wrong_properties_are_refused(equation):
    with pytest.raises(WrongProperty, match="one side is"):
        require_valid(Property(equation, ""), bound=3, limit=20)


@pytest.mark.parametrize(
    "equation",
    [
        "matmul(x, y) = matmul(y, x)",
        "conv(2, same, none, x, I_conv(k)) = x",
        "conv(s, same, c, x, y) = conv(s, valid, c, x, y)",
    ],
)
def test_sides_of_different_shapes_refute_a_property(equation):
    """Wherever the shapes agree the values do, but a proof would use it anywhere."""
    with pytest.raises(WrongProperty, match="different shapes"):
        require_valid(Property(equation, ""), bound=3, limit=20)


def test_relu_is_the_maximum_with_zero_not_any_function():
    """Exact semantics proves what uninterpreted functions could not."""
    assert require_valid(Property("relu(relu(x)) = relu(x)", ""), bound=2, limit=5) > 0


def test_a_property_that_cannot_be_read_is_refused():
    with pytest.raises(InvalidRule, match="not an equation"):
        _ = Property("ewadd(x, y)", "").sides
    with pytest.raises(InvalidRule, match="is no guard"):
        _ = Property("relu(x) = relu(x)", "", when=("positive(x, y)",)).guards


def test_the_properties_are_consistent():
    """If two tensors were equal whatever they are, everything would be proved."""
    from graphwright.rewrite.substitutions.graphs import parse

    proof, _ = Prover().prove([parse("x")], [parse("y")])
    assert proof.verdict is Verdict.UNKNOWN


def test_no_property_follows_from_the_others():
    implied = Property("ewadd(ewadd(x, y), z) = ewadd(z, ewadd(y, x))", "implied")
    assert redundant((*PROPERTIES, implied)) == [implied]


def test_groups_of_different_sizes_do_not_go_side_by_side():
    """The guard: with one output beside three, an output would read its neighbour's channel."""
    (item,) = GROUPED_PROPERTIES
    sides = tuple(substitute(side, {}, {"s": 1, "p": "valid"}) for side in item.sides)
    guarded = Substitution(sides[:1], sides[1:], item.guards)
    image, kernel = (1, 1, 1, 1), (3, 1, 1, 1)
    given = dict(zip(map(Input, "xyzw"), (image, image, image, kernel), strict=True))
    assert have_shapes(Substitution(sides[:1], sides[1:]), given)
    assert not have_shapes(guarded, given)
    assert check(guarded, given, seconds=60).verdict is Verdict.REFUTED
