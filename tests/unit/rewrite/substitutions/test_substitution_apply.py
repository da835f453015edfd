"""Finding a source in a graph and putting the target there: sharing, several outputs, cycles."""

from graphwright.rewrite.substitutions.graphs import (
    Input,
    Substitution,
    Term,
    apply,
    matches,
    parse,
)
from graphwright.rewrite.substitutions.values import place

DISTRIBUTE = Substitution(
    (parse("matmul(x, ewadd(y, z))"),), (parse("ewadd(matmul(x, y), matmul(x, z))"),)
)
FUSE = Substitution(
    (parse("matmul(x, y)"), parse("matmul(x, z)")),
    (
        parse("split0(-1, matmul(x, concat(-1, y, z)))"),
        parse("split1(-1, matmul(x, concat(-1, y, z)))"),
    ),
)  # fmt: skip
POOL = Substitution(
    (parse("ewadd(pool_avg(3, 1, same, x), conv(1, same, none, x, w))"),),
    (parse("conv(1, same, none, x, ewadd(C_pool(3), w))"),),
)
GROUPED = Substitution(
    (parse("concat(1, conv(1, same, none, x, y), conv(1, same, none, x, z))"),),
    (parse("conv(1, same, none, x, concat(0, y, z))"),),
)


def texts(graph):
    return [str(output) for output in graph]


def test_a_term_is_replaced_wherever_it_is_used():
    graph = (parse("relu(matmul(a, ewadd(b, c)))"), parse("transpose(matmul(a, ewadd(b, c)))"))
    (match,) = matches(graph, DISTRIBUTE)
    assert texts(apply(graph, match)) == [
        "relu(ewadd(matmul(a, b), matmul(a, c)))",
        "transpose(ewadd(matmul(a, b), matmul(a, c)))",
    ]


def test_an_input_that_occurs_twice_has_to_be_one_tensor():
    square = Substitution((parse("ewmul(x, x)"),), (parse("ewmul(x, x)"),))
    assert not list(matches([parse("ewmul(a, b)")], square))
    assert list(matches([parse("ewmul(relu(a), relu(a))")], square))


def test_outputs_that_lie_apart_are_matched_together():
    graph = (parse("relu(matmul(a, b))"), parse("matmul(a, c)"))
    first, second = matches(graph, FUSE)
    assert {first.binding["y"], second.binding["y"]} == {Input("b"), Input("c")}
    made = apply(graph, first)
    assert isinstance(made[0], Term) and made[0].op == "relu"
    assert {made[0].args[0].args[0], made[1].args[0]} == {parse("matmul(a, concat(-1, b, c))")}


def test_a_match_that_would_make_a_cycle_is_refused():
    """TASO's figure 2.6: a product with what the other product makes."""
    assert not list(matches([parse("matmul(a, relu(matmul(a, b)))")], FUSE))


def test_a_constant_of_the_target_gets_the_shape_that_fits():
    given = {Input("a"): (2, 5, 6, 6), Input("w"): (5, 1, 3, 3)}
    graph = (parse("ewadd(pool_avg(3, 1, same, a), conv(1, same, none, a, w))"),)
    (match,) = matches(graph, POOL)
    assert place(match, given)[parse("C_pool(3)")] == (5, 1, 3, 3)
    assert place(match, {**given, Input("w"): (5, 5, 3, 3)}) is None  # not depth-wise


def test_a_guard_is_checked_where_the_source_matches():
    graph = (parse("concat(1, conv(1, same, none, a, v), conv(1, same, none, a, w))"),)
    (match,) = matches(graph, GROUPED)
    given = {Input("a"): (1, 4, 5, 5), Input("v"): (4, 2, 3, 3), Input("w"): (4, 2, 3, 3)}
    assert place(match, given) is not None  # it fits, but says something else
    guarded = Substitution(
        GROUPED.source, GROUPED.target, tuple(map(_guard, ("ungrouped(x, y)", "ungrouped(x, z)")))
    )
    (match,) = matches(graph, guarded)
    assert place(match, given) is None
    assert place(match, {**given, Input("v"): (4, 4, 3, 3), Input("w"): (2, 4, 3, 3)}) is not None


def _guard(text):
    from graphwright.rewrite.substitutions.graphs import parse_guard

    return parse_guard(text)
