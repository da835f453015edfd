"""The CPU's fused attention on other devices, so that one graph runs everywhere.

A capture happens on CPU tensors, where PyTorch's scaled dot product attention becomes an operator
that only CPUs have. These are the same two operators from their definition, registered for CUDA:

    s = scale * q k' + mask        lse = logsumexp(s)        p = exp(s - lse)        out = p v
    dv = p' g      ds = p * (g v' - sum(g * out))      dq = scale * ds k      dk = scale * ds' q

Where PyTorch has a fused kernel for it (no mask, no float64), that one runs; otherwise the scores
are materialised. Results lie in memory as the CPU's do, batch, sequence, heads, width, which
compiled programs take for granted.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graphwright.aten.operators import as_float32


def attention(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False,
    *, attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the attention's output and the logarithm of each row's normaliser."""
    if _is_fused(query, key, value, is_causal, attn_mask):
        out, normaliser, _, _ = torch.ops.aten._scaled_dot_product_efficient_attention(
            query, key, value, None, True, 0.0, is_causal, scale=scale
        )
        return _laid_out(out), _laid_out(normaliser[..., : query.shape[2]])
    key, value = _for_each_head(query, key), _for_each_head(query, value)
    scores, _ = _scores(query, key, is_causal, attn_mask, scale)
    normaliser = scores.logsumexp(-1)
    weights = _weights(scores, normaliser)
    out = (weights @ as_float32(value)).to(query.dtype)
    return _laid_out(out), _laid_out(normaliser)


def attention_backward(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
    dropout_p: float, is_causal: bool, *, attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the gradients of query, key and value."""
    if _is_fused(query, key, value, is_causal, attn_mask):
        missing = -logsumexp.shape[-1] % _ROWS
        filled = torch.nn.functional.pad(logsumexp.contiguous(), (0, missing), value=math.inf)
        nothing = torch.zeros((), dtype=torch.int64, device=query.device)
        grads = torch.ops.aten._scaled_dot_product_efficient_attention_backward(
            grad_out, query, key, value, None, out, filled, nothing, nothing, 0.0,
            [True, True, True, False], is_causal, scale=scale,
        )  # fmt: skip
        return _laid_out(grads[0]), _laid_out(grads[1]), _laid_out(grads[2])
    num_heads = key.shape[1]
    key, value = _for_each_head(query, key), _for_each_head(query, value)
    scores, factor = _scores(query, key, is_causal, attn_mask, scale)
    weights = _weights(scores, logsumexp)
    grad = as_float32(grad_out)
    along = (grad * as_float32(out)).sum(-1, keepdim=True)
    grad_scores = weights * (grad @ as_float32(value).mT - along) * factor
    grad_key = _for_shared_heads(grad_scores.mT @ as_float32(query), num_heads)
    grad_value = _for_shared_heads(weights.mT @ grad, num_heads)
    return (
        _laid_out((grad_scores @ as_float32(key)).to(query.dtype)),
        _laid_out(grad_key.to(key.dtype)),
        _laid_out(grad_value.to(value.dtype)),
    )


def _for_each_head(query: Tensor, shared: Tensor) -> Tensor:
    """Keys or values for every head of the queries, where several heads share one."""
    return shared.repeat_interleave(query.shape[1] // shared.shape[1], dim=1)


def _for_shared_heads(gradient: Tensor, num_heads: int) -> Tensor:
    """The gradient of shared keys or values: the sum over the heads that share them."""
    batch, _, *rest = gradient.shape
    return gradient.reshape(batch, num_heads, -1, *rest).sum(2)


def _scores(
    query: Tensor, key: Tensor, is_causal: bool, mask: Tensor | None, scale: float | None
) -> tuple[Tensor, float]:
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = as_float32(query) @ as_float32(key).mT * factor
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return scores, factor


def _weights(scores: Tensor, normaliser: Tensor) -> Tensor:
    """A row without any key in sight has weights of zero, not of 0 / 0."""
    normaliser = normaliser.masked_fill(normaliser == -math.inf, math.inf)
    return (scores - normaliser.unsqueeze(-1)).exp()


_ROWS = 32
"""The fused kernels fill up the rows of their normaliser to a multiple of this."""


def _is_fused(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool, mask: Tensor | None
) -> bool:
    """Whether the fused kernel computes the same: not for causal attention with more keys."""
    return (
        query.is_cuda
        and mask is None
        and query.dtype in (torch.float32, torch.float16, torch.bfloat16)
        and query.shape[1] == key.shape[1]
        and (not is_causal or query.shape[2] == key.shape[2])
        and all(t.shape[-1] % 8 == 0 for t in (query, value))
    )


def _laid_out(value: Tensor) -> Tensor:
    """The same, with the heads of one place in the sequence side by side in memory."""
    return value.transpose(1, 2).contiguous().transpose(1, 2)


_LIBRARY = torch.library.Library("aten", "IMPL", "CUDA")  # type: ignore[no-untyped-call]
_NAME = "_scaled_dot_product_flash_attention_for_cpu"
_LIBRARY.impl(_NAME, attention)  # type: ignore[no-untyped-call]
_LIBRARY.impl(f"{_NAME}_backward", attention_backward)  # type: ignore[no-untyped-call]
