"""Linear algebra and numerics: factorisations, iterative solvers, stencils, pricing.

Every function takes a namespace first (NumPy, PyTorch, or any with the same names), then arrays.
"""

from __future__ import annotations

from typing import Any

Array = Any
Namespace = Any


def pca(xp: Namespace, samples: Array, components: int = 8) -> Array:
    """Principal components: the leading eigenvectors of the covariance."""
    centred = samples - xp.mean(samples, axis=0)
    covariance = (centred.T @ centred) / (samples.shape[0] - 1)
    vectors = xp.linalg.eigh(covariance)[1]
    return centred @ vectors[:, -components:]


def ssvd(xp: Namespace, matrix: Array, sketch: Array) -> tuple[Array, Array]:
    """Stochastic singular values, by a random projection made orthonormal (Halko et al.)."""
    projected = matrix @ sketch
    factor = xp.linalg.cholesky(projected.T @ projected)
    basis = projected @ xp.linalg.inv(factor).T
    small = basis.T @ matrix
    values, vectors = xp.linalg.eigh(small @ small.T)
    return basis @ vectors, xp.sqrt(xp.clip(values, 0, None))


def conjugate_gradient(xp: Namespace, matrix: Array, target: Array, steps: int = 5) -> Array:
    """Solve a symmetric positive definite system; vectors are columns."""
    solution, residual = 0.0 * target, target
    direction, norm = residual, xp.sum(residual * residual)
    for _ in range(steps):
        image = matrix @ direction
        step = norm / xp.sum(direction * image)
        solution = solution + step * direction
        residual = residual - step * image
        before, norm = norm, xp.sum(residual * residual)
        direction = residual + (norm / before) * direction
    return solution


def cholesky(xp: Namespace, matrix: Array, blocks: int = 4) -> Array:
    """The Cholesky factor of a symmetric positive definite matrix, panel by panel."""
    size = matrix.shape[0] // blocks
    rest, panels = matrix, []
    for k in range(blocks):
        corner = xp.linalg.cholesky(rest[:size, :size])
        below = rest[size:, :size] @ xp.linalg.inv(corner).T
        rest = rest[size:, size:] - below @ below.T
        above = xp.zeros((k * size, size), dtype=matrix.dtype)
        panels.append(xp.concatenate([above, corner, below], axis=0))
    return xp.concatenate(panels, axis=1)


def power_iteration(xp: Namespace, links: Array, ranks: Array, steps: int = 5) -> Array:
    """PageRank: links[i, j] is the chance to go from j to i; ranks is a column."""
    for _ in range(steps):
        ranks = 0.85 * (links @ ranks) + 0.15 / links.shape[0]
    return ranks


def black_scholes(xp: Namespace, price: Array, strike: Array, years: Array) -> tuple[Array, Array]:
    """Prices of European calls and puts; the normal distribution by its tanh approximation."""
    rate, volatility = 0.02, 0.3
    spread = volatility * xp.sqrt(years)
    high = (xp.log(price / strike) + (rate + 0.5 * volatility**2) * years) / spread
    low = high - spread
    discounted = strike * xp.exp(-rate * years)
    call = price * _normal(xp, high) - discounted * _normal(xp, low)
    return call, call - price + discounted


def _normal(xp: Namespace, x: Array) -> Array:
    return 0.5 * (1.0 + xp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def jacobi(xp: Namespace, grid: Array, steps: int = 5) -> Array:
    """Relaxation of a grid with edges of zero: every point becomes the mean of its neighbours."""
    for _ in range(steps):
        inner = (grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]) * 0.25
        grid = xp.pad(inner, 1)
    return grid
