"""Laws of the symbolic layer, against plain integers."""

from hypothesis import given
from hypothesis import strategies as st

from graphwright.symbolic import Interval, Poly, Symbol, interval_of

NAMES = ("i", "j", "k")


@st.composite
def expressions(draw, depth=3):
    """A polynomial together with the same function on integers."""
    if depth == 0 or draw(st.booleans()):
        if draw(st.booleans()):
            name = draw(st.sampled_from(NAMES))
            return Poly.of(Symbol(name)), lambda values: values[name]
        number = draw(st.integers(-5, 5))
        return Poly.const(number), lambda values: number
    left, f = draw(expressions(depth=depth - 1))
    kind = draw(st.sampled_from("+-*/%"))
    if kind in "/%":
        d = draw(st.integers(1, 6))
        if kind == "/":
            return left // d, lambda values: f(values) // d
        return left % d, lambda values: f(values) % d
    right, g = draw(expressions(depth=depth - 1))
    match kind:
        case "+":
            return left + right, lambda values: f(values) + g(values)
        case "-":
            return left - right, lambda values: f(values) - g(values)
        case _:
            return left * right, lambda values: f(values) * g(values)


@given(expressions(), st.tuples(*[st.integers(-20, 20)] * 3))
def test_normal_form_keeps_the_value(expression, point):
    poly, function = expression
    values = dict(zip(NAMES, point, strict=True))
    assert poly.evaluate({Symbol(n): v for n, v in values.items()}) == function(values)


@given(expressions(), st.tuples(*[st.integers(-9, 9)] * 3))
def test_substitution_is_evaluation_in_two_steps(expression, point):
    poly, function = expression
    values = dict(zip(NAMES, point, strict=True))
    first = poly.substitute({Symbol("i"): Poly.const(values["i"])})
    assert first.evaluate({Symbol(n): v for n, v in values.items()}) == function(values)


@given(
    st.lists(st.integers(-4, 4), min_size=3, max_size=3),
    st.integers(-9, 9),
    st.lists(st.tuples(st.integers(-6, 6), st.integers(0, 5)), min_size=3, max_size=3),
    st.integers(1, 4),
)
def test_an_interval_is_exact_for_affine_indices(coefficients, constant, ranges, divisor):
    """The ends of the interval are reached, and nothing lies outside."""
    affine = Poly.const(constant)
    for name, c in zip(NAMES, coefficients, strict=True):
        affine = affine + c * Poly.of(Symbol(name))
    bounds = {n: (low, low + length) for n, (low, length) in zip(NAMES, ranges, strict=True)}
    intervals = {Symbol(n): Interval(Poly.const(a), Poly.const(b)) for n, (a, b) in bounds.items()}
    points = [
        {Symbol("i"): i, Symbol("j"): j, Symbol("k"): k}
        for i in bounds["i"]
        for j in bounds["j"]
        for k in bounds["k"]
    ]
    for expression in (affine, affine // divisor):
        found = interval_of(expression, intervals)
        reached = [expression.evaluate(p) for p in points]
        assert (found.low.constant, found.high.constant) == (min(reached), max(reached))
