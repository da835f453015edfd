"""Attention with and without masks, causal or not, with keys shared by several heads, and its gradients."""

import torch
from hypothesis import strategies as st

from cases import Call, Draw, broadcastable, case, real, size
from graphwright.aten.invoke import call_kernel

FORWARD = "aten._scaled_dot_product_flash_attention_for_cpu"


@case(FORWARD)
def attention(draw: Draw) -> Call:
    b, num_keys, queries, keys = size(draw, high=3), size(draw, high=3), size(draw), size(draw)
    h, width = num_keys * draw(st.sampled_from([1, 1, 2, 3])), size(draw, high=4)
    is_causal = draw(st.booleans())
    mask: torch.Tensor | None = None
    if not is_causal and draw(st.booleans()):
        dims = broadcastable(draw, (b, h, queries, keys))
        mask = real(draw, *((1,) * (4 - len(dims)) if len(dims) != 2 else ()), *dims)
    scale = draw(st.sampled_from([None, 0.3]))
    query = real(draw, b, h, queries, width)
    inputs = [query, *(real(draw, b, num_keys, keys, width) for _ in range(2))]
    return {"is_causal": is_causal, "scale": scale, "dropout_p": 0.0}, [*inputs, mask]


CAUSAL = "graphwright.causal_attention"


@case(CAUSAL)
def causal_attention(draw: Draw) -> Call:
    attrs, inputs = attention(draw)
    return {"scale": attrs["scale"], "first": draw(st.integers(0, 4))}, inputs[:3]


@case(CAUSAL + "_backward")
def causal_attention_backward(draw: Draw) -> Call:
    attrs, inputs = causal_attention(draw)
    out, logsumexp = call_kernel(CAUSAL, inputs, attrs)
    if draw(st.booleans()):  # as for a part of the keys
        attrs["first"] = draw(st.integers(-8, 4))
    return attrs, [real(draw, *out.shape), *inputs, out, logsumexp]


@case(FORWARD + "_backward")
def attention_backward(draw: Draw) -> Call:
    attrs, inputs = attention(draw)
    out, logsumexp = call_kernel(FORWARD, inputs, attrs)
    *inputs, mask = inputs
    return attrs, [real(draw, *out.shape), *inputs, out, logsumexp, mask]
