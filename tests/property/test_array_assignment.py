"""Programs that write into arrays and into views of them leave in all of them what NumPy leaves there."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import graphwright.arrays as ga
from graphwright.arrays.errors import ImmutableArray

VIEWS = (
    lambda x, key: x[key],
    lambda x, key: x.T,
    lambda x, key: x[::-1],
    lambda x, key: x.reshape(-1),
    lambda x, key: x.reshape((*x.shape, 1)),
    lambda x, key: x.ravel(),
    lambda x, key: x.copy(),
    lambda x, key: x.flatten(),
)
SHAPES = st.sampled_from([(5,), (4, 6), (3, 1, 4), (2, 3, 2, 2)])


def keys(data, shape):
    """A basic key, a mask, or an array of places."""
    kind = data.draw(st.sampled_from(["basic", "basic", "basic", "mask", "places"]))
    if kind == "mask":
        return data.draw(hnp.arrays(bool, shape))
    if kind == "places" and shape and shape[0]:
        return data.draw(hnp.arrays(np.int64, 2, elements=st.integers(-shape[0], shape[0] - 1)))
    return data.draw(hnp.basic_indices(shape, allow_newaxis=False))


@settings(max_examples=80)
@given(data=st.data(), shape=SHAPES)
def test_all_views_see_what_is_written(data, shape):
    theirs = [np.arange(float(np.prod(shape))).reshape(shape)]
    ours = [ga.asarray(theirs[0])]
    for _ in range(data.draw(st.integers(1, 6))):
        chosen = data.draw(st.integers(0, len(theirs) - 1))
        x, y = theirs[chosen], ours[chosen]
        what = data.draw(st.sampled_from(["view", "view", "assign", "add", "forget"]))
        if what == "view":
            key = data.draw(hnp.basic_indices(x.shape, allow_newaxis=False))
            view = data.draw(st.sampled_from(VIEWS))
            made = view(x, key)
            if isinstance(made, np.ndarray) and made.ndim:
                theirs.append(made)
                ours.append(view(y, key))
        elif what == "assign" and x.size:
            key = keys(data, x.shape)
            number = data.draw(st.integers(100, 999))
            size = np.shape(x[key])
            value = number + np.arange(np.prod(size)).reshape(size) if number % 2 else number
            if isinstance(key, np.ndarray) and key.dtype == np.int64 and len({*(key % len(x))}) < 2:
                value = number  # NumPy says which of several values stays for lists of places alone
            x[key] = value
            y[key] = value
        elif what == "add":
            x += 1
            y += 1
        elif len(theirs) > 1:
            del x, y
            theirs.pop(chosen)
            ours.pop(chosen)
    for x, y in zip(theirs, ours, strict=True):
        np.testing.assert_array_equal(y, x)


def test_whole_parts_exchanged():
    x, y = np.arange(12.0).reshape(3, 4), ga.arange(12.0).reshape(3, 4)
    for a in (x, y):
        a[[0, 2]] = a[[2, 0]]
        a[:, 0], a[:, 1] = a[:, 1].copy(), a[:, 0].copy()
        a[1:][a[1:] > 5] *= -1
        a[...] -= a.mean()
    np.testing.assert_array_equal(y, x)


def test_broadcast_arrays_are_read_only():
    row = ga.arange(3)
    rows = ga.broadcast_to(row, (2, 3))
    with pytest.raises(ImmutableArray, match="change a copy"):
        rows[0] = 1


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (5, 1, IndexError), ((0, 0, 0), 1, IndexError), (slice(0, 2), [1, 2, 3], ValueError),
        (0, [1.0, 2.0], ValueError), ("a", 1, IndexError), (0, "text", TypeError),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(key, value, error):
    x = ga.zeros((4, 4))
    with pytest.raises(error):
        x[key] = value
    np.testing.assert_array_equal(x, np.zeros((4, 4)))


def test_results_of_another_dtype_or_shape_do_not_fit_in_place():
    x = ga.arange(3)
    with pytest.raises(TypeError, match="instead of x \\+= y"):
        x += 1.5
    with pytest.raises(ValueError, match="does not fit"):
        x += ga.ones((2, 3), dtype=np.int64)
    assert x.tolist() == [0, 1, 2]
    x *= 2
    assert x.tolist() == [0, 2, 4]
