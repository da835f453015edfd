"""Plans that need no search of their own: the recipes that people use, and the plans of other systems."""

from graphwright.partition.recipes.plain import (
    BASELINES,
    baseline,
    data_parallel,
    layers,
    replicate,
)
from graphwright.partition.recipes.systems import RECIPES, SYSTEMS, other_plan
