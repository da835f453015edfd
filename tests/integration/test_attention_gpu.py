"""Masked attention on a GPU: the values of the definition, in float32 by a kernel that holds no scores."""

from __future__ import annotations

import math

import pytest
import torch

from graphwright.aten.attention.kernels import (
    EFFICIENT,
    by_definition,
    choose_kernel,
    gradients_by_definition,
)
from graphwright.aten.attention.operators import attention, attention_backward

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
CLOSE = {torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 3e-2}


def padding(keys: int) -> torch.Tensor:
    """Samples of other lengths, one of them empty."""
    lengths = torch.tensor([keys, keys // 2, 0])
    return (torch.arange(keys) < lengths[:, None])[:, None, None]


def distances(queries: int, keys: int) -> torch.Tensor:
    """What relative positions add, for each head; far keys are hidden."""
    apart = (torch.arange(queries)[:, None] - torch.arange(keys)).abs()
    slopes = torch.tensor([0.5, 0.25])[:, None, None]
    return (-slopes * apart).masked_fill(apart > 30, -math.inf)[None]


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("size", [37, 64], ids=["not aligned", "aligned"])
@pytest.mark.parametrize("kind", ["padding", "distances"])
def test_masked_calls_have_the_values_of_the_definition(kind, size, dtype):
    torch.manual_seed(0)
    q, k, v, grad = (torch.randn(3, 2, size, 16, device="cuda", dtype=dtype) for _ in range(4))
    mask = (padding(size) if kind == "padding" else distances(size, size).to(dtype)).cuda()
    chosen = choose_kernel(q, k, v, False, mask, None)
    assert chosen is (EFFICIENT if dtype == torch.float32 else None)
    out, normaliser = attention(q, k, v, attn_mask=mask)
    grads = attention_backward(grad, q, k, v, out, normaliser, 0.0, False, attn_mask=mask)
    exact = [x.double() for x in (q, k, v)]
    wide = mask if mask.dtype == torch.bool else mask.double()
    wanted = by_definition(*exact, False, wide, None)
    wanted_grads = gradients_by_definition(grad.double(), *exact, *wanted, False, wide, None)
    for made, right in zip((out, normaliser, *grads), (*wanted, *wanted_grads), strict=True):
        torch.testing.assert_close(made.double(), right, rtol=CLOSE[dtype], atol=CLOSE[dtype])


def test_a_mask_of_one_row_needs_no_memory_for_each_query():
    q, k, v = (torch.randn(4, 8, 2048, 64, device="cuda") for _ in range(3))
    mask = torch.ones(4, 1, 1, 2048, dtype=torch.bool, device="cuda")
    attention(q, k, v, attn_mask=mask)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    attention(q, k, v, attn_mask=mask)
    assert torch.cuda.max_memory_allocated() - before < 5 * q.nbytes
