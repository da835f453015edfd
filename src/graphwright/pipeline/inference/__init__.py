"""Inference: a model as a faster module."""

from graphwright.pipeline.inference.api import (
    Optimized,
    Report,
    ResultsDiffer,
    load_optimized,
    module_of,
    optimize,
)
from graphwright.pipeline.inference.costs import (
    MeasuredPrice,
    RooflinePrice,
    clock_of,
    measured_prices,
)
