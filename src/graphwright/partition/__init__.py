"""Finding plans. So far: the plans that need no search."""

from graphwright.partition.baselines import BASELINES, baseline, data_parallel, layers, replicate
from graphwright.partition.space import random_plan, random_strategy

__all__ = [
    "BASELINES",
    "baseline",
    "data_parallel",
    "layers",
    "random_plan",
    "random_strategy",
    "replicate",
]
