"""Runs of element-wise calls in boxes: the values of NumPy, in little memory, whatever the shapes."""

import tracemalloc

import numpy as np
import pytest

import graphwright.arrays as ga
from array_segments import run_tiled
from graphwright.arrays.expression import needed
from graphwright.arrays.operators import blocking, run_segment
from graphwright.arrays.running.program import as_graph, plan_program


def mixed(xp, x, y, line):
    """Casts, choices, broadcasting along each dim, and a function that may return a view."""
    a = x * line + y
    whole = xp.astype(a * 8, xp.int64)
    chosen = xp.where(whole % 2 == 0, a, -a / 3)
    return xp.real(chosen) * 2 + chosen + xp.astype(whole, xp.float64)


@pytest.mark.parametrize(
    "shape", [(7, 30_011), (30_011, 7), (3, 5, 11, 1009), (200_000,), (2, 3, 40_000)]
)
def test_boxes_of_any_shape_have_the_values_of_numpy(shape, monkeypatch):
    monkeypatch.setattr(blocking, "BLOCK_ELEMENTS", 1000)
    rng = np.random.default_rng(0)
    x, y, line = (rng.normal(size=s) for s in (shape, (*shape[:-1], 1), shape[-1:]))
    made = mixed(ga, *(ga.asarray(v) for v in (x, y, line)))
    np.testing.assert_allclose(run_tiled(made, 1), mixed(np, x, y, line), rtol=1e-13)


def test_what_is_read_behind_the_run_is_not_written_over():
    x = np.random.default_rng(0).normal(size=200_000)
    half = ga.asarray(x) / 2
    made = (half + 1) * half - x
    turned = ga.flip(half) + made
    expected = (x / 2)[::-1] + ((x / 2 + 1) * (x / 2) - x)
    np.testing.assert_array_equal(run_tiled(turned, 1), expected)


def test_a_long_run_takes_the_memory_of_a_few_boxes():
    x = np.random.default_rng(0).normal(size=1 << 18)
    given = ga.asarray(x)
    made = given
    for n in range(60):
        made = made * given + n
    program = as_graph([made._output], needed([made._output], lambda o: o.value is not None))
    planned = plan_program(program.graph, 1, {}).segments
    (segment,) = planned.segments
    names = {ref: name for name, refs in planned.inputs.items() for ref in refs.values()}
    values = [program.inputs[names[ref]].value for ref in segment.reads]
    tracemalloc.start()
    run_segment(segment, {}, *values)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2 * x.nbytes + (1 << 21)


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_of_what_a_run_makes_are_part_of_it(axis, keepdims, monkeypatch):
    monkeypatch.setattr(blocking, "BLOCK_ELEMENTS", 1000)

    def reduced(xp, x):
        y = x * 2 - 1
        how = {"axis": axis, "keepdims": keepdims}
        small, large = xp.min(y, **how), xp.max(y + x, **how)
        either = xp.any(y > 3, **how) | xp.all(y < 9, **how)
        return (
            small
            + xp.sum(y * y, **how) * large
            + xp.where(either, 1.0, 2.0)
            + xp.prod(y / y, **how)
        )

    x = np.random.default_rng(0).normal(size=(40, 33, 150))
    np.testing.assert_allclose(run_tiled(reduced(ga, ga.asarray(x)), 1), reduced(np, x), rtol=1e-12)


def test_what_reads_a_reduction_waits_for_all_of_it():
    x = np.random.default_rng(0).normal(size=(400_000, 1))
    given = ga.asarray(x)
    doubled = given * 2
    made = doubled - ga.sum(doubled, axis=1, keepdims=True) + ga.max(doubled, axis=0, keepdims=True)
    expected = x * 2 - x * 2 + (x * 2).max(axis=0, keepdims=True)
    np.testing.assert_allclose(run_tiled(made, 1), expected, rtol=1e-12)


def test_nan_reaches_the_extremes_of_all_boxes():
    x = np.zeros(400_000)
    x[300_000] = np.nan
    assert np.isnan(run_tiled(ga.max(ga.asarray(x) + 1), 1))
