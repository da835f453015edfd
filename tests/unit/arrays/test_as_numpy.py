"""Cases of single functions that are easy to get wrong, against NumPy itself."""

import numpy as np
import pytest

import graphwright.arrays as ga


def same(made, expected):
    """Equal values of one shape and dtype."""
    value, expected = np.asarray(made), np.asarray(expected)
    assert (value.shape, value.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(value, expected, rtol=1e-6, equal_nan=True)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.bool_])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_quantiles_of_every_dtype(dtype, axis):
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(dtype)
    y = ga.asarray(x)
    same(ga.median(y, axis=axis), np.median(x, axis=axis))
    same(np.median(y, axis=axis, keepdims=True), np.median(x, axis=axis, keepdims=True))
    real = x.astype(np.int64) if dtype is np.bool_ else x
    z = ga.asarray(real)
    for q in (50, 12.5, np.float64(30), [25, 75], np.float32(30), [[10.0], [20.0]]):
        same(ga.percentile(z, q, axis=axis), np.percentile(real, q, axis=axis))
    for q in (0.5, [0.25, 0.75], np.float32(0.3), np.float64(0.3)):
        same(ga.quantile(z, q, axis=axis), np.quantile(real, q, axis=axis))
        same(ga.nanquantile(z, q, axis=axis), np.nanquantile(real, q, axis=axis))


def test_a_median_between_a_number_and_infinity():
    same(ga.median([1.0, np.inf]), np.median([1.0, np.inf]))
