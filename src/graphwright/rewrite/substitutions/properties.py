"""Operator properties: the axioms of every proof (TASO table 2.2).

A property is an equation that holds for all tensors and parameters for which both sides have a
shape, and under its preconditions. Letters mean what they mean in the table: w, x, y, z are
tensors, s strides, p paddings, c activations, k kernel sizes, a an axis. Rows and columns of
matrices are the axes -2 and -1 here, so that the properties hold for batches of matrices as well.

Two of the published properties are wrong as they stand. A convolution's groups follow from shapes:
channels of the data / depth of the weight. If weights have groups, then

    concat(1, conv(x, y), conv(x, z)) = conv(x, concat(0, y, z))
    conv(concat(1, x, z), concat(1, y, w)) = ewadd(conv(x, y), conv(z, w))

pair other channels on either side. `ungrouped(x, y)` is the precondition: y is as deep as x has
channels. A substitution whose proof needs a precondition has it as its guard.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from graphwright.rewrite.substitutions.graphs import (
    PARAMETERS,
    Expression,
    Guard,
    Input,
    Param,
    Term,
    parse_equation,
    parse_guard,
    subterms,
)

DOMAINS: dict[str, tuple[Param, ...]] = {
    "stride": (1, 2),
    "padding": ("same", "valid"),
    "activation": ("none", "relu"),
    "kernel": (1, 2, 3),
    "axis": (-2, -1, 0, 1, 2, 3),
}
"""The values of every parameter that properties are validated for."""


@dataclass(frozen=True)
class Property:
    """An equation for all tensors and parameters that fit, under the guards `when`."""

    equation: str
    comment: str
    when: tuple[str, ...] = ()
    published: bool = True

    @cached_property
    def sides(self) -> tuple[Expression, Expression]:
        """Both sides."""
        return parse_equation(self.equation)

    @cached_property
    def guards(self) -> tuple[Guard, ...]:
        """The preconditions."""
        return tuple(map(parse_guard, self.when))

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The tensor variables."""
        return tuple(dict.fromkeys(e.name for e in subterms(*self.sides) if isinstance(e, Input)))

    @cached_property
    def parameters(self) -> dict[Param, str]:
        """The parameters that are variables, and the kind of each."""
        return {
            value: kind
            for e in subterms(*self.sides)
            if isinstance(e, Term)
            for value, kind in zip(e.params, PARAMETERS[e.op], strict=True)
            if isinstance(value, str) and value not in DOMAINS[kind]
        }


def _same(comment: str, *equations: str) -> list[Property]:
    return [Property(equation, comment) for equation in equations]


