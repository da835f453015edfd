"""Activations and their gradients, at their kinks too."""

import torch
from hypothesis import strategies as st

from cases import Call, Draw, broadcastable, case, real, shape, some_dim
from cases.elementwise import NUMBER, POSITIVE, calls, floats, units

TRUTH = st.booleans()
EXACTNESS = st.sampled_from(["none", "tanh"])
ELU = {"alpha": POSITIVE, "scale": POSITIVE, "input_scale": POSITIVE}
SOFTPLUS = {"beta": POSITIVE, "threshold": st.sampled_from([2, 3.5, 20])}
BOUNDS = {"min_val": st.sampled_from([-1, -2.5]), "max_val": st.sampled_from([1, 0.5])}

SLOPES = {"lower": st.sampled_from([0.1, 0.25]), "upper": st.sampled_from([0.25, 1])}

calls("aten.threshold", floats, threshold=NUMBER, value=NUMBER)
calls("aten.threshold_backward", floats, floats, threshold=NUMBER)
calls("aten.leaky_relu", floats, negative_slope=POSITIVE)
calls("aten.leaky_relu_backward", floats, floats, negative_slope=POSITIVE, self_is_result=TRUTH)
calls("aten.hardtanh", floats, **BOUNDS)
calls("aten.hardtanh_backward", floats, floats, **BOUNDS)
calls("aten.hardsigmoid aten.hardswish aten.silu aten.mish", floats)
calls("aten.hardsigmoid_backward aten.silu_backward aten.mish_backward", floats, floats)
calls("aten.hardswish_backward", floats, floats, same=True)
calls("aten.hardshrink aten.softshrink", floats, lambd=POSITIVE)
calls("aten.hardshrink_backward aten.softshrink_backward", floats, floats, lambd=POSITIVE)
calls("aten.sigmoid_backward aten.tanh_backward", floats, floats)
calls("aten.celu", floats, alpha=POSITIVE)
calls("aten.elu", floats, **ELU)
calls("aten.elu_backward", floats, floats, is_result=TRUTH, **ELU)
calls("aten.logit", units, eps=st.sampled_from([None, 0.2, 0.4]))
calls("aten.logit_backward", floats, units, same=True, eps=st.sampled_from([None, 0.2, 0.4]))
calls(
    "aten.rrelu_with_noise aten.rrelu_with_noise_functional",
    floats,
    floats,
    same=True,
    training=TRUTH,
    **SLOPES,
)
calls(
    "aten.rrelu_with_noise_backward",
    floats,
    floats,
    floats,
    same=True,
    training=TRUTH,
    self_is_result=st.just(False),
    **SLOPES,
)
calls("aten.softplus", floats, **SOFTPLUS)
calls("aten.softplus_backward", floats, floats, **SOFTPLUS)
calls("aten.gelu", floats, approximate=EXACTNESS)
calls("aten.gelu_backward", floats, floats, approximate=EXACTNESS)
calls("aten.log_sigmoid_forward", floats)


@case("aten._prelu_kernel")
def prelu(draw: Draw) -> Call:
    dims = shape(draw)
    return {}, [floats(draw, *dims), floats(draw, *broadcastable(draw, dims))]


@case("aten._prelu_kernel_backward")
def prelu_backward(draw: Draw) -> Call:
    _, (x, weight) = prelu(draw)
    return {}, [floats(draw, *x.shape), x, weight]


@case("aten.log_sigmoid_backward")
def log_sigmoid_backward(draw: Draw) -> Call:
    dims = shape(draw)
    x = floats(draw, *dims)
    return {}, [floats(draw, *dims), x, torch.exp(-x.abs())]


@case("aten.glu")
def glu(draw: Draw) -> Call:
    dims = list(shape(draw, min_rank=1))
    dim = some_dim(draw, len(dims))
    dims[dim] *= 2
    return {"dim": dim}, [real(draw, *dims)]


@case("aten.glu_backward")
def glu_backward(draw: Draw) -> Call:
    attrs, (x,) = glu(draw)
    half = torch.ops.aten.glu(x, attrs["dim"])
    return attrs, [real(draw, *half.shape), x]
