"""Graphs of points in space: the k nearest of each (`knn_graph`), or all within a radius."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.storage import DGLError
from graphwright.gnn.transforms.parts import homogeneous

_AT_ONCE = 1 << 24


def knn_graph(
    x: Tensor,
    k: int,
    algorithm: str = "bruteforce-blas",
    dist: str = "euclidean",
    exclude_self: bool = False,
) -> DGLGraph:
    """Edges into each point from its k nearest, itself included unless `exclude_self`.

    `x` is (points, dims), or (sets, points, dims) for sets side by side. Distances are "euclidean"
    or "cosine"; every algorithm of DGL's is taken, and gives exact neighbours.
    """
    if x.dim() not in (2, 3):
        raise DGLError(f"Find empty point set or wrong dims: x has shape {tuple(x.shape)}")
    sets = x[None] if x.dim() == 2 else x
    sizes = [sets.shape[1]] * len(sets)
    return segmented_knn_graph(sets.flatten(0, 1), k, sizes, algorithm, dist, exclude_self)


def segmented_knn_graph(
    x: Tensor,
    k: int,
    segs: Sequence[int],
    algorithm: str = "bruteforce-blas",
    dist: str = "euclidean",
    exclude_self: bool = False,
) -> DGLGraph:
    """The same for sets of `segs` points, one set after another in `x`."""
    if dist not in ("euclidean", "cosine"):
        raise DGLError(f'dist has to be "euclidean" or "cosine". Got {dist!r}.')
    if sum(segs) != len(x):
        raise DGLError(f"segs add up to {sum(segs)}, but there are {len(x)} points")
    needed = k + 1 if exclude_self else k
    if x.numel() == 0 or (segs and min(segs) < needed):
        raise DGLError(f"every set needs at least {needed} points for k = {k}. Got sets of {segs}.")
    points = torch.nn.functional.normalize(x, dim=-1) if dist == "cosine" else x
    nearest, start = [], 0
    for size in segs:
        part = points[start : start + size]
        chunk = max(_AT_ONCE // size, 1)
        for at in range(0, size, chunk):
            far = torch.cdist(
                part[at : at + chunk], part, compute_mode="donot_use_mm_for_euclid_dist"
            )
            if exclude_self:
                rows = torch.arange(len(far), device=x.device)
                far[rows, rows + at] = float("inf")
            nearest.append(far.topk(k, largest=False).indices + start)
        start += size
    src = torch.cat(nearest).reshape(-1)
    dst = torch.arange(len(x), device=x.device).repeat_interleave(k)
    return homogeneous(src, dst, len(x))


def radius_graph(
    x: Tensor,
    r: float,
    p: float = 2,
    self_loop: bool = False,
    compute_mode: str = "donot_use_mm_for_euclid_dist",
    get_distances: bool = False,
) -> Any:
    """Edges both ways between points at most `r` apart (p-norm); with their lengths if asked."""
    if x.dim() != 2:
        raise DGLError(f"x has to be (points, dims). Got shape {tuple(x.shape)}.")
    far = torch.cdist(x, x, p=p, compute_mode=compute_mode)
    near = far <= r
    near.fill_diagonal_(self_loop)
    src, dst = near.nonzero(as_tuple=True)
    made = homogeneous(src, dst, len(x))
    return (made, far[src, dst].reshape(-1, 1)) if get_distances else made
