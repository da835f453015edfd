"""Which regions lie in one piece, and how much is copied around transfers."""

import numpy as np
import pytest
import torch

from graphwright.ir import TensorType
from graphwright.machine import cluster
from graphwright.plans import Sharding, parse_placement, whole_mesh
from graphwright.run.program.regions import window
from graphwright.tasks.resharding.staging import in_one_piece, staged_bytes
from reshardings import KINDS

MATRIX = TensorType((8, 6), "float32")
WHOLE = 8 * 6 * 4


def test_one_piece_is_what_pytorch_calls_contiguous():
    """All regions of a small tensor."""
    shape = (2, 3, 2)
    ranges = [[(a, b) for a in range(n) for b in range(a + 1, n + 1)] for n in shape]
    regions = [(p, q, r) for p in ranges[0] for q in ranges[1] for r in ranges[2]]
    expected = [window(torch.zeros(shape), region).is_contiguous() for region in regions]
    sizes = np.broadcast_to(shape, (len(regions), 3))
    assert in_one_piece(np.array(regions), sizes).tolist() == expected
    assert 0 < sum(expected) < len(expected)


@pytest.mark.parametrize(
    ("kind", "source", "target", "expected"),
    [
        ("all_gather", "S0", "R", 0),  # rows arrive where they belong
        ("all_gather", "S1", "R", WHOLE // 2),  # columns do not
        ("reduce_scatter", "P(sum)", "S0", WHOLE // 2),  # the other's terms
        ("reduce_scatter", "P(sum)", "S1", WHOLE),  # and what is packed for it
        ("all_to_all", "S0", "S1", WHOLE // 4),  # columns are packed, rows arrive in place
        ("all_to_all", "S1", "S0", WHOLE // 4),
        ("all_reduce", "P(sum)", "R", 0),
    ],
)
def test_copies_of_a_collective(kind, source, target, expected):
    mesh = whole_mesh(cluster("local:2"))
    before, after = (Sharding(mesh, (parse_placement(word),)) for word in (source, target))
    assert staged_bytes(KINDS[kind], before, after, MATRIX).tolist() == [expected] * 2


@pytest.mark.parametrize(
    ("kind", "source", "target", "expected"),
    [("all_gather", "S0", "R", WHOLE // 2), ("all_gather", "S1", "R", 0), ("reduce_scatter", "P(sum)", "S1", WHOLE // 2)],
)  # fmt: skip
def test_columns_of_a_transposed_matrix_are_rows_in_memory(kind, source, target, expected):
    mesh = whole_mesh(cluster("local:2"))
    before, after = (Sharding(mesh, (parse_placement(word),)) for word in (source, target))
    assert staged_bytes(KINDS[kind], before, after, MATRIX, (1, 0)).tolist() == [expected] * 2
