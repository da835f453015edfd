"""The kernels as PyTorch operators: parts of rows, ends that nobody reads, ends out of range."""

import pytest
import torch

from graphwright.gnn.kernels import registered

SRC, DST = torch.tensor([0, 1, 1, 2]), torch.tensor([3, 0, 3, 1])


def test_a_part_of_the_rows_keeps_its_edges():
    x = torch.arange(3.0).reshape(3, 1)
    whole = registered.message_sum(SRC, DST, x, None, "copy", "u", "e", "v", [4, 1], 0)
    assert whole.flatten().tolist() == [1, 2, 0, 1]
    part = registered.message_sum(SRC, DST, x, None, "copy", "u", "e", "v", [2, 1], 2)
    assert part.flatten().tolist() == [0, 1]
    most, edges = registered.message_extreme(SRC, DST, x, None, "copy", "u", "e", False, [2, 1], 2)
    assert most.flatten().tolist() == [0, 1] and edges.flatten().tolist() == [-1, 2]


def test_ends_that_no_operand_needs_may_have_another_length():
    x = torch.arange(4.0)
    longer = torch.zeros(9, dtype=torch.int64)
    made = registered.message_sum(longer, DST, x, None, "copy", "e", "e", "v", [4], 0)
    assert made.tolist() == [1, 3, 0, 2]
    assert registered.message_sum(longer, longer, x, x, "add", "e", "e", "e", [4], 0).tolist() == [
        0, 2, 4, 6,
    ]  # fmt: skip


def test_ends_out_of_range_are_refused():
    x = torch.zeros(2, 1)
    for end in ("e", "v"):
        with pytest.raises(IndexError, match="from 0 to 2, but there are 2 rows"):
            registered.message_sum(SRC, DST, x, None, "copy", "u", "e", end, [4, 1], 0)


def test_what_is_sorted_is_kept_while_the_ends_live():
    x, ends = torch.ones(3, 1), [SRC.clone(), DST.clone()]
    call = lambda: registered.message_sum(*ends, x, None, "copy", "u", "e", "v", [4, 1], 0)
    held = lambda: [e[3] for e in registered._relations.values() if e[1]() is ends[1]]
    call()
    kept = held()
    call()
    assert len(kept) == 1 and held() == kept
    ends[1].mul_(0)  # written to: sorted anew
    assert call().flatten().tolist() == [4, 0, 0, 0]
    ends[0] = SRC
    assert held() == []
