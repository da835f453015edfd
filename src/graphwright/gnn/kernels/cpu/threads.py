"""Run a loop over rows on all cores: parts of the rows that have as many edges each.

Compiled loops run without the interpreter's lock, so plain threads do. There are as many as PyTorch
uses (`torch.set_num_threads`). Small work stays in the calling thread; large work has more parts
than threads, and each thread takes the next part when it is done with one, since a core may be
slower than others or busy elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch

SMALL = 1 << 15
"""Fewer numbers than this are not worth a thread."""
LARGE = 1 << 22
"""From so many numbers for each thread on there are PARTS parts for each."""
PARTS = 4


@cache
def _pool(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="graphwright-gnn")


os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


def over_rows(loop: Callable[..., None], indptr: Any, wide: int, *args: Any) -> None:
    """Call `loop(start, stop, indptr, *args)` for all rows, in parts; `wide` is work per edge."""
    rows, entries = len(indptr) - 1, int(indptr[-1])
    total = entries + rows
    count = _num_parts(total * wide)
    # A part ends where it has its share of entries and rows.
    cuts = [0, *(_cut(indptr, total * part // count) for part in range(1, count)), rows]
    _call_in_parts(loop, cuts, indptr, *args)


def over_spans(loop: Callable[..., None], total: int, work: int, *args: Any) -> None:
    """Call `loop(start, stop, *args)` for spans of 0 to `total`; `work` is that of all of them."""
    count = max(1, min(_num_parts(work), total))
    _call_in_parts(loop, [total * part // count for part in range(count + 1)], *args)


def _num_parts(work: int) -> int:
    threads = torch.get_num_threads()
    if threads == 1 or work < SMALL:
        return 1
    return threads if work < LARGE * threads else threads * PARTS


def _call_in_parts(loop: Callable[..., None], cuts: Sequence[int], *args: Any) -> None:
    parts = pairwise(np.uint64(cut) for cut in cuts)
    if len(cuts) == 2:
        loop(*next(parts), *args)
        return
    left = iter(list(parts))  # threads may share the iterator of a list

    def take() -> None:
        for start, stop in left:
            loop(start, stop, *args)

    others = min(torch.get_num_threads(), len(cuts) - 1) - 1
    futures = [_pool(others).submit(take) for _ in range(others)]
    take()
    for future in futures:
        future.result()


def _cut(indptr: Any, target: int) -> int:
    low, high = 0, len(indptr) - 1
    while low < high:
        middle = (low + high) // 2
        if int(indptr[middle]) + middle < target:
            low = middle + 1
        else:
            high = middle
    return low
