"""Tall matrices are factored block by block: factors of NumPy's kind, and little leaves the workers."""

import numpy as np
import pytest

import graphwright.arrays as ga
from graphwright.arrays.evaluate import SETTINGS
from graphwright.arrays.running.session import planned

ROWS, COLUMNS = 700, 5


@pytest.fixture(autouse=True)
def spread(monkeypatch):
    monkeypatch.setattr(SETTINGS, "least_bytes", 1)
    ga.use_workers(2, processes=False)
    yield
    ga.disconnect()


def matrix(dtype, rows=ROWS, rank=COLUMNS):
    rng = np.random.default_rng(0)
    made = rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, COLUMNS))
    if np.dtype(dtype).kind == "c":
        made = made + 1j * rng.normal(size=made.shape)
    return made.astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("rows", [ROWS, 701])
def test_qr(dtype, rows):
    given = matrix(dtype, rows)
    q, r = ga.compute(*ga.linalg.qr(ga.from_array(given)))
    near = 1e-4 if dtype == "float32" else 1e-12
    assert q.shape == given.shape and r.shape == (COLUMNS, COLUMNS)
    assert q.dtype == r.dtype == given.dtype
    np.testing.assert_allclose(q @ r, given, atol=10 * near)
    np.testing.assert_allclose(q.conj().T @ q, np.eye(COLUMNS), atol=near)
    np.testing.assert_array_equal(r, np.triu(r))


def test_svd():
    given = matrix("float64")
    x = ga.from_array(given)
    u, s, vh = ga.compute(*ga.linalg.svd(x, full_matrices=False))
    expected = np.linalg.svd(given, compute_uv=False)
    np.testing.assert_allclose(s, expected)
    np.testing.assert_allclose((u * s) @ vh, given, atol=1e-12)
    np.testing.assert_allclose(u.T @ u, np.eye(COLUMNS), atol=1e-12)
    np.testing.assert_allclose(ga.linalg.svdvals(x), expected)


@pytest.mark.parametrize("rank", [COLUMNS, 3])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_lstsq(rank, columns):
    given = matrix("float64", rank=rank)
    b = np.random.default_rng(1).normal(size=(ROWS, *columns))
    expected = np.linalg.lstsq(given, b, rcond=None)
    made = ga.linalg.lstsq(ga.from_array(given), ga.from_array(b))
    assert made[2] == expected[2] == rank
    for own, other in zip(
        (made[0], made[1], made[3]), (expected[0], expected[1], expected[3]), strict=True
    ):
        assert own.shape == other.shape
        np.testing.assert_allclose(own, other, atol=1e-10)


def test_only_triangles_go_between_workers():
    x = ga.from_array(matrix("float64", 64_000))
    made = ga.linalg.qr(x)
    _, how = planned([made.Q._output, made.R._output])
    blocks = 64
    assert 0 < sum(how.received.values()) <= 4 * blocks * COLUMNS**2 * 8 < x.size * 8 / 4
