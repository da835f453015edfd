"""Attention with and without masks, causal or not, and its gradients."""

import torch
from hypothesis import strategies as st

from cases import Call, Draw, broadcastable, case, real, size
from graphwright.capture.invoke import call_kernel

FORWARD = "aten._scaled_dot_product_flash_attention_for_cpu"


@case(FORWARD)
def attention(draw: Draw) -> Call:
    b, h, queries, keys, width = (
        size(draw, high=3),
        size(draw, high=3),
        size(draw),
        size(draw),
        size(draw, high=4),
    )
    is_causal = draw(st.booleans())
    mask: torch.Tensor | None = None
    if not is_causal and draw(st.booleans()):
        dims = broadcastable(draw, (b, h, queries, keys))
        mask = real(draw, *((1,) * (4 - len(dims)) if len(dims) != 2 else ()), *dims)
    scale = draw(st.sampled_from([None, 0.3]))
    inputs = [real(draw, b, h, n, width) for n in (queries, keys, keys)]
    return {"is_causal": is_causal, "scale": scale, "dropout_p": 0.0}, [*inputs, mask]


@case(FORWARD + "_backward")
def attention_backward(draw: Draw) -> Call:
    attrs, inputs = attention(draw)
    out, logsumexp = call_kernel(FORWARD, inputs, attrs)
    *inputs, mask = inputs
    return attrs, [real(draw, *out.shape), *inputs, out, logsumexp, mask]
