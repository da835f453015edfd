"""Results do not depend on the number of threads, to the bit."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from graphwright.gnn.kernels import edge_softmax, gsddmm, gspmm
from graphwright.gnn.kernels.cpu.threads import over_rows
from graphwright.gnn.storage import Relation


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def results():
    generator = torch.Generator().manual_seed(0)
    src = torch.randint(300, (20_000,), generator=generator)
    dst = (torch.rand(20_000, generator=generator) ** 4 * 300).long()  # a few hubs
    relation = Relation(num_src=300, num_dst=300, made_coo=(src, dst))
    x = torch.randn(300, 4, 16, generator=generator, requires_grad=True)
    w = torch.randn(20_000, 4, 1, generator=generator, requires_grad=True)
    score = torch.randn(300, 4, 1, generator=generator, requires_grad=True)
    made = [
        gspmm(relation, "mul", "min", (score, "u"), (x[:1].expand(20_000, 4, 16), "e")),
        gspmm(relation, "copy", "max", (w, "e")),
        gspmm(relation, "add", "max", (x, "u"), (x, "v")),
        gspmm(relation, "mul", "sum", (x, "u"), (w, "e")),
        gspmm(relation, "mul", "max", (x, "u"), (w, "e")),
        gsddmm(relation, "dot", (x, "u"), (x, "v")),
        edge_softmax(relation, w),
    ]
    grads = torch.autograd.grad(sum((part * part).sum() for part in made), (x, w, score))
    return [*made, *grads]


def test_any_number_of_threads_gives_the_same_bits(threads):
    threads(1)
    alone = results()
    for count in (2, 3, 5):
        threads(count)
        for ours, theirs in zip(results(), alone, strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_parts_cover_every_row_once(threads, count):
    threads(count)
    degrees = np.zeros(1000, np.int64)
    degrees[[0, 500]] = 100_000
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    seen = []
    over_rows(lambda start, stop, indptr: seen.append((int(start), int(stop))), indptr, 8)
    covered = sorted(seen)
    assert covered[0][0] == 0 and covered[-1][1] == 1000
    assert all(a[1] == b[0] for a, b in pairwise(covered))
