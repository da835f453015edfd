"""The namespace has what the array API standard has: names, parameters, special values."""

import ast
import inspect
import itertools

import numpy as np
import pytest
import standard_2024_12 as standard

import graphwright.arrays as ga

x = ga.asarray([[1.0, 2.0], [3.0, 4.0]])


def listed(text):
    lines = [line for line in text.splitlines() if line]
    lines += [f"{name}(x, /)" for name in standard.UNARY if text is standard.FUNCTIONS]
    lines += [f"{name}(x1, x2, /)" for name in standard.BINARY if text is standard.FUNCTIONS]
    return lines


CASES = [
    *((ga, line) for line in listed(standard.FUNCTIONS)),
    *((ga.linalg, line) for line in listed(standard.LINALG)),
    *((ga.fft, line) for line in listed(standard.FFT)),
    *((x, line) for line in listed(standard.METHODS)),
    *((ga.__array_namespace_info__(), line) for line in listed(standard.INFO)),
]


@pytest.mark.parametrize(("where", "line"), CASES, ids=lambda c: c if isinstance(c, str) else "")
def test_calls_that_the_standard_allows_are_allowed(where, line):
    """With the fewest arguments and with all, each by every way in which the standard lets it be given."""
    (node,) = ast.parse(f"def {line}: ...").body
    wanted, signature = node.args, inspect.signature(getattr(where, node.name))
    arrays = [x] * 3 if wanted.vararg else []
    positional = [*wanted.posonlyargs, *wanted.args]
    needed = len(positional) - len(wanted.defaults)
    by_name = {a.arg: x for a in wanted.kwonlyargs}
    signature.bind(*arrays, *[x] * needed)
    signature.bind(*arrays, *[x] * len(positional), **by_name)
    named = {a.arg: x for a in wanted.args}
    signature.bind(*arrays, *[x] * len(wanted.posonlyargs), **named, **by_name)


@pytest.mark.parametrize(("where", "line"), CASES, ids=lambda c: c if isinstance(c, str) else "")
def test_defaults_are_the_standards(where, line):
    (node,) = ast.parse(f"def {line}: ...").body
    signature = inspect.signature(getattr(where, node.name))
    given = [*node.args.posonlyargs, *node.args.args]
    last = given[len(given) - len(node.args.defaults) :]
    pairs = [
        *zip(last, node.args.defaults, strict=True),
        *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
    ]
    for argument, default in pairs:
        own = signature.parameters.get(argument.arg)
        if own is not None and default is not None:
            value = ast.literal_eval(default)
            assert own.default == value or (own.default is None and value is None), argument.arg


def test_names():
    info = ga.__array_namespace_info__()
    for name in standard.CONSTANTS:
        assert getattr(ga, name) is None or isinstance(getattr(ga, name), float)
    for name in standard.DTYPES:
        assert np.dtype(getattr(ga, name)).name == name
    for name in [*standard.ATTRIBUTES, *standard.OPERATORS]:
        assert hasattr(x, name), name
    assert set(standard.DTYPES) <= info.dtypes().keys()
    assert ga.__array_api_version__ == "2024.12"


SPECIAL = {
    "float64": [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e308, 5e-324, np.inf, -np.inf, np.nan],
    "float32": [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 3e38, 1e-45, np.inf, -np.inf, np.nan],
    "int64": [0, 1, -1, 2, -3, 7, 2**63 - 1, -(2**63)],
    "int8": [0, 1, -1, 2, -3, 7, 127, -128],
    "uint8": [0, 1, 2, 3, 7, 255],
    "bool": [False, True],
    "complex128": [0j, 1 + 1j, complex(np.inf, 0), complex(np.nan, 1), complex(-0.0, 2), -1 + 0j],
}


def same(made, expected):
    """Bit for bit, but for which nan it is."""
    made = np.asarray(made)
    assert made.dtype == expected.dtype
    np.testing.assert_array_equal(made, expected)
    if made.dtype.kind == "f":
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(made)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("dtype", SPECIAL)
@pytest.mark.parametrize("name", [*standard.UNARY, *standard.BINARY])
def test_special_values_are_numpys(name, dtype):
    values = np.array(SPECIAL[dtype], dtype=dtype)
    given = (values,)
    if name in standard.BINARY:
        given = tuple(np.array(list(itertools.product(values, values)), dtype=dtype).T)
        if name == "pow" and values.dtype.kind == "i":
            given = (given[0][given[1] >= 0], given[1][given[1] >= 0])
        if "shift" in name and values.dtype.kind in "iu":
            fits = (given[1] >= 0) & (given[1] < values.dtype.itemsize * 8)
            given = tuple(part[fits] for part in given)
    with np.errstate(all="ignore"):
        try:
            expected = getattr(np, name)(*given)
        except TypeError:  # NumPy does not have it for this dtype
            with pytest.raises(TypeError):
                getattr(ga, name)(*(ga.asarray(part) for part in given))
            return
        same(getattr(ga, name)(*(ga.asarray(part) for part in given)), expected)


def values_of(function, first, second):
    with np.errstate(all="ignore"):
        made = getattr(ga, function)(ga.asarray(first), ga.asarray(second))
        return np.asarray(made).tolist()


def test_special_values_that_the_standard_names():
    inf, nan = np.inf, np.nan
    assert values_of("floor_divide", [1.0, -1.0, 0.0], [inf, inf, 5.0])[0] == 0.0
    assert values_of("remainder", [5.0, -5.0], [inf, 3.0]) == [5.0, 1.0]
    assert values_of("pow", [nan, 1.0, 2.0, -0.0], [0.0, nan, -inf, -1.0])[:3] == [1.0, 1.0, 0.0]
    assert values_of("pow", [-0.0], [-1.0]) == [-inf]
    assert values_of("atan2", [0.0, -0.0], [-0.0, -1.0]) == [np.pi, -np.pi]
    assert values_of("maximum", [nan, 1.0], [1.0, nan]) != [1.0, 1.0]
    assert values_of("copysign", [1.0, nan], [-0.0, 1.0])[0] == -1.0
    assert values_of("hypot", [inf, nan], [nan, inf]) == [inf, inf]
    assert values_of("nextafter", [0.0, 1.0], [1.0, 1.0]) == [5e-324, 1.0]
    assert values_of("logaddexp", [-inf, inf], [-inf, -inf]) == [-inf, inf]
