"""Products by groups of rows: groups that are empty, rows that belong to none, parts of rows."""

import torch
from hypothesis import strategies as st

from cases import Call, Draw, case, real, size


def grouped(draw: Draw, groups: int) -> tuple[int, int, torch.Tensor]:
    """The number of rows, the first of them, and the bounds of the groups, which need not be rows."""
    bounds = sorted(draw(st.lists(st.integers(0, 9), min_size=groups + 1, max_size=groups + 1)))
    dtype = draw(st.sampled_from([torch.int32, torch.int64]))
    return size(draw, 1, 9), draw(st.sampled_from([0, 0, 2])), torch.tensor(bounds, dtype=dtype)


@case("graphwright.grouped_mm")
def grouped_mm(draw: Draw) -> Call:
    groups, n, k = size(draw, 1, 5), size(draw), size(draw)
    rows, row, bounds = grouped(draw, groups)
    return {"row": row}, [real(draw, rows, k), real(draw, groups, k, n), bounds]


@case("graphwright.grouped_mm_grad_weight")
def grouped_mm_grad_weight(draw: Draw) -> Call:
    rows, row, bounds = grouped(draw, size(draw, 1, 5))
    return {"row": row}, [real(draw, rows, size(draw)), real(draw, rows, size(draw)), bounds]
