"""Validation of operator properties by symbolic execution of descriptions over Z3's reals."""

from graphwright.rewrite.substitutions.validate.instances import (
    SECONDS,
    Instance,
    instances,
    instances_of,
    require_instance,
    require_valid,
)
from graphwright.rewrite.substitutions.validate.reals import REALS, check
