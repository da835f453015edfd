"""Composite kernels taken apart, so that splitting the batch stays exact."""

from graphwright.capture.decompose import (  # they register what they define
    attention,
    drawing,
    experts,
    losses,
    normalisation,
    pooling,
    strided,
)
from graphwright.capture.decompose.composites import DECOMPOSITIONS, REJOINED
from graphwright.capture.decompose.masking import MaskedAssignment