PROPERTIES: tuple[Property, ...] = (
    Property("ewadd(x, ewadd(y, z)) = ewadd(ewadd(x, y), z)", "ewadd is associative"),
    Property("ewadd(x, y) = ewadd(y, x)", "ewadd is commutative"),
    Property("ewmul(x, ewmul(y, z)) = ewmul(ewmul(x, y), z)", "ewmul is associative"),
    Property("ewmul(x, y) = ewmul(y, x)", "ewmul is commutative"),
    Property("ewmul(ewadd(x, y), z) = ewadd(ewmul(x, z), ewmul(y, z))", "distributivity"),
    Property("smul(smul(x, y), w) = smul(x, smul(y, w))", "smul is associative"),
    Property("smul(ewadd(x, y), w) = ewadd(smul(x, w), smul(y, w))", "distributivity"),
    Property("smul(ewmul(x, y), w) = ewmul(x, smul(y, w))", "operator commutativity"),
    # transpose
    Property("transpose(transpose(x)) = x", "transpose is its inverse"),
    *_same(
        "operator commutativity",
        "transpose(ewadd(x, y)) = ewadd(transpose(x), transpose(y))",
        "transpose(ewmul(x, y)) = ewmul(transpose(x), transpose(y))",
        "smul(transpose(x), w) = transpose(smul(x, w))",
    ),
    # matmul
    Property("matmul(x, matmul(y, z)) = matmul(matmul(x, y), z)", "matmul is associative"),
    *_same(
        "matmul is linear",
        "smul(matmul(x, y), w) = matmul(x, smul(y, w))",
        "matmul(x, ewadd(y, z)) = ewadd(matmul(x, y), matmul(x, z))",
    ),
    Property(
        "transpose(matmul(x, y)) = matmul(transpose(y), transpose(x))", "matmul and transpose"
    ),
    # conv
    *_same(
        "conv is bilinear",
        "conv(s, p, c, smul(x, w), y) = conv(s, p, c, x, smul(y, w))",
        "smul(conv(s, p, none, x, y), w) = conv(s, p, none, smul(x, w), y)",
        "conv(s, p, none, x, ewadd(y, z)) = ewadd(conv(s, p, none, x, y), conv(s, p, none, x, z))",
        "conv(s, p, none, ewadd(x, y), z) = ewadd(conv(s, p, none, x, z), conv(s, p, none, y, z))",
    ),
    Property("conv(s, same, c, x, y) = conv(s, same, c, x, enlarge(k, y))", "enlarge kernel"),
    Property("conv(s, p, relu, x, y) = relu(conv(s, p, none, x, y))", "conv with relu"),
    Property("relu(transpose(x)) = transpose(relu(x))", "operator commutativity"),
    # constants
    Property("conv(s, p, none, x, C_pool(k)) = pool_avg(k, s, p, x)", "pooling by conv"),
    Property("conv(1, same, none, x, I_conv(k)) = x", "identity kernel"),
    Property("matmul(x, I_matmul()) = x", "identity matrix"),
    Property("ewmul(x, I_ewmul()) = x", "ewmul identity"),
    # concat and split
    *_same("split definition", "split0(a, concat(a, x, y)) = x", "split1(a, concat(a, x, y)) = y"),
    Property(
        "concat(0, concat(1, x, y), concat(1, z, w)) = concat(1, concat(0, x, z), concat(0, y, w))",
        "geometry of concat",
    ),
    *_same(
        "operator commutativity",
        "concat(a, smul(x, w), smul(y, w)) = smul(concat(a, x, y), w)",
        "concat(a, ewadd(x, y), ewadd(z, w)) = ewadd(concat(a, x, z), concat(a, y, w))",
        "concat(a, ewmul(x, y), ewmul(z, w)) = ewmul(concat(a, x, z), concat(a, y, w))",
        "concat(a, relu(x), relu(y)) = relu(concat(a, x, y))",
    ),
    Property(
        "concat(-1, transpose(x), transpose(y)) = transpose(concat(-2, x, y))",
        "concat and transpose",
    ),
    *_same(
        "concat and matmul",
        "concat(-1, matmul(x, y), matmul(x, z)) = matmul(x, concat(-1, y, z))",
        "matmul(concat(-1, x, z), concat(-2, y, w)) = ewadd(matmul(x, y), matmul(z, w))",
    ),
    Property(
        "concat(0, conv(s, p, c, x, z), conv(s, p, c, y, z)) = conv(s, p, c, concat(0, x, y), z)",
        "concat and conv",
    ),
    Property(
        "concat(1, conv(s, p, c, x, y), conv(s, p, c, x, z)) = conv(s, p, c, x, concat(0, y, z))",
        "concat and conv",
        when=("ungrouped(x, y)", "ungrouped(x, z)"),
    ),
    Property(
        "conv(s, p, none, concat(1, x, z), concat(1, y, w))"
        " = ewadd(conv(s, p, none, x, y), conv(s, p, none, z, w))",
        "concat and conv",
        when=("ungrouped(x, y)", "ungrouped(z, w)"),
    ),
    *_same(
        "concat and pooling",
        "concat(1, pool_avg(k, s, p, x), pool_avg(k, s, p, y))"
        " = pool_avg(k, s, p, concat(1, x, y))",
        "concat(0, pool_max(k, s, p, x), pool_max(k, s, p, y))"
        " = pool_max(k, s, p, concat(0, x, y))",
        "concat(1, pool_max(k, s, p, x), pool_max(k, s, p, y))"
        " = pool_max(k, s, p, concat(1, x, y))",
    ),
)
"""The 43 of the table, in its order."""

OWN_PROPERTIES: tuple[Property, ...] = tuple(
    Property(equation, comment, published=False)
    for comment, equation in (
        (
            "geometry of concat, for matrices",
            "concat(-2, concat(-1, x, y), concat(-1, z, w))"
            " = concat(-1, concat(-2, x, z), concat(-2, y, w))",
        ),
        ("concat is associative", "concat(a, x, concat(a, y, z)) = concat(a, concat(a, x, y), z)"),
        ("matmul is linear", "matmul(ewadd(x, y), z) = ewadd(matmul(x, z), matmul(y, z))"),
        ("matmul is linear", "smul(matmul(x, y), w) = matmul(smul(x, w), y)"),
        (
            "concat and matmul",
            "concat(-2, matmul(x, z), matmul(y, z)) = matmul(concat(-2, x, y), z)",
        ),
        (
            "concat and transpose",
            "concat(-2, transpose(x), transpose(y)) = transpose(concat(-1, x, y))",
        ),
        ("identity matrix", "matmul(I_matmul(), x) = x"),
        ("identity matrix", "transpose(I_matmul()) = I_matmul()"),
        ("enlarge is linear", "enlarge(k, ewadd(x, y)) = ewadd(enlarge(k, x), enlarge(k, y))"),
        ("enlarge is linear", "smul(enlarge(k, x), w) = enlarge(k, smul(x, w))"),
        (
            "concat and enlarge",
            "concat(0, enlarge(k, x), enlarge(k, y)) = enlarge(k, concat(0, x, y))",
        ),
        (
            "concat and enlarge",
            "concat(1, enlarge(k, x), enlarge(k, y)) = enlarge(k, concat(1, x, y))",
        ),
        ("smul commutes with itself", "smul(smul(x, y), w) = smul(smul(x, w), y)"),
    )
)
"""What the table lacks, or implies by a step that Z3 does not take: validated alike."""

GROUPED_PROPERTIES: tuple[Property, ...] = (
    Property(
        "concat(1, conv(s, p, none, x, y), conv(s, p, none, z, w))"
        " = conv(s, p, none, concat(1, x, z), concat(0, y, w))",
        "convolutions side by side are groups of one",
        when=("alike(x, y, z, w)",),
        published=False,
    ),
)
"""Validated as the others are, and used as rules themselves: no proof is made from them."""
