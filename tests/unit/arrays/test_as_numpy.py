"""Cases of single functions that are easy to get wrong, against NumPy itself."""

import pickle

import numpy as np
import pytest

import graphwright.arrays as ga
from graphwright.arrays.errors import ImmutableArray
from graphwright.arrays.operators.random_numbers import scale_words


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


def test_masks_have_the_sizes_of_their_dims():
    x = np.arange(24.0).reshape(3, 2, 4)
    y = ga.asarray(x)
    rows, last, both = x[:, 0, 0] > 3, x[0, 0] > 1, x[..., 0] > 7
    for key in (
        rows,
        both,
        (..., last),
        (slice(None), 1, last),
        (None, rows),
        (rows, ..., None),
        x > 5,
    ):
        same(y[key], x[key])
    short, long = np.ones(2, bool), np.zeros(5, bool)
    for key in (
        short,
        long,
        (..., short),
        (slice(None), rows),
        np.ones((3, 1), bool),
        (None, short),
        [True],
    ):
        with pytest.raises(IndexError):
            x[key]
        with pytest.raises(IndexError, match="a mask of"):
            y[key]
        with pytest.raises(IndexError, match="a mask of"):
            ga.update(y, key, 9)


def test_least_squares_of_any_shape_and_rank():
    rng = np.random.default_rng(0)
    vander = np.vander(np.linspace(0, 1, 200), 12)
    wide, twice = rng.normal(size=(3, 5)), rng.normal(size=(8, 3))
    twice[:, 2] = 2 * twice[:, 1]
    for a, b in (
        (vander, vander @ rng.normal(size=12)),
        (wide, wide[:, 0]),
        (twice, np.ones((8, 2))),
    ):
        expected = np.linalg.lstsq(a, b, rcond=None)
        for made in (
            ga.linalg.lstsq(ga.asarray(a), b),
            np.linalg.lstsq(ga.asarray(a), ga.asarray(b)),
        ):
            assert made[2] == expected[2]
            for mine, theirs in zip(made, expected, strict=True):
                same(mine, theirs)


def test_bins_by_a_rule():
    x = np.random.default_rng(0).normal(size=200)
    for bins in ("auto", "sqrt", "fd", 7, [-1.0, 0.0, 0.5]):
        for made, expected in zip(
            ga.histogram(ga.asarray(x), bins), np.histogram(x, bins), strict=True
        ):
            same(made, expected)
    with pytest.raises(ValueError, match="monotonically"):
        ga.histogram(x, [3, 2, 1])


@pytest.mark.parametrize("x", [[1.0, np.inf], [1.0, np.nan, 3.0], [1 + 2j, np.nan, 3j], [np.nan]])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_variances_without_nan(x):
    same(ga.nanvar(x), np.nanvar(x))
    same(ga.nanstd(x), np.nanstd(x))


@pytest.mark.parametrize(
    "ends", [(0, 5, 1.5), (0.5, 5), (-2.5, 3.0, 0.5), (0, 2, 0.5), (7, -3, -2.5)]
)
@pytest.mark.parametrize("dtype", [int, np.int8, np.float32])
def test_ranges_in_a_dtype(ends, dtype):
    same(ga.arange(*ends, dtype=dtype), np.arange(*ends, dtype=dtype))


@pytest.mark.parametrize("span", [1, 3, 2**32 - 1, 2**32, 2**56, 2**63 - 1, 2**64 - 1])
def test_words_are_scaled_exactly(span):
    words = np.random.default_rng(0).integers(0, 2**64, 200, np.uint64, endpoint=False)
    words[:2] = 0, 2**64 - 1
    made = scale_words(words, np.asarray(span, np.uint64))
    assert made.tolist() == [int(word) * span >> 64 for word in words]


def test_integers_use_all_their_bits():
    draw = ga.random.default_rng(0).integers
    assert set((draw(0, 2**63 - 1, 200) & 1023).tolist()) - {0}
    assert set(draw(-2, 3, 500).tolist()) == {-2, -1, 0, 1, 2}
    assert set(draw(1, 3, 500, endpoint=True, dtype=np.uint8).tolist()) == {1, 2, 3}
    whole = draw(-(2**63), 2**63, 200).compute()
    assert whole.dtype == np.int64
    assert (whole < 0).any()
    assert (whole > 0).any()


X = ga.asarray(np.arange(4, dtype=np.uint8))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: ga.random.default_rng(0).integers(5, 1), ValueError),
        (lambda: ga.random.default_rng(0).integers(0), ValueError),
        (lambda: ga.random.default_rng(0).integers(0, 300, dtype=np.int8), ValueError),
        (lambda: ga.random.default_rng(0).normal(scale=-1), ValueError),
        (lambda: ga.random.default_rng(0).normal(size=-1), ValueError),
        (lambda: ga.random.default_rng(0).exponential(-1), ValueError),
        (lambda: ga.pad(X, -1), ValueError),
        (lambda: ga.diff(X, n=-1), ValueError),
        (lambda: X + 300, OverflowError),
        (lambda: ga.join_update(X, [0.5], 1), IndexError),
    ],
)
def test_what_numpy_refuses_is_refused(call, error):
    with pytest.raises(error) as raised:
        call()
    assert isinstance(raised.value, ga.ArrayError)


