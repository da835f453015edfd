"""Programs that one worker computes alone, as moving their arrays would take longer."""

import os
import signal

import numpy as np
import pytest

import graphwright.arrays as ga
from graphwright.arrays.evaluate import SETTINGS
from graphwright.arrays.running.session import current_workers, planned
from graphwright.run.workers import dask_workers


@pytest.fixture(autouse=True)
def distributed(monkeypatch):
    """Programs of any size go to the workers; a busy machine takes its time to start another one."""
    monkeypatch.setattr(SETTINGS, "least_bytes", 1)
    monkeypatch.setattr(dask_workers, "MOST_SECONDS", 600.0)
    yield
    ga.disconnect()


def rows_then_columns(xp, x):
    return xp.fft.fft(xp.fft.fft(x, axis=1), axis=0)


def test_what_moves_more_than_it_computes_stays_on_one_worker():
    """Cheap passes along rows, then along columns: nothing moves, also in what reads the result."""
    ga.use_workers(2, processes=False)
    given = np.random.default_rng(0).normal(size=(1024, 1024))
    x = ga.from_array(given)
    made = rows_then_columns(ga, x)
    assert "one worker" in ga.explain(made) and "in all 0 B received" in ga.explain(made)
    expected = rows_then_columns(np, given)
    np.testing.assert_allclose(made.persist(), expected, atol=1e-8)
    _, how = planned([(made * 2)._output])
    assert sum(how.received.values()) == 0
    np.testing.assert_allclose(made * 2, expected * 2, atol=1e-8)
    np.testing.assert_allclose(x.sum(axis=0), given.sum(axis=0), atol=1e-8)
    np.testing.assert_allclose(x + made.real, given + expected.real, atol=1e-8)


def test_an_array_of_one_worker_is_shared_where_that_is_faster():
    ga.use_workers(2, processes=False)
    given = np.random.default_rng(0).normal(size=(1024, 1024))
    made = rows_then_columns(ga, ga.from_array(given)).persist()
    expected = rows_then_columns(np, given)
    total = ga.map(np.array, made.real, dtype=np.float64)  # a user's function may take any time
    _, how = planned([total._output])
    assert how.segments.shardings[next(iter(how.segments.results))].mesh.devices == (0, 1)
    np.testing.assert_allclose(total, expected.real, atol=1e-8)


def test_an_array_of_one_worker_survives_its_loss():
    ga.use_workers(2)
    given = np.random.default_rng(0).normal(size=(1024, 1024))
    made = rows_then_columns(ga, ga.from_array(given)).persist()
    workers = current_workers()
    address = workers.addresses[0]
    os.kill(workers.client.run(os.getpid, workers=[address])[address], signal.SIGKILL)
    np.testing.assert_allclose(made + 1, rows_then_columns(np, given) + 1, atol=1e-8)
