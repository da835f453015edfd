"""Every public function gives what NumPy gives: shapes, dtypes and values, 0-d and empty arrays among them."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import graphwright.arrays as ga
from array_programs import FFT, LINALG, NAMES, ONLY_HERE
from graphwright.arrays import _RUNNING
from graphwright.arrays.namespace import dtypes
from graphwright.arrays.namespace.elementwise import ONE, STANDARD_NAMES, TWO

DTYPES = [np.dtype(name) for name in dtypes.DTYPES]
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
kinds = st.sampled_from(DTYPES)


def draw_array(data, shape, dtype):
    elements = {"allow_nan": True} if dtype.kind in "fc" else None
    return data.draw(
        hnp.arrays(dtype, shape, elements=None if elements is None else hnp.from_dtype(dtype))
    )


def same(made, expected, exact=False):
    if isinstance(expected, list | tuple):
        assert len(made) == len(expected)
        for a, b in zip(made, expected, strict=True):
            same(a, b, exact)
        return
    value, expected = np.asarray(made), np.asarray(expected)
    assert value.shape == expected.shape
    assert value.dtype == expected.dtype
    if exact:
        np.testing.assert_array_equal(value, expected)
    else:
        np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-9)


def outcome(function, *args):
    """What a function makes, or that it refuses."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            made = function(*args)
            return made.compute() if isinstance(made, ga.Array) else made
        except (TypeError, ValueError):
            return None


@pytest.mark.parametrize("name", ONE)
@settings(max_examples=12)
@given(data=st.data(), shape=shapes, dtype=kinds)
def test_functions_of_one_element(name, data, shape, dtype):
    x = draw_array(data, shape, dtype)
    expected, made = outcome(getattr(np, name), x), outcome(getattr(ga, name), ga.asarray(x))
    if expected is None:
        assert made is None
    else:
        same(made, expected, exact=True)


@pytest.mark.parametrize("name", TWO)
@settings(max_examples=12)
@given(
    data=st.data(),
    both=hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3),
    left=kinds,
    right=kinds,
)
def test_functions_of_two_elements(name, data, both, left, right):
    x, y = (
        draw_array(data, shape, dtype)
        for shape, dtype in zip(both.input_shapes, (left, right), strict=True)
    )
    if name in ("left_shift", "right_shift") and y.dtype.kind in "iu":
        y = y & 7
    expected = outcome(getattr(np, name), x, y)
    made = outcome(getattr(ga, name), ga.asarray(x), ga.asarray(y))
    if expected is None:
        assert made is None
    else:
        same(made, expected, exact=True)


@pytest.mark.parametrize("name", ["add", "multiply", "less", "maximum", "subtract", "divide"])
@settings(max_examples=20)
@given(
    data=st.data(), shape=shapes, dtype=kinds, number=st.sampled_from([True, 3, -2, 300, 1.5, 2j])
)
def test_numbers_take_the_dtype_beside_them(name, data, shape, dtype, number):
    x = draw_array(data, shape, dtype)

    def run(xp, value):
        try:
            return outcome(getattr(xp, name), value, number)
        except OverflowError:
            return "overflow"

    expected, made = run(np, x), run(ga, ga.asarray(x))
    if expected is None or isinstance(expected, str):
        assert made is None or isinstance(made, str) or expected == "overflow"
    else:
        same(made, expected, exact=True)


def test_aliases_are_the_functions_that_they_name():
    own = {"round", "mod", "true_divide", "conj"}
    for alias, name in STANDARD_NAMES.items():
        assert alias in own or getattr(ga, alias).__name__ == name
        assert hasattr(np, alias) or alias in ga.__all__


def cases(table):
    return [
        pytest.param(shape, program, id=f"{name}-{shape}")
        for name, (all_shapes, program) in table.items()
        for shape in all_shapes
    ]


@pytest.mark.parametrize(("shape", "program"), cases(NAMES) + cases(FFT))
def test_programs(shape, program):
    x = np.round(np.random.default_rng(1).normal(size=shape) * 2, 2)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected = program(np, x)
    same(program(ga, ga.asarray(x)), expected)


@pytest.mark.parametrize(("shape", "program"), cases(LINALG))
def test_linear_algebra(shape, program):
    x = np.random.default_rng(2).normal(size=shape)
    same(program(ga, ga.asarray(x)), program(np, x))


def test_every_public_name_is_compared():
    seen = {
        *NAMES,
        *ONE,
        *TWO,
        *STANDARD_NAMES,
        *ONLY_HERE,
        *dtypes.DTYPES,
        *dtypes.CONSTANTS,
        *_RUNNING,
    }
    seen |= {"Array", "ArrayError", "fft", "linalg", "ndarray", "random"}
    assert not set(ga.__all__) - seen
    assert not set(vars(ga.linalg)) - set(LINALG)
    assert not set(vars(ga.fft)) - set(FFT)


def test_the_names_of_the_standard_are_there():
    standard = """
    e inf nan newaxis pi arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like
    tril triu zeros zeros_like astype can_cast finfo iinfo isdtype result_type bool int8 int16 int32 int64 uint8 uint16
    uint32 uint64 float32 float64 complex64 complex128 __array_namespace_info__ abs acos acosh add asin asinh atan atan2
    atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign
    cos cosh divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less
    less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply
    negative nextafter not_equal positive pow real reciprocal remainder round sign signbit sin sinh square sqrt subtract
    tan tanh trunc take take_along_axis matmul matrix_transpose tensordot vecdot broadcast_arrays broadcast_to concat
    expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack tile unstack argmax argmin count_nonzero
    nonzero searchsorted where unique_all unique_counts unique_inverse unique_values argsort sort cumulative_prod
    cumulative_sum max mean min prod std sum var all any diff linalg fft __array_api_version__
    """
    assert not [name for name in standard.split() if not hasattr(ga, name)]
    linalg = "cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm"
    assert not [name for name in linalg.split() if not hasattr(ga.linalg, name)]
    fft = (
        "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift"
    )
    assert not [name for name in fft.split() if not hasattr(ga.fft, name)]
