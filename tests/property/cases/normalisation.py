"""Softmax and normalisations, with and without weights, in training and evaluation."""

import torch
from hypothesis import strategies as st

from cases import Call, Draw, case, last_or_some_dim, real, shape, size, some_outputs
from graphwright.aten.invoke import call_kernel


def maybe(draw: Draw, *dims: int) -> torch.Tensor | None:
    return real(draw, *dims) if draw(st.booleans()) else None


@case("aten._softmax", "aten._log_softmax")
def softmax(draw: Draw) -> Call:
    dims = shape(draw, 0, 4, high=5)
    return {"dim": last_or_some_dim(draw, len(dims)), "half_to_float": False}, [real(draw, *dims)]


@case("aten._safe_softmax")
def safe_softmax(draw: Draw) -> Call:
    attrs, (x,) = softmax(draw)
    assert x is not None
    x[real(draw, *x.shape) > 0] = float("-inf")
    return {"dim": attrs["dim"]}, [x]


@case("aten._softmax_backward_data", "aten._log_softmax_backward_data")
def softmax_backward(draw: Draw) -> Call:
    attrs, (x,) = softmax(draw)
    assert x is not None
    return {"dim": attrs["dim"], "input_dtype": "float64"}, [real(draw, *x.shape), x]


def layer_norm_shapes(draw: Draw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return shape(draw, 1, 2, high=4), shape(draw, 1, 2, high=4)


@case("aten.native_layer_norm")
def layer_norm(draw: Draw) -> Call:
    outer, inner = layer_norm_shapes(draw)
    return {"normalized_shape": inner, "eps": 1e-3}, [
        real(draw, *outer, *inner), maybe(draw, *inner), maybe(draw, *inner)
    ]  # fmt: skip


@case("graphwright.layer_norm_grad_input")
def layer_norm_grad_input(draw: Draw) -> Call:
    outer, inner = layer_norm_shapes(draw)
    x, weight = real(draw, *outer, *inner), maybe(draw, *inner)
    attrs = {"normalized_shape": inner, "eps": 1e-3}
    _, mean, rstd = call_kernel("aten.native_layer_norm", [x, None, None], attrs)
    return {"normalized_shape": inner}, [real(draw, *x.shape), x, mean, rstd, weight]


@case("aten.native_layer_norm_backward")
def layer_norm_backward(draw: Draw) -> Call:
    attrs, (g, x, mean, rstd, _) = layer_norm_grad_input(draw)
    weight, bias = (real(draw, *attrs["normalized_shape"]) for _ in range(2))  # type: ignore[misc]
    return {**attrs, "output_mask": some_outputs(draw)}, [g, x, mean, rstd, weight, bias]


@case("aten._fused_rms_norm")
def rms_norm(draw: Draw) -> Call:
    outer, inner = layer_norm_shapes(draw)
    eps = draw(st.sampled_from([None, 1e-2]))
    return {"normalized_shape": inner, "eps": eps}, [
        real(draw, *outer, *inner),
        maybe(draw, *inner),
    ]


@case("aten.native_group_norm")
def group_norm(draw: Draw) -> Call:
    group = size(draw, high=3)
    n, c, rest = size(draw, high=4), group * size(draw, high=3), shape(draw, 0, 2, high=3)
    attrs = {"N": n, "C": c, "HxW": torch.Size(rest).numel(), "group": group, "eps": 1e-3}
    return attrs, [real(draw, n, c, *rest), maybe(draw, c), maybe(draw, c)]


@case("aten.native_group_norm_backward")
def group_norm_backward(draw: Draw) -> Call:
    attrs, (x, _, _) = group_norm(draw)
    assert x is not None
    _, mean, rstd = call_kernel("aten.native_group_norm", [x, None, None], attrs)
    inputs = [real(draw, *x.shape), x, mean, rstd, real(draw, x.shape[1])]
    return {
        **{k: v for k, v in attrs.items() if k != "eps"},
        "output_mask": some_outputs(draw),
    }, inputs


@case("aten._weight_norm_interface")
def weight_norm(draw: Draw) -> Call:
    dims = shape(draw, 2, 4, high=4)
    dim = draw(st.sampled_from([0, len(dims) - 1]))
    return {"dim": dim}, [
        real(draw, *dims),
        real(draw, *(n if d == dim else 1 for d, n in enumerate(dims))),
    ]


@case("aten._weight_norm_interface_backward")
def weight_norm_backward(draw: Draw) -> Call:
    attrs, (v, g) = weight_norm(draw)
    assert v is not None
    _, norms = call_kernel("aten._weight_norm_interface", [v, g], attrs)
    return attrs, [real(draw, *v.shape), v, g, norms]
