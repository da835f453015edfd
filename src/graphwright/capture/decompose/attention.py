"""Causal attention as an operator whose queries split (see `graphwright.aten.attention`)."""

from __future__ import annotations

from torch import Tensor

from graphwright.aten import aten, ours
from graphwright.capture.decompose.composites import KEPT, decompose


@decompose(aten._scaled_dot_product_flash_attention_for_cpu.default)
def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    if not is_causal or attn_mask is not None or dropout_p:
        return KEPT
    return ours.causal_attention.default(query, key, value, scale=scale)


@decompose(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
def _attention_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    if not is_causal or attn_mask is not None or dropout_p:
        return KEPT
    return ours.causal_attention_backward.default(
        grad_out, query, key, value, out, logsumexp, scale=scale
    )
