"""Substitutions that nobody wrote by hand: generated, proved and pruned (TASO).

    properties -> validate           axioms, each checked on small shapes over Z3's reals
    generate -> prune -> prove       graphs with equal fingerprints become proved rules
    library                          the rules that come with the package

This door opens without Z3: only validating and generating need it.
"""

from graphwright.rewrite.substitutions.errors import InvalidRule, WrongProperty
from graphwright.rewrite.substitutions.graphs import (
    PARAMETERS,
    Expression,
    Guard,
    Input,
    Substitution,
    Term,
    apply,
    matches,
    operator_of,
    parse,
    subterms,
)
from graphwright.rewrite.substitutions.library import (
    Library,
    Rule,
    load_rules,
    save_rules,
    shipped,
)
