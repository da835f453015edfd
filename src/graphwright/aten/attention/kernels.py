"""Which kernel computes attention on a GPU: the fastest of those that compute the same.

    flash       FlashAttention                   16-bit floats, shared key heads
    cudnn       cuDNN's                          16-bit floats, shared key heads
    efficient   memory-efficient attention       float32, there with masks; shared heads repeated
    (none)      the definition, which holds all scores: masks in 16 bits, where the gradients of the
                memory-efficient kernel were wrong on an H200, float64, causal with more keys

`choose_kernel` tries each at the first call of its kind: on a slice against the definition, then
forward and backward for time. A kernel that fails or differs is left out. All of them save the
natural logarithm of each row's normaliser, so that any may run backward. Nothing is tried while a
program is compiled or recorded: what was chosen before counts, or else the first that takes a call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from graphwright.aten.operators import as_float32

Forward = Callable[
    [Tensor, Tensor, Tensor, bool, Tensor | None, float | None], tuple[Tensor, Tensor]
]
Backward = Callable[
    [Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, bool, Tensor | None, float | None],
    tuple[Tensor, Tensor, Tensor],
]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel for attention, in the words of this file; most take no mask."""

    name: str
    forward: Forward
    backward: Backward


# -- by definition --------------------------------------------------------------------------------


