"""The CPU's fused attention on other devices, so that one graph runs everywhere.

A capture happens on CPU tensors, where PyTorch's scaled dot product attention becomes an operator
that only CPUs have. These are the same two operators from their definition, registered for CUDA:

    s = scale * q k' + mask        lse = logsumexp(s)        p = exp(s - lse)        out = p v
    dv = p' g      ds = p * (g v' - sum(g * out))      dq = scale * ds k      dk = scale * ds' q

Which kernel runs is chosen for the device, the dtype and the sizes (`kernels`). Results lie in
memory as PyTorch says of the CPU's: the output as the queries, the others by batch, sequence, heads
and width.

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

from graphwright.aten.attention.kernels import (
    by_definition,
    choose_kernel,
    gradients_by_definition,
)


def attention(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False,
    *, attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the attention's output and the logarithm of each row's normaliser."""
    kernel = choose_kernel(query, key, value, is_causal, attn_mask, scale)
    if kernel is None:
        out, normaliser = by_definition(query, key, value, is_causal, attn_mask, scale)
    else:
        out, normaliser = kernel.forward(query, key, value, is_causal, attn_mask, scale)
    return _like(query, out), _laid_out(normaliser)


def attention_backward(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
    dropout_p: float, is_causal: bool, *, attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the gradients of query, key and value."""
    kernel = choose_kernel(query, key, value, is_causal, attn_mask, scale)
    if kernel is None:
        grads = gradients_by_definition(
            grad_out, query, key, value, out, logsumexp, is_causal, attn_mask, scale
        )
    else:
        grads = kernel.backward(
            grad_out, query, key, value, out, logsumexp.contiguous(), is_causal, attn_mask, scale
        )
    return _laid_out(grads[0]), _laid_out(grads[1]), _laid_out(grads[2])


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


def _like(query: Tensor, out: Tensor) -> Tensor:
    """The same, lying in memory as the queries do, which compiled programs take for granted."""
    empty = torch.empty_like(query)
    return out if out.stride() == empty.stride() else empty.copy_(out)


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
