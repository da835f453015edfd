"""Values of terms over numbers of any kind, and shapes under which terms have values."""

from graphwright.rewrite.substitutions.values.draw import counterexamples, draw_shapes
from graphwright.rewrite.substitutions.values.evaluate import (
    PRIME,
    RESIDUES,
    constant_value,
    evaluate,
    random_values,
    run_program,
)
from graphwright.rewrite.substitutions.values.placing import place, suggested_shapes
from graphwright.rewrite.substitutions.values.shapes import (
    RANKS,
    Given,
    fits,
    have_shapes,
    holds,
    holds_for,
    is_possible,
    kinds_of,
    shapes_of,
)
