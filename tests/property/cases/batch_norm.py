"""Batch normalisation in training and evaluation, and its gradient."""

import torch
from hypothesis import strategies as st

from cases import Call, Draw, case, real, shape, size, some_outputs


def channels(draw: Draw) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
    x = real(draw, size(draw, 2, 4), size(draw, high=4), *shape(draw, 0, 2, high=3))
    weights = [real(draw, x.shape[1]) if draw(st.booleans()) else None for _ in range(2)]
    return x, weights


def running(draw: Draw, x: torch.Tensor) -> list[torch.Tensor | None]:
    return [real(draw, x.shape[1]), real(draw, x.shape[1], low=0.5)]


@case(
    "aten.native_batch_norm",
    "aten._native_batch_norm_legit",
    "aten._native_batch_norm_legit_functional",
)
def batch_norm(draw: Draw) -> Call:
    x, weights = channels(draw)
    return {"training": draw(st.booleans()), "momentum": 0.3, "eps": 1e-3}, [
        x,
        *weights,
        *running(draw, x),
    ]


@case("aten._native_batch_norm_legit.no_stats")
def batch_norm_no_stats(draw: Draw) -> Call:
    x, weights = channels(draw)
    return {"training": True, "momentum": 0.3, "eps": 1e-3}, [x, *weights]


@case("aten._native_batch_norm_legit_no_training")
def batch_norm_no_training(draw: Draw) -> Call:
    x, weights = channels(draw)
    return {"momentum": 0.3, "eps": 1e-3}, [x, *weights, *running(draw, x)]


@case("aten.native_batch_norm_backward")
def batch_norm_backward(draw: Draw) -> Call:
    x, _ = channels(draw)
    train = draw(st.booleans())
    saved = running(draw, x) if train else [real(draw, 0), real(draw, 0)]
    inputs = [real(draw, *x.shape), x, real(draw, x.shape[1]), *running(draw, x), *saved]
    return {"train": train, "eps": 1e-3, "output_mask": some_outputs(draw)}, inputs
