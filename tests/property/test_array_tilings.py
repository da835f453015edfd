"""However a program is tiled, its parts make what the whole makes: any strategies, any number of workers.

Segments run here one after the other, in this process, so that nothing but the planning, the lowering and the
workers' own code is between a program and its value.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright.arrays as ga
from array_segments import run_tiled
from graphwright.arrays.operators import blocking
from graphwright.describe import node_splits
from graphwright.plans import Along, Replicate, Strategy


def standardised(x):
    y = (x - x.mean(axis=0)) / (x.std(axis=0) + 1)
    return y.T @ y


def stencil(x):
    inner = (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) / 4
    return ga.pad(inner, 1)


def labels(x):
    centres = x[:3]
    distance = ((x[:, None, :] - centres[None]) ** 2).sum(axis=-1)
    nearest = ga.argmin(distance, axis=1)
    ones = ga.astype(nearest[:, None] == ga.arange(3), np.float64)
    return (ones.T @ x) / (ones.sum(axis=0)[:, None] + 1)


PROGRAMS = {
    "standardise": standardised,
    "stencil": stencil,
    "k-means": labels,
    "transpose": lambda x: x[:8, :8] + x[:8, :8].T,
    "fft": lambda x: ga.fft.fft(ga.fft.fft(x, axis=1), axis=0),
    "sort": lambda x: ga.sort(x, axis=0) - ga.sort(x, axis=1),
    "lookup": lambda x: ga.take(x, ga.asarray([0, 5, 5, 2, 11]), axis=0) * 2,
    "lookup of columns": lambda x: x[:, [1, 0, 3]].sum(axis=0),
    "gather": lambda x: ga.take_along_axis(x, ga.argsort(x, axis=1), axis=1),
    "pairs": lambda x: x[[0, 3, 4], [1, 2, 2]] + 1,
    "reshape": lambda x: ga.reshape(ga.reshape(x, (-1,)) + 1, (x.shape[1], x.shape[0])).sum(axis=0),
    "join": lambda x: ga.concat([x, x * 2], axis=0).max(axis=0),
    "edges": lambda x: ga.concat([x[:1] * 2, x[1:-1, ::-1], x[-1:]], axis=0).sum(axis=1),
    "roll": lambda x: ga.roll(x, 1, axis=0) - ga.roll(x, -5, axis=(0, 1)),
    "assigned": lambda x: ga.update(
        ga.update(x, (slice(2, -1), slice(1, 4)), x[:-3, 2:5]), (slice(None, None, -3), 5), 1.0
    ),
    "masked": lambda x: ga.update(x, x > 0, 7),
    "fold": lambda x: ga.fold(np.maximum, x) - ga.fold(lambda a, b: a + b, x),
    "scan": lambda x: ga.scan(np.add, x, axis=0)[-1],
    "map": lambda x: ga.map(lambda a, b: np.hypot(a, b), x, x[0]).prod(axis=1),
    "scatter": lambda x: ga.join_update(
        ga.zeros((3, x.shape[1])), ga.astype(x[:, 0] > 0, np.int64), x
    ),
    "einsum": lambda x: ga.einsum("ij,kj->ik", x, x) @ x,
    "random": lambda x: x + ga.random.default_rng(3).normal(size=x.shape),
    "factor": lambda x: ga.linalg.qr(x.T @ x + ga.eye(x.shape[1])).R,
    "truth": lambda x: ga.any(x > 1, axis=0) & ga.all(x > -9, axis=0),
    "flip": lambda x: ga.flip(x, axis=0)[::2] - ga.roll(x, 3, axis=0)[::2],
    "extremes": lambda x: ga.stack([x.max(axis=0), x.min(axis=0), x.prod(axis=0)]),
    "cumulative": lambda x: ga.cumulative_sum(x, axis=0)[:, ::-1],
    "run": lambda x: (
        ga.sqrt((x * x[:1] + x[:, :1]) ** 2 + 1) / (1 + abs(x.T.T)) - ga.astype(x > 0, np.float32)
    ),
    "triangle": lambda x: ga.tril(x, k=-1) + ga.diag(x[:, 0])[:, : x.shape[1]],
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("workers", [1, 3, 4])
def test_planned(name, workers):
    x = np.random.default_rng(0).normal(size=(16, 9))
    made = run_tiled(PROGRAMS[name](ga.asarray(x)), workers)
    expected = PROGRAMS[name](ga.asarray(x)).compute()
    assert (made.shape, made.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(made, expected, rtol=1e-9, atol=1e-9)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Element-wise runs go block by block, however small they are."""
    monkeypatch.setattr(blocking, "LEAST_ELEMENTS", 1)
    monkeypatch.setattr(blocking, "BLOCK_ELEMENTS", 5)


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=5)
@given(data=st.data(), workers=st.sampled_from([2, 3, 4]), rows=st.integers(12, 19))
def test_under_any_strategies(name, data, workers, rows):
    x = np.random.default_rng(0).normal(size=(rows, 9))

    def choose(graph, axes):
        chosen = {}
        for node in graph.nodes:
            names = [s.index for s in node_splits(graph, node) if s.max_parts >= np.prod(axes)]
            choices = st.sampled_from([Replicate(), *map(Along, names)])
            chosen[node.name] = Strategy(tuple(data.draw(choices) for _ in axes))
        return chosen

    made = run_tiled(PROGRAMS[name](ga.asarray(x)), workers, choose)
    np.testing.assert_allclose(made, PROGRAMS[name](ga.asarray(x)).compute(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(12,), (6, 5), (3, 4, 5), ()])
@pytest.mark.parametrize("distribution", ["uniform", "normal", "exponential", "bits"])
def test_a_part_draws_what_the_whole_draws(shape, distribution):
    from graphwright.arrays.operators.random_numbers import draw_box

    dtype = "uint64" if distribution == "bits" else "float64"
    whole = draw_box(distribution, 7, shape, None, dtype)
    for box in ([(n // 3, n) for n in shape], [(0, max(1, n // 2)) for n in shape]):
        part = draw_box(distribution, 7, shape, box, dtype)
        np.testing.assert_array_equal(part, whole[tuple(slice(*ends) for ends in box)])


def test_random_numbers_are_spread_as_they_should_be():
    rng = ga.random.default_rng(0)
    x, y = rng.normal(size=200_000).compute(), rng.random(size=200_000).compute()
    assert abs(x.mean()) < 0.01 and abs(x.std() - 1) < 0.01
    assert abs(y.mean() - 0.5) < 0.005 and y.min() >= 0 and y.max() < 1
    assert abs(np.corrcoef(x, y)[0, 1]) < 0.01
    drawn = rng.integers(2, 6, size=1000).compute()
    assert set(drawn) == {2, 3, 4, 5}
    assert sorted(rng.permutation(9).compute()) == list(range(9))
