"""Scripts that were written for NumPy give the same bits with one import changed."""

import numpy as np
import pytest

import graphwright.arrays as ga
from graphwright.arrays.evaluate import SETTINGS
from numpy_scripts import SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_the_same_bits(script):
    made, expected = np.asarray(script(ga)), np.asarray(script(np))
    assert made.dtype == expected.dtype
    np.testing.assert_array_equal(made, expected)


def test_the_same_numbers_on_workers(monkeypatch):
    monkeypatch.setattr(SETTINGS, "least_bytes", 1)
    ga.use_workers(2, processes=False)
    for script in SCRIPTS:
        if script.__name__ in ("pca", "montecarlo", "fftfilter", "nbody", "rowsort", "moving"):
            np.testing.assert_allclose(script(ga), script(np), rtol=1e-9, err_msg=script.__name__)
    ga.disconnect()
