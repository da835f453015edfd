"""Substitutions that nobody wrote by hand: generated, proved and pruned (TASO).

    properties -> validate           axioms, each checked on small shapes over Z3's reals
    generate -> prune -> prove       graphs with equal fingerprints become proved rules
    library                          the rules that come with the package

This door opens without Z3: only validating and generating need it.
"""

from graphwright.rewrite.substitutions.errors import InvalidRule, WrongProperty
from graphwright.rewrite.substitutions.graphs import (
    CONSTANTS,
    PARAMETERS,
    Call,
    Expression,
    Guard,
    Input,
    Shape,
    Substitution,
    Term,
    apply,
    inputs_of,
    is_operator,
    leaves_of,
    matches,
    operator_of,
    parse,
    program_of,
    sizes_of,
    subterms,
)
from graphwright.rewrite.substitutions.library import (
    Library,
    Rule,
    every_rule,
    load_rules,
    save_rules,
    shipped,
)
from graphwright.rewrite.substitutions.models import constant_calls
from graphwright.rewrite.substitutions.values import holds_for, suggested_shapes
