"""The CPU's fused attention on other devices, so that one graph runs everywhere.

A capture happens on CPU tensors, where PyTorch's scaled dot product attention becomes an operator
that only CPUs have. These are the same two operators from their definition, registered for CUDA:

    s = scale * q k' + mask        lse = logsumexp(s)        p = exp(s - lse)        out = p v
    dv = p' g      ds = p * (g v' - sum(g * out))      dq = scale * ds k      dk = scale * ds' q

Where PyTorch has a fused kernel for it (no mask, no float64), that one runs; otherwise the scores
are materialised. Results lie in memory as the CPU's do, batch, sequence, heads, width, which
compiled programs take for granted.

Causal attention is an operator of our own: a part of the queries has to know where it begins.

    graphwright.causal_attention             query l sees the keys m <= l + first
    graphwright.causal_attention_backward    its gradients

From the first query on it is PyTorch's causal kernel. A later part gets the keys that it sees, and
a mask for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

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


def causal_attention(
    query: Tensor, key: Tensor, value: Tensor, *, scale: float | None = None, first: int = 0
) -> tuple[Tensor, Tensor]:
    """Return the output and the normaliser; the first query is the one of key number `first`."""
    if first == 0:
        return _ATTENTION(query, key, value, 0.0, True, scale=scale)
    mask = _causal_mask(query, key, first)
    key, value = (x[:, :, : mask.shape[1]] for x in (key, value))
    return _ATTENTION(query, key, value, 0.0, False, attn_mask=mask, scale=scale)


def causal_attention_backward(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
    *, scale: float | None = None, first: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the gradients of query, key and value."""
    if first == 0:
        return _BACKWARD(grad_out, query, key, value, out, logsumexp, 0.0, True, scale=scale)
    mask = _causal_mask(query, key, first)
    seen = mask.shape[1]
    if seen == 0:
        return torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    grads = _BACKWARD(
        grad_out, query, key[:, :, :seen], value[:, :, :seen], out, logsumexp, 0.0, False,
        attn_mask=mask, scale=scale,
    )  # fmt: skip
    unseen = (0, 0, 0, key.shape[2] - seen)
    for_key, for_value = (torch.nn.functional.pad(x, unseen) for x in grads[1:])
    return grads[0], _laid_out(for_key), _laid_out(for_value)


def _causal_mask(query: Tensor, key: Tensor, first: int) -> Tensor:
    """What is added to the scores of the keys that any query sees: 0, or -inf for later keys."""
    num_queries = query.shape[2]
    num_seen = min(max(first + num_queries, 0), key.shape[2])
    mask = query.new_full((num_queries, num_seen), -math.inf)
    return mask.triu(first + 1)


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


_NAME = "_scaled_dot_product_flash_attention_for_cpu"
_ATTENTION: Callable[..., tuple[Tensor, Tensor]] = getattr(torch.ops.aten, _NAME)
_BACKWARD: Callable[..., tuple[Tensor, Tensor, Tensor]] = getattr(
    torch.ops.aten, f"{_NAME}_backward"
)

_LIBRARY = torch.library.Library("aten", "IMPL", "CUDA")  # type: ignore[no-untyped-call]
_LIBRARY.impl(_NAME, attention)  # type: ignore[no-untyped-call]
_LIBRARY.impl(f"{_NAME}_backward", attention_backward)  # type: ignore[no-untyped-call]

_OURS = torch.library.Library("graphwright", "FRAGMENT")  # type: ignore[no-untyped-call]
_OPTIONS = "*, float? scale=None, int first=0"
for _kernel, _tensors, _results in (
    (causal_attention, ("query", "key", "value"), 2),
    (
        causal_attention_backward,
        ("grad_out", "query", "key", "value", "out", "logsumexp"),
        3,
    ),
):
    _given = ", ".join(f"Tensor {tensor}" for tensor in _tensors)
    _made = ", ".join(["Tensor"] * _results)
    _OURS.define(f"{_kernel.__name__}({_given}, {_OPTIONS}) -> ({_made})")  # type: ignore[no-untyped-call]
    _OURS.impl(_kernel.__name__, _kernel, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"graphwright::{_kernel.__name__}", _kernel, lib=_OURS)
