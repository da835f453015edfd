"""Recipes of the models over dense and sparse features: DLRM and Candle Uno.

FlexFlow's own DLRM experiment has 256 samples per GPU; for Uno the 64 of its section 3.7.1 are
taken.
"""

from collections.abc import Sequence
from functools import partial

import torch

from graphwright.zoo.recipe import MOMENTUM, MakeBatch, Recipe, sgd
from graphwright.zoo.recommendation import (
    CRITEO_DENSE,
    CRITEO_TABLES,
    DLRM,
    UNO_FEATURES,
    CandleUno,
)
from graphwright.zoo.workload import Batch, RandomTensors, click_prediction, regression


def dense_and_sparse(dense: int, tables: Sequence[int]) -> MakeBatch:
    """Dense features, a row number of every table, and whether there was a click."""

    def make(batch_size: int, draw: RandomTensors) -> Batch:
        features = draw.floats(batch_size, dense)
        rows = torch.stack([draw.integers(size, batch_size) for size in tables], dim=1)
        return (features, rows), draw.integers(2, batch_size).to(features.dtype)

    return make


def feature_vectors(sizes: Sequence[int]) -> MakeBatch:
    """One vector per kind of feature, and a score between 0 and 1."""

    def make(batch_size: int, draw: RandomTensors) -> Batch:
        features = tuple(draw.floats(batch_size, size) for size in sizes)
        return features, draw.floats(batch_size).sigmoid()

    return make


def dlrm() -> Recipe:
    tables = (3, 5, 4)
    bottom, top = (CRITEO_DENSE, 512, 512, 64), (1024, 1024, 1024, 1)
    return Recipe(
        name="dlrm",
        source="FlexFlow, section 3.7.3; Naumov et al. 2019",
        batch_size=256,
        description="click prediction: 26 embedding tables of 64, two perceptrons",
        full=(
            partial(DLRM, tables=CRITEO_TABLES, size=64, bottom=bottom, top=top),
            dense_and_sparse(CRITEO_DENSE, CRITEO_TABLES),
        ),
        small=(
            partial(DLRM, tables=tables, size=4, bottom=(5, 8, 4), top=(8, 8, 1)),
            dense_and_sparse(5, tables),
        ),
        loss_fn=click_prediction,
        optimizer=sgd(0.1),
    )


def sized_dlrm(num_tables: int, rows: int, width: int) -> Recipe:
    """Equal tables and smaller perceptrons, trained with momentum, which needs dense gradients."""
    tables = (rows,) * num_tables
    build = partial(
        DLRM, tables=tables, size=width, bottom=(CRITEO_DENSE, 256, width), top=(512, 1)
    )
    variant = build, dense_and_sparse(CRITEO_DENSE, tables)
    return Recipe(
        name=f"dlrm-{num_tables}-{rows}",
        family="dlrm",
        source="by sizes",
        batch_size=256,
        description=f"click prediction: {num_tables} embedding tables of {rows:,} x {width}",
        full=variant,
        small=variant,
        loss_fn=click_prediction,
        optimizer=MOMENTUM,
    )


def candle_uno() -> Recipe:
    few = (5, 7, 6)
    return Recipe(
        name="candle-uno",
        source="FlexFlow, section 3.7.3",
        batch_size=64,
        description="drug response: three bottom perceptrons of 1000 and one on top",
        full=(partial(CandleUno, features=UNO_FEATURES, size=1000), feature_vectors(UNO_FEATURES)),
        small=(partial(CandleUno, features=few, size=8), feature_vectors(few)),
        loss_fn=regression,
        optimizer=sgd(0.01),
    )