def by_definition(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool, mask: Tensor | None,
    scale: float | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return output and normaliser, with all scores in memory."""
    key, value = _for_each_head(query, key), _for_each_head(query, value)
    scores, _ = _scores(query, key, is_causal, mask, scale)
    normaliser = scores.logsumexp(-1)
    weights = _weights(scores, normaliser)
    return (weights @ as_float32(value)).to(query.dtype), normaliser


def gradients_by_definition(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
    is_causal: bool, mask: Tensor | None, scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the gradients of query, key and value, with all scores in memory."""
    num_heads, dtypes = key.shape[1], (query.dtype, key.dtype, value.dtype)
    key, value = _for_each_head(query, key), _for_each_head(query, value)
    scores, factor = _scores(query, key, is_causal, mask, scale)
    weights = _weights(scores, logsumexp)
    grad = as_float32(grad_out)
    along = (grad * as_float32(out)).sum(-1, keepdim=True)
    grad_scores = weights * (grad @ as_float32(value).mT - along) * factor
    grad_key = _for_shared_heads(grad_scores.mT @ as_float32(query), num_heads)
    grad_value = _for_shared_heads(weights.mT @ grad, num_heads)
    grad_query = grad_scores @ as_float32(key)
    return grad_query.to(dtypes[0]), grad_key.to(dtypes[1]), grad_value.to(dtypes[2])


def _for_each_head(query: Tensor, shared: Tensor) -> Tensor:
    """Keys or values for every head of the queries, where several heads share one."""
    times = query.shape[1] // shared.shape[1]
    return shared if times == 1 else shared.repeat_interleave(times, dim=1)


def _for_shared_heads(gradient: Tensor, num_heads: int) -> Tensor:
    """The gradient of shared keys or values: the sum over the heads that share them."""
    batch, heads, *rest = gradient.shape
    if heads == num_heads:
        return gradient
    return gradient.reshape(batch, num_heads, heads // num_heads, *rest).sum(2)


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


# -- kernels --------------------------------------------------------------------------------------


def _flash(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool, mask: Tensor | None,
    scale: float | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    made = torch.ops.aten._scaled_dot_product_flash_attention(
        query, key, value, 0.0, is_causal, False, scale=scale
    )
    return made[0], made[1]


def _flash_backward(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
    is_causal: bool, mask: Tensor | None, scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    nothing = _no_numbers(query)
    grads = torch.ops.aten._scaled_dot_product_flash_attention_backward(
        grad_out, query, key, value, out, logsumexp, None, None, query.shape[2], key.shape[2], 0.0,
        is_causal, nothing, nothing, scale=scale,
    )  # fmt: skip
    return grads[0], grads[1], grads[2]


def _cudnn(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool, mask: Tensor | None,
    scale: float | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    made = torch.ops.aten._scaled_dot_product_cudnn_attention(
        query, key, value, None, True, 0.0, is_causal, False, scale=scale
    )
    return made[0], made[1].reshape(query.shape[:3])


def _cudnn_backward(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
    is_causal: bool, mask: Tensor | None, scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    nothing = _no_numbers(query)
    grads = torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
        grad_out, query, key, value, out, logsumexp.unsqueeze(-1), nothing, nothing, None, None,
        None, query.shape[2], key.shape[2], 0.0, is_causal, scale=scale,
    )  # fmt: skip
    return grads[0], grads[1], grads[2]


_ROWS = 32
"""The memory-efficient kernel fills up the rows of its normaliser to a multiple of this."""


def _efficient(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool, mask: Tensor | None,
    scale: float | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    key, value = _for_each_head(query, key), _for_each_head(query, value)
    bias = _bias(query, key, mask)
    made = torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, value, _for_each_query(bias, query), True, 0.0, is_causal, scale=scale
    )
    out, normaliser = made[0], made[1][..., : query.shape[2]]
    if bias is not None:  # what the kernel makes of a query that sees no key is no number
        blind = (bias == -math.inf).all(-1)
        out = out.masked_fill(blind.unsqueeze(-1), 0)
        normaliser = normaliser.masked_fill(blind, -math.inf)
    return out, normaliser


def _efficient_backward(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
    is_causal: bool, mask: Tensor | None, scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    num_heads, nothing = key.shape[1], _no_numbers(query)
    key, value = _for_each_head(query, key), _for_each_head(query, value)
    bias = _for_each_query(_bias(query, key, mask), query)
    logsumexp = logsumexp.masked_fill(logsumexp == -math.inf, math.inf)  # weights of zero
    filled = torch.nn.functional.pad(logsumexp, (0, -logsumexp.shape[-1] % _ROWS), value=math.inf)
    grads = torch.ops.aten._scaled_dot_product_efficient_attention_backward(
        grad_out, query, key, value, bias, out, filled, nothing, nothing, 0.0,
        [True, True, True, False], is_causal, scale=scale,
    )  # fmt: skip
    return (
        grads[0],
        _for_shared_heads(grads[1], num_heads),
        _for_shared_heads(grads[2], num_heads),
    )


_ALIGNED = 16
"""The memory-efficient kernel reads rows of a mask whose length is a multiple of this."""


def _bias(query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor | None:
    """What a mask adds to scores."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, -math.inf)
    mask = mask.to(query.dtype).expand(*mask.shape[:-1], key.shape[2])
    filled = torch.nn.functional.pad(mask, (0, -key.shape[2] % _ALIGNED))
    return filled.contiguous()[..., : key.shape[2]]


def _for_each_query(bias: Tensor | None, query: Tensor) -> Tensor | None:
    """The same for every sample, head and query, without a copy for each."""
    return None if bias is None else bias.expand(*query.shape[:3], bias.shape[-1])


def _no_numbers(like: Tensor) -> Tensor:
    """In the place of what dropout would draw by."""
    return torch.zeros((), dtype=torch.int64, device=like.device)


EFFICIENT = Kernel("efficient", _efficient, _efficient_backward)
NARROW = (
    Kernel("cudnn", _cudnn, _cudnn_backward),
    Kernel("flash", _flash, _flash_backward),
    EFFICIENT,
)
"""The kernels for floats of 16 bits."""


# -- the choice -----------------------------------------------------------------------------------

_CHOSEN: dict[object, Kernel | None] = {}
TRIALS = 3
"""How often a kernel is timed; the least time counts."""
CLOSE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""How far a kernel may be from the definition, relative to the largest element."""
_SLICE = 256
"""So many queries and keys of one sample are compared with the definition."""


def choose_kernel(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool, mask: Tensor | None,
    scale: float | None,
) -> Kernel | None:  # fmt: skip
    """The kernel for a call, None for the definition."""
    if (
        not query.is_cuda
        or query.dtype not in CLOSE
        or (mask is not None and query.dtype != torch.float32)
        or (is_causal and (mask is not None or query.shape[2] != key.shape[2]))
        or any(t.shape[-1] % 8 for t in (query, value))
        or 0 in (*query.shape, *key.shape)
    ):
        return None
    kernels = (EFFICIENT,) if query.dtype == torch.float32 else NARROW
    kind = (
        query.device, query.dtype, query.shape, key.shape, is_causal, scale,
        None if mask is None else (mask.dtype, mask.shape),
        *(t.stride() for t in (query, key, value)),
    )  # fmt: skip
    known = _CHOSEN.get(kind)
    if known is not None:
        return known
    if kind in _CHOSEN:
        return None
    if torch.compiler.is_compiling() or torch.cuda.is_current_stream_capturing():
        return EFFICIENT
    _CHOSEN[kind] = chosen = _fastest(kernels, query, key, value, is_causal, mask, scale)
    return chosen


def _fastest(
    kernels: tuple[Kernel, ...], query: Tensor, key: Tensor, value: Tensor, is_causal: bool,
    mask: Tensor | None, scale: float | None,
) -> Kernel | None:  # fmt: skip
    timed: list[tuple[float, int, Kernel]] = []
    for number, kernel in enumerate(kernels):
        try:
            if _is_close(kernel, query, key, value, is_causal, mask, scale):
                seconds = 0.0
                if len(kernels) > 1:
                    seconds = _seconds(kernel, query, key, value, is_causal, mask, scale)
                timed.append((seconds, number, kernel))
        except RuntimeError:  # it does not take such a call
            continue
    return min(timed)[2] if timed else None


def _is_close(
    kernel: Kernel, query: Tensor, key: Tensor, value: Tensor, is_causal: bool,
    mask: Tensor | None, scale: float | None,
) -> bool:  # fmt: skip
    """Whether a kernel computes what the definition says, forward and backward, on a slice."""
    q, k, v = (t[:1, :, :_SLICE].detach() for t in (query, key, value))
    if is_causal and q.shape[2] != k.shape[2]:
        return False
    if mask is not None:
        whole = mask.expand(*query.shape[:2], query.shape[2], key.shape[2])
        mask = whole[:1, :, :_SLICE, :_SLICE]
    out, normaliser = kernel.forward(q, k, v, is_causal, mask, scale)
    grads = kernel.backward(out, q, k, v, out, normaliser.contiguous(), is_causal, mask, scale)
    wide = as_float32(q), as_float32(k), as_float32(v)
    wanted = by_definition(*wide, is_causal, mask, scale)
    wanted_grads = gradients_by_definition(
        as_float32(out), *wide, as_float32(out), wanted[1], is_causal, mask, scale
    )
    pairs = zip((out, normaliser, *grads), (*wanted, *wanted_grads), strict=True)
    return all(_apart(a, b) <= CLOSE[query.dtype] for a, b in pairs)


def _apart(a: Tensor, b: Tensor) -> float:
    """The largest difference, relative to the largest element of b; infinities must agree."""
    size = float(b.masked_fill(b.isinf(), 0).abs().max())
    return float((a - b).masked_fill(a == b, 0).abs().max()) / max(size, 1e-3)


def _seconds(
    kernel: Kernel, query: Tensor, key: Tensor, value: Tensor, is_causal: bool,
    mask: Tensor | None, scale: float | None,
) -> float:  # fmt: skip
    """The least time of forward and backward."""
    least = math.inf
    for _ in range(TRIALS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        out, normaliser = kernel.forward(query, key, value, is_causal, mask, scale)
        kernel.backward(
            out, query, key, value, out, normaliser.contiguous(), is_causal, mask, scale
        )
        end.record()
        end.synchronize()
        least = min(least, begin.elapsed_time(end))
    return least
