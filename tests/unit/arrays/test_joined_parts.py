"""Joins, rolls and assignments to slices move what crosses a border and no more; large matrices are factored in panels."""

import numpy as np
import pytest

import graphwright.arrays as ga
from array_segments import run_tiled
from graphwright.arrays.evaluate import SETTINGS
from graphwright.arrays.expression import needed
from graphwright.arrays.namespace.linalg import blocked
from graphwright.arrays.running.program import as_graph, plan_program
from graphwright.partition.tiling import worker_cluster
from graphwright.plans import Split, shared_sharding, whole_mesh

ROW = 400 * 8


def stencil(u):
    return (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4


def joined(u):
    sides = ga.concat([u[1:-1, :1], stencil(u), u[1:-1, -1:]], axis=1)
    return ga.concat([u[:1], sides, u[-1:]], axis=0)


def assigned(u):
    made = u.copy()
    made[1:-1, 1:-1] = stencil(u)
    return made


def rolled(u):
    return (ga.roll(u, 1, axis=0) + ga.roll(u, -1, axis=0)) / 2


@pytest.mark.parametrize(
    ("step", "rows"), [(joined, 4), (assigned, 4), (rolled, 6)], ids=["concat", "update", "roll"]
)
def test_a_step_receives_its_halo(step, rows):
    """Of three workers, two rows cross each of two borders, and with a ring a third one."""
    u = ga.from_array(np.random.default_rng(0).normal(size=(1000, 400)))
    made = step(step(step(u)))
    order = needed([made._output], lambda o: o.value is not None)
    graph = as_graph([made._output], order).graph
    by_rows = shared_sharding(whole_mesh(worker_cluster(3)), (Split(0),))
    (name,) = [n for n in graph.inputs if graph.tensors[n].type.shape == u.shape]
    received = plan_program(graph, 3, {name: by_rows}).received
    assert 0 < sum(received.values()) <= 3 * rows * ROW + 64


def test_a_source_that_two_readers_need_in_the_same_tiling_is_sent_once(monkeypatch):
    monkeypatch.setattr(SETTINGS, "least_bytes", 1)
    ga.use_workers(3, processes=False)
    u = np.random.default_rng(0).normal(size=(300, 200))
    made = joined(ga.from_array(u)).compute()
    monkeypatch.setattr(SETTINGS, "least_bytes", 1 << 40)
    np.testing.assert_array_equal(made, joined(ga.asarray(u)))
    ga.disconnect()


@pytest.fixture
def small_panels(monkeypatch):
    monkeypatch.setattr(blocked, "PANEL", 4)
    monkeypatch.setattr(SETTINGS, "least_bytes", 1)
    monkeypatch.setattr("graphwright.arrays.evaluate._is_large", lambda order: False)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("size", [8, 13, 16])
def test_cholesky_by_panels(small_panels, size, workers):
    rng = np.random.default_rng(0)
    m = rng.normal(size=(size, size))
    a, b = m @ m.T + size * np.eye(size), rng.normal(size=(size, 2))
    factor = ga.linalg.cholesky(ga.from_array(a))
    assert "array.join" in {e.op for e in needed([factor._output], lambda o: o.value is not None)}
    np.testing.assert_allclose(run_tiled(factor, workers), np.linalg.cholesky(a), atol=1e-12)
    upper = ga.linalg.cholesky(ga.from_array(a), upper=True)
    np.testing.assert_allclose(upper, np.linalg.cholesky(a).T, atol=1e-12)
    for right in (b, b[:, 0]):
        solved = ga.linalg.solve(ga.from_array(a), right, assume_a="pos")
        np.testing.assert_allclose(run_tiled(solved, workers), np.linalg.solve(a, right))


def test_a_matrix_that_is_not_positive_definite(small_panels):
    with pytest.raises(np.linalg.LinAlgError):
        ga.linalg.cholesky(ga.from_array(-np.eye(16))).compute()
    with pytest.raises(ValueError, match="one of 'gen' and 'pos'"):
        ga.linalg.solve(np.eye(3), np.ones(3), assume_a="sym")


@pytest.mark.parametrize("workers", [2, 3])
def test_parts_without_elements(workers):
    a = ga.from_array(np.arange(32.0).reshape(16, 2))
    empty = a[:0]
    nothing = ga.matmul(a[:4].T[:, :0], empty[:, :1])
    made = ga.concat([empty, a - nothing[0, 0], empty]) @ ga.ones((2, 1))
    np.testing.assert_array_equal(run_tiled(made, workers), made.compute())
