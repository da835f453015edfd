"""What a vertex costs depends on: the features of ROC's Table 4.2, as sums over any range.

    x1   1                                    the vertex itself
    x2   its in-edges
    x3   blocks of consecutively numbered neighbours
    x4   sum over blocks of ceil(length / line)            lines to load the neighbours' numbers
    x5   sum over blocks of ceil(length * width / line)    lines to load their activations

`line` is how many numbers are loaded at once: a warp of 32 threads on a GPU, the 16 floats of a
cache line on a CPU. Neighbours 3, 4, 6, 8 are three blocks, of lengths 2, 1, 1. Partial sums over
the vertices give the sum over a range in constant time.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

NUM_FEATURES = 5
CPU_LINE, GPU_LINE = 16, 32


class VertexFeatures:
    """Partial sums of the features of all vertices of a graph, given by destination."""

    def __init__(self, indptr: Tensor, sources: Tensor, line: int = CPU_LINE) -> None:
        self.num_nodes, self.line = len(indptr) - 1, line
        self._indptr, self._sources = indptr.numpy(), sources.numpy()
        self._by_width: dict[int, Any] = {}

    def sums(self, low: int, high: int, width: int) -> Any:
        """The five features of the vertices from `low` to `high - 1`, where rows have `width`."""
        table = self.partial_sums(width)
        return table[high] - table[low]

    def partial_sums(self, width: int) -> Any:
        """Row v: the sums over all vertices before v."""
        if width not in self._by_width:
            owners, lengths = self._blocks
            lines = lambda numbers: -(-numbers // self.line)
            count = self.num_nodes
            columns = [
                np.ones(count),
                np.diff(self._indptr),
                np.bincount(owners, minlength=count),
                np.bincount(owners, lines(lengths), minlength=count),
                np.bincount(owners, lines(lengths * width), minlength=count),
            ]
            table = np.zeros((count + 1, NUM_FEATURES))
            np.cumsum(np.stack(columns, 1), 0, out=table[1:])
            self._by_width[width] = table
        return self._by_width[width]

    @cached_property
    def _blocks(self) -> tuple[Any, Any]:
        """The vertex of each block of neighbours, and the block's length."""
        # A neighbour s of v is the number v * stride + s: blocks are runs of consecutive numbers,
        # and the stride keeps the last number of one vertex apart from the first of the next.
        stride = self.num_nodes + 1
        rows = np.repeat(np.arange(self.num_nodes, dtype=np.int64), np.diff(self._indptr))
        keys = torch.unique(torch.from_numpy(rows * stride + self._sources)).numpy()
        starts = np.flatnonzero(np.diff(keys, prepend=-2) != 1)
        return keys[starts] // stride, np.diff(starts, append=len(keys))
