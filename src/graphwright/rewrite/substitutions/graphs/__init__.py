"""Graphs of substitutions: terms, what their operators are, and replacing one graph by another."""

from graphwright.rewrite.substitutions.graphs.apply import Match, apply, bind, matches
from graphwright.rewrite.substitutions.graphs.operators import (
    Call,
    Program,
    Shape,
    program_of,
    shape_of,
    sizes_of,
)
from graphwright.rewrite.substitutions.graphs.substitution import (
    Side,
    Substitution,
    leaves_of,
    oriented,
)
from graphwright.rewrite.substitutions.graphs.terms import (
    CONSTANTS,
    PARAMETERS,
    Expression,
    Guard,
    Input,
    Param,
    Term,
    inputs_of,
    is_operator,
    operator_of,
    parse,
    parse_equation,
    parse_guard,
    rename_inputs,
    size_of,
    substitute,
    subterms,
)
