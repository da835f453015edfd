"""Array programs written as a user would, for NumPy, dask.array and graphwright.arrays alike.

A program takes the namespace and its arrays; `sizes` are (quick, full). `tuned` are the chunks that somebody who knows
dask.array would give, for so many workers; where dask.array asks for chunks inside a program, `line` gives them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A program with its data and the chunks of an expert."""

    name: str
    run: Callable[..., Any]
    make: Callable[[int, np.random.Generator], Arrays]
    sizes: tuple[int, int]
    tuned: Callable[[Arrays, int], dict[str, Any]]
    communicates: bool
    """Whether bytes between workers decide how long it takes."""


def by_rows(arrays: Arrays, workers: int) -> dict[str, Any]:
    """Every array of two dims or of many elements in rows, the others whole."""
    chunks: dict[str, Any] = {}
    for name, x in arrays.items():
        large = x.nbytes > 1 << 20
        chunks[name] = (-(-x.shape[0] // workers), *x.shape[1:]) if large else x.shape
    return chunks


def k_means(xp: Any, x: Any, centres: Any) -> Any:
    count = centres.shape[0]
    for _ in range(5):
        apart = (x * x).sum(axis=1)[:, None] - 2 * (x @ centres.T) + (centres * centres).sum(axis=1)
        nearest = xp.argmin(apart, axis=1)
        member = (nearest[:, None] == xp.arange(count)).astype(np.float64)
        centres = (member.T @ x) / member.sum(axis=0)[:, None]
    return centres


def jacobi(xp: Any, u: Any) -> Any:
    for _ in range(5):
        inner = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4
        u = xp.pad(inner, 1)
    return u


def transpose_add(xp: Any, x: Any) -> Any:
    return x + x.T


def standardised_gram(xp: Any, x: Any) -> Any:
    y = (x - x.mean(axis=0)) / x.std(axis=0)
    return y.T @ y


def conjugate_gradient(xp: Any, a: Any, b: Any) -> Any:
    x, r = b * 0, b
    p, length = r, (r * r).sum()
    for _ in range(10):
        ap = a @ p
        step = length / (p * ap).sum()
        x, r = x + step * p, r - step * ap
        new = (r * r).sum()
        p, length = r + (new / length) * p, new
    return x


def black_scholes(xp: Any, price: Any, strike: Any, years: Any) -> Any:
    rate, volatility = 0.02, 0.3

    def cumulative(z: Any) -> Any:  # Abramowitz and Stegun, formula 26.2.17
        t = 1 / (1 + 0.2316419 * abs(z))
        tail = t * (
            0.319381530
            + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429)))
        )
        right = 1 - xp.exp(-z * z / 2) * 0.3989422804014327 * tail
        return xp.where(z < 0, 1 - right, right)

    spread = volatility * xp.sqrt(years)
    d1 = (xp.log(price / strike) + (rate + volatility**2 / 2) * years) / spread
    return price * cumulative(d1) - strike * xp.exp(-rate * years) * cumulative(d1 - spread)


def two_transforms(xp: Any, x: Any) -> Any:
    rows = xp.fft.fft(line(x, 1), axis=1)
    return xp.fft.fft(line(rows, 0), axis=0)


def line(x: Any, axis: int) -> Any:
    """Where dask.array wants whole lines, whole lines."""
    return x.rechunk({axis: -1, 1 - axis: "auto"}) if hasattr(x, "rechunk") else x


def spd(n: int, rng: np.random.Generator) -> Arrays:
    noise = rng.standard_normal((n, n))
    return {"a": (noise + noise.T) / 2 + np.eye(n) * 3 * n**0.5, "b": rng.standard_normal(n)}


APPLICATIONS = (
    Application(
        name="k-means", run=k_means, sizes=(200_000, 2_000_000), tuned=by_rows, communicates=True,
        make=lambda n, rng: {"x": (x := rng.standard_normal((n, 32))), "centres": x[:10].copy()},
    ),
    Application(
        name="Jacobi", run=jacobi, sizes=(2048, 8192), tuned=by_rows, communicates=False,
        make=lambda n, rng: {"u": rng.standard_normal((n, n))},
    ),
    Application(
        name="x + x.T", run=transpose_add, sizes=(2048, 8192), tuned=by_rows, communicates=True,
        make=lambda n, rng: {"x": rng.standard_normal((n, n))},
    ),
    Application(
        name="standardise, Gram", run=standardised_gram, sizes=(4000, 20_000), tuned=by_rows, communicates=True,
        make=lambda n, rng: {"x": rng.standard_normal((n, n * 3 // 10))},
    ),
    Application(
        name="conjugate gradient", run=conjugate_gradient, sizes=(2500, 8192), tuned=by_rows, communicates=True,
        make=spd,
    ),
    Application(
        name="Black-Scholes", run=black_scholes, sizes=(2_000_000, 20_000_000), tuned=by_rows, communicates=False,
        make=lambda n, rng: {
            "price": rng.uniform(10, 50, n), "strike": rng.uniform(10, 50, n), "years": rng.uniform(0.1, 2, n),
        },
    ),
    Application(
        name="FFT rows, columns", run=two_transforms, sizes=(1024, 4096), tuned=by_rows, communicates=True,
        make=lambda n, rng: {"x": rng.standard_normal((n, n))},
    ),
)  # fmt: skip
