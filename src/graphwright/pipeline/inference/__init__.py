"""Inference: a model as a faster module."""

from graphwright.pipeline.inference.api import (
    Optimized,
    Report,
    ResultsDiffer,
    load_optimized,
    optimize,
)
from graphwright.pipeline.inference.costs import MeasuredPrice, RooflinePrice, clock_of
