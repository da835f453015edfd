"""The random words of `philox` on a GPU, to the bit, in one kernel instead of eighty operators.

Triton comes with PyTorch for GPUs. Where it is missing, the operators do.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_SIZE = 256
"""Counters for each program."""


@triton.jit(do_not_specialize=["first", "num_blocks", "num_counters", "k0", "k1", "tag"])
def _draw(
    rows, words, first, num_blocks, num_counters, key, k0, k1, tag,
    stored: tl.constexpr, size: tl.constexpr,
):  # fmt: skip
    if stored:
        k0, k1, tag = tl.load(key), tl.load(key + 1), tl.load(key + 2)
    place = tl.program_id(0).to(tl.int64) * size + tl.arange(0, size)
    inside = place < num_counters
    row = tl.load(rows + place // num_blocks, mask=inside, other=0)
    block = (first + place % num_blocks).to(tl.uint32)
    tags = tl.zeros([size], tl.uint32) + tag.to(tl.uint32)
    low, high = row.to(tl.uint32), (row >> 32).to(tl.uint32)
    w0, w1, w2, w3 = tl.philox_impl(
        block, low, high, tags, k0.to(tl.uint32), k1.to(tl.uint32), n_rounds=10
    )
    tl.store(words + place * 4, w0.to(tl.int64), mask=inside)
    tl.store(words + place * 4 + 1, w1.to(tl.int64), mask=inside)
    tl.store(words + place * 4 + 2, w2.to(tl.int64), mask=inside)
    tl.store(words + place * 4 + 3, w3.to(tl.int64), mask=inside)


def draw_words(rows: Tensor, blocks: range, key: tuple[int, int, int] | Tensor) -> Tensor:
    """[lane, row, block] -> word (int64), a block's lanes side by side; a key may be a tensor."""
    words = torch.empty((len(rows), len(blocks), 4), dtype=torch.int64, device=rows.device)
    count = len(rows) * len(blocks)
    stored = isinstance(key, Tensor)
    # Always of one type, for one kernel.
    signed = (0, 0, 0) if stored else [word - (word >> 31 << 32) for word in key]
    kernel: Any = _draw[(triton.cdiv(count, _SIZE),)]
    with torch.cuda.device(rows.device):
        kernel(
            rows, words, blocks.start, len(blocks), count, key if stored else rows, *signed,
            stored=stored, size=_SIZE,
        )  # fmt: skip
    return words.movedim(-1, 0)
