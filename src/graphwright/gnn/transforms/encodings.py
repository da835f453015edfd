"""What the adjacency matrix says about nodes: spectra, walks that return, distances.

A is the adjacency matrix with rows for sources, D the diagonal matrix of in-degrees (at least 1):

    Laplacian         I - D^-1/2 A D^-1/2      `lap_pe`, `laplacian_lambda_max`
    random walk       diagonals of (A / row sums)^1 .. ^k                  `random_walk_pe`
    singular values   the largest k of A                                   `svd_pe`
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.storage import DGLError
from graphwright.gnn.transforms.neighbourhoods import adjacency
from graphwright.gnn.transforms.parts import require_homogeneous

_DENSE = 512


def _laplacian(g: DGLGraph) -> Any:
    from scipy.sparse import diags_array, eye_array

    scale = diags_array(g.in_degrees().cpu().numpy().clip(1).astype(np.float64) ** -0.5)
    return (eye_array(g.num_nodes()) - scale @ adjacency(g).astype(np.float64) @ scale).tocsr()


def _eigen(matrix: Any) -> tuple[Any, Any]:
    """Eigenvalues in ascending order and their vectors, real parts."""
    dense = matrix.toarray()
    if np.array_equal(dense, dense.T):
        values, vectors = np.linalg.eigh(dense)
    else:
        values, vectors = np.linalg.eig(dense)
    order = values.real.argsort(kind="stable")
    return values.real[order], vectors.real[:, order]


def lap_pe(g: DGLGraph, k: int, padding: bool = False, return_eigval: bool = False) -> Any:
    """The k eigenvectors of the Laplacian after the first, each with a random sign, by node.

    With fewer nodes than k + 1, `padding` fills up with zeros (NaN for eigenvalues).
    """
    require_homogeneous(g, "lap_pe")
    n = g.num_nodes()
    if not padding and n <= k:
        raise DGLError(
            f"the number of eigenvectors k must be smaller than the number of nodes n, {k} and {n} "
            "detected; padding=True fills up."
        )
    values, vectors = _eigen(_laplacian(g))
    chosen = torch.from_numpy(vectors[:, 1 : k + 1].copy()).float()
    chosen *= 2 * torch.randint(0, 2, (chosen.shape[1],)) - 1
    eigenvalues = torch.from_numpy(values[1 : k + 1].copy()).float()
    missing = k - chosen.shape[1]
    chosen = torch.cat([chosen, torch.zeros(n, missing)], 1).to(g.device)
    if not return_eigval:
        return chosen
    return chosen, torch.cat([eigenvalues, torch.full((missing,), float("nan"))]).to(g.device)


def laplacian_pe(g: DGLGraph, k: int, padding: bool = False, return_eigval: bool = False) -> Any:
    """The former name of `lap_pe`."""
    return lap_pe(g, k, padding, return_eigval)


def laplacian_lambda_max(g: DGLGraph) -> list[float]:
    """The largest eigenvalue of the Laplacian, of each graph of a batch."""
    require_homogeneous(g, "laplacian_lambda_max")
    whole, found, start = _laplacian(g), [], 0
    for count in g.batch_num_nodes().tolist():
        part = whole[start : start + count, start : start + count]
        if count <= _DENSE:
            found.append(float(np.linalg.eigvals(part.toarray()).real.max()))
        else:
            from scipy.sparse.linalg import eigs

            largest = eigs(part, 1, which="LR", v0=np.ones(count), return_eigenvectors=False)
            found.append(float(largest[0].real))
        start += count
    return found


def random_walk_pe(g: DGLGraph, k: int, eweight_name: str | None = None) -> Tensor:
    """The probabilities that a random walk is back at its node after 1, 2, ... k steps."""
    require_homogeneous(g, "random_walk_pe")
    weights = None if eweight_name is None else g.edata[eweight_name].reshape(-1)
    matrix = adjacency(g, weights=weights).toarray().astype(np.float64)
    step = matrix / (matrix.sum(1, keepdims=True) + 1e-30)
    power, diagonals = np.eye(len(matrix)), []
    for _ in range(k):
        power = power @ step
        diagonals.append(np.diagonal(power).copy())
    stacked = np.stack(diagonals, -1) if diagonals else np.zeros((len(matrix), 0))
    return torch.from_numpy(stacked).float().to(g.device)


def svd_pe(g: DGLGraph, k: int, padding: bool = False, random_flip: bool = True) -> Tensor:
    """The largest k singular vectors of A, left and right, times the roots of their values."""
    require_homogeneous(g, "svd_pe")
    n = g.num_nodes()
    if not padding and n < k:
        raise DGLError(
            f"the number of singular values k must be no greater than the number of nodes n, {k} "
            f"and {n} detected; padding=True fills up."
        )
    matrix = torch.from_numpy(adjacency(g).toarray()).double()
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    root = values[:k].sqrt()
    parts = [left[:, :k] * root, right.T[:, :k] * root]
    parts = [torch.cat([part, part.new_zeros(n, k - part.shape[1])], 1) for part in parts]
    made = torch.cat(parts, 1).float()
    if random_flip:
        made = made * (2 * torch.randint(0, 2, (2 * k,)) - 1)
    return made.to(g.device)


def shortest_dist(g: DGLGraph, root: int | None = None, return_paths: bool = False) -> Any:
    """The number of edges from a root, or from each node, to each node; -1 where none lead there.

    With `return_paths` also the edges of a shortest path to each, filled up with -1.
    """
    from scipy.sparse.csgraph import shortest_path

    require_homogeneous(g, "shortest_dist")
    found, before = shortest_path(
        adjacency(g), unweighted=True, return_predecessors=True, indices=root
    )
    unreachable = np.isinf(found)
    distances = np.where(unreachable, -1, found).astype(np.int64)
    result = torch.from_numpy(distances).to(g.device)
    if not return_paths:
        return result
    rows, before = distances.reshape(-1, g.num_nodes()), before.reshape(-1, g.num_nodes())
    longest = max(int(rows.max(initial=0)), 0)
    steps = np.full((*rows.shape, longest), -1, np.int64)
    edge_between = {}
    for edge, ends in reversed(list(enumerate(zip(*(e.tolist() for e in g.edges()), strict=True)))):
        edge_between[ends] = edge
    for start, length in np.ndindex(len(rows), longest):
        ends = np.nonzero(rows[start] == length + 1)[0]
        for end in ends.tolist():
            last = int(before[start, end])
            steps[start, end, :length] = steps[start, last, :length]
            steps[start, end, length] = edge_between[(last, end)]
    paths = torch.from_numpy(steps if root is None else steps[0]).to(g.device)
    return result, paths


def double_radius_node_labeling(g: DGLGraph, src: int, dst: int) -> Tensor:
    """Labels of nodes by their distances to two of them (Zhang and Chen 2018, SEAL).

    The two have label 1, nodes that not both can reach 0. Distances to one leave the other out.
    """
    from scipy.sparse.csgraph import shortest_path

    matrix, n = adjacency(g), g.num_nodes()
    distances = []
    for root, other in ((src, dst), (dst, src)):
        kept = np.delete(np.arange(n), other) if other != root else np.arange(n)
        within = shortest_path(
            matrix[kept][:, kept], directed=False, unweighted=True,
            indices=int(np.searchsorted(kept, root)),
        )  # fmt: skip
        far = np.full(n, np.inf)
        far[kept] = within
        distances.append(far)
    both = distances[0] + distances[1]
    reached = np.isfinite(both)
    total = np.where(reached, both, 0).astype(np.int64)
    half, odd = np.divmod(total, 2)
    nearer = np.minimum(distances[0], distances[1])
    label = 1 + np.where(reached, nearer, 0).astype(np.int64) + half * (half + odd - 1)
    label = np.where(reached, label, 0)
    label[[src, dst]] = 1
    return torch.from_numpy(label).to(g.device)


def norm_by_dst(g: DGLGraph, etype: Any = None) -> Tensor:
    """One over the number of edges into the destination of each edge."""
    relation = g.relation(etype)
    return 1.0 / relation.in_degrees()[relation.coo[1].long()].float()
