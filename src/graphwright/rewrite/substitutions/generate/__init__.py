"""Generation of substitutions: from operators to proved rules (TASO section 2.3)."""

from graphwright.rewrite.substitutions.generate.build import (
    Counts,
    Outcome,
    Proved,
    build,
    candidates,
    keep_proved,
)
from graphwright.rewrite.substitutions.generate.enumerate import Enumeration
from graphwright.rewrite.substitutions.generate.families import (
    FAMILIES,
    IMAGES,
    MATRICES,
    Family,
    Leaf,
)
