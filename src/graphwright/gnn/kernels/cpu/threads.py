"""Run a loop over rows on all cores: one part of the rows for each, with as many edges.

Compiled loops run without the interpreter's lock, so plain threads do. There are as many as PyTorch
uses (`torch.set_num_threads`). Small work stays in the calling thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch

SMALL = 1 << 15
"""Fewer numbers than this are not worth a thread."""


@cache
def _pool(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="graphwright-gnn")


os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


def over_rows(loop: Callable[..., None], indptr: Any, wide: int, *args: Any) -> None:
    """Call `loop(start, stop, indptr, *args)` for all rows, in parts; `wide` is work per edge."""
    rows, entries = len(indptr) - 1, int(indptr[-1])
    count = torch.get_num_threads()
    if count == 1 or (entries + rows) * wide < SMALL:
        loop(np.uint64(0), np.uint64(rows), indptr, *args)
        return
    # A part ends where it has its share of entries and rows.
    targets = [(entries + rows) * part // count for part in range(1, count)]
    cuts = [0, *(_cut(indptr, target) for target in targets), rows]
    futures = [
        _pool(count - 1).submit(
            loop, np.uint64(cuts[part]), np.uint64(cuts[part + 1]), indptr, *args
        )
        for part in range(1, count)
    ]
    loop(np.uint64(0), np.uint64(cuts[1]), indptr, *args)
    for future in futures:
        future.result()


def over_spans(loop: Callable[..., None], total: int, work: int, *args: Any) -> None:
    """Call `loop(start, stop, *args)` for spans of 0 to `total`; `work` is that of all of them."""
    count = min(torch.get_num_threads(), total)
    if count <= 1 or work < SMALL:
        loop(np.uint64(0), np.uint64(total), *args)
        return
    cuts = [np.uint64(total * part // count) for part in range(count + 1)]
    futures = [
        _pool(count - 1).submit(loop, start, stop, *args) for start, stop in pairwise(cuts[1:])
    ]
    loop(cuts[0], cuts[1], *args)
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
