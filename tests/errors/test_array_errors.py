"""Messages of distributed arrays: what was given, and what to give instead."""

import numpy as np
import pytest

import graphwright.arrays as ga

X = ga.asarray(np.arange(12.0).reshape(3, 4))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ga.map(lambda a: a.sum(), X, dtype=float).compute(),
            r"returned \(\), not \(3, 4\)",
        ),
        (lambda: ga.map(lambda a: a[:1], X).compute(), r"returned \(1, 4\), not \(3, 4\)"),
        (lambda: ga.filter(lambda a: 3, X), r"returned \(\), not"),
        (lambda: ga.einsum("ij->k", X), "no array has an index k"),
        (lambda: ga.einsum("ij,jk->ik", X), "is for 2 arrays, not for 1"),
        (lambda: ga.zeros(-1), "shape -1: sizes are 0 or more"),
        (lambda: ga.zeros((10**10, 10**10)), "elements at most"),
        (lambda: ga.linspace(0, 1, -1), "sizes are 0 or more"),
        (lambda: ga.where(X, 1), "both arrays to choose from, or neither"),
        (lambda: ga.use_workers("4"), "'4' workers; give a whole number"),
        (lambda: ga.use_workers(2.5), "2.5 workers; give a whole number"),
        (lambda: ga.use_workers(True), "True workers; give a whole number"),
        (lambda: ga.use_workers(0), "0 workers; give a whole number"),
    ],
)
def test_messages(call, message):
    with pytest.raises(ga.ArrayError, match=message):
        call()


def test_numbers_are_arrays_to_compute_and_explain():
    assert ga.compute(3, X.sum()) == (3, 66)
    assert ga.explain(3) == "computed already; nothing is left to do"


@pytest.mark.parametrize("content", [b"plain text", None, b""])
def test_a_file_that_is_no_array(tmp_path, content):
    path = tmp_path / "x.npy"
    ga.save(path, X)
    path.write_bytes(path.read_bytes()[:-20] if content is None else content)
    with pytest.raises(ga.ArrayError, match=r"x\.npy is not a \.npy file of numbers, or not all"):
        ga.load(path)