def test_comparisons_with_what_is_no_number():
    assert (X == None).tolist() == [False] * 4  # noqa: E711
    assert (X != "x").tolist() == [True] * 4
    assert (X < 300).tolist() == [True] * 4


M = np.arange(12.0).reshape(3, 4)
BY_PLACE = [
    *[lambda xp, x, name=name: getattr(xp, name)(x, 0) for name in (
        "sum", "mean", "max", "argmax", "any", "std", "prod", "nansum", "median", "flip", "sort", "argsort", "tril",
    )],
    lambda xp, x: [xp.zeros((2, 3), int), xp.ones(3, np.float32), xp.full(2, 7, float), xp.eye(3, 4, 1)],
    lambda xp, x: [xp.concatenate([x, x], 1), xp.stack([x, x], 1), *xp.split(x, 2, 1)],
    lambda xp, x: [xp.roll(x, 1, 0), xp.take(x, [1], 0), xp.repeat(x, 2, 0), xp.diff(x, 1, 0)],
    lambda xp, x: [xp.tensordot(x, x.T, 1), xp.percentile(x, 50, 0), *xp.histogram(x, 5, (0, 1))],
    lambda xp, x: [xp.triu(x, 1), xp.trace(x, 1), xp.fft.fft(x, 8, 0), xp.fft.fftfreq(8, 0.5)],
    lambda xp, x: [xp.sum(x, 0, np.float32), xp.var(x, 0, ddof=1), xp.std(x, 0, None, None, 1)],
    lambda xp, x: [xp.sum(x, where=x > 3), xp.sum(x, initial=5.0), xp.pad(x, 1, "edge"), xp.add(x, 1, dtype=np.float32)],
    lambda xp, x: [*xp.histogram(x, 3, density=True), xp.bincount([1, 1], weights=[0.5, 1]), xp.angle(x, deg=True)],
    lambda xp, x: [xp.ravel(x, order="F"), *xp.average(x, returned=True), xp.einsum("ij->j", x, optimize=True)],
    lambda xp, x: [*xp.gradient(x), xp.cov(x), xp.convolve(x[0], x[1]), xp.interp(2.5, x[0], x[1]), xp.logspace(0, 1, 3)],
    lambda xp, x: [*xp.array_split(x, 2), xp.flatnonzero(x), xp.vdot(x, x), xp.linalg.cond(x), xp.fft.fft2(x)],
    lambda xp, x: [*xp.linalg.eig(x[:, :3] + 1), xp.digitize(x, [2, 5]), xp.linalg.svd(x, compute_uv=False)],
]  # fmt: skip


@pytest.mark.parametrize("program", BY_PLACE)
def test_calls_are_those_of_numpy(program):
    made, expected = program(ga, ga.asarray(M)), program(np, M)
    if not isinstance(expected, list):
        made, expected = [made], [expected]
    for mine, theirs in zip(made, expected, strict=True):
        assert isinstance(mine, ga.Array | float)
        same(mine, theirs)


def test_names_that_nobody_has():
    for call in (lambda: ga.nonsense, lambda: ga.linalg.nonsense, lambda: ga._core):
        with pytest.raises(AttributeError, match="neither"):
            call()
    with pytest.raises(TypeError):
        ga.sum(M, nonsense=1)
    with pytest.raises(TypeError):
        ga.sum(M, 0, axis=0)
    assert ga.linalg.LinAlgError is np.linalg.LinAlgError


@pytest.mark.parametrize("function", [ga.sum, ga.concatenate, ga.linalg.inv, ga.fft.fft, ga.add])
def test_functions_can_be_pickled(function):
    assert pickle.loads(pickle.dumps(function)) is function


def test_results_go_into_arrays_of_numpy():
    a, x = np.zeros(4), ga.asarray(M)
    a += x[1]
    same(a, M[1])
    np.add(a, x[1], out=a)
    same(a, 2 * M[1])
    with pytest.raises(ImmutableArray):
        np.add(a, 1, out=x[1])


def test_a_cast_takes_numpys_copy():
    same(ga.asarray(M).astype(np.int32, copy=False), M.astype(np.int32, copy=False))


def test_two_results_of_a_function():
    for made in (divmod(ga.asarray(M), 3), np.divmod(ga.asarray(M), 3)):
        for mine, theirs in zip(made, np.divmod(M, 3), strict=True):
            assert isinstance(mine, ga.Array)
            same(mine, theirs)
