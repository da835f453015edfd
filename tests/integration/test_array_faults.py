"""What goes wrong while arrays are computed: workers that are killed, a scheduler that is gone, memory that ends, crashes
while a checkpoint is written."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from distributed import LocalCluster

import graphwright.arrays as ga
from _array_programs import APPLICATIONS
from graphwright.arrays.errors import ClusterLost
from graphwright.arrays.evaluate import SETTINGS
from graphwright.arrays.running.session import current_workers
from graphwright.run.workers import dask_workers

SIZES = {
    "k-means": 400, "Jacobi": 40, "x + x.T": 40, "standardise, Gram": 60, "conjugate gradient": 30,
    "Black-Scholes": 200, "FFT rows, columns": 16,
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def patient():
    """A busy machine takes its time to start another worker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dask_workers, "MOST_SECONDS", 600.0)
        yield


@pytest.fixture(scope="module")
def processes(patient):
    ga.use_workers(2)
    yield current_workers()
    ga.disconnect()


@pytest.fixture
def all_distributed(monkeypatch):
    monkeypatch.setattr(SETTINGS, "least_bytes", 1)


def dies_once(path):
    """A function that kills the first worker that calls it."""

    def function(block):
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return block
        os.kill(os.getpid(), signal.SIGKILL)
        return block

    return function


@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda a: a.name)
def test_a_worker_killed_in_the_middle_of_an_application(
    processes, all_distributed, application, tmp_path
):
    """It dies when all but the last operator has been computed, with everything that it holds."""
    arrays = application.make(SIZES[application.name], np.random.default_rng(0))
    expected = application.run(np, **arrays)
    made = application.run(ga, **{name: ga.from_array(x) for name, x in arrays.items()})
    last = ga.map(dies_once(str(tmp_path / "died")), made, dtype=expected.dtype)
    np.testing.assert_allclose(last.compute(), expected, rtol=1e-6, atol=1e-8)
    assert (tmp_path / "died").exists()
    np.testing.assert_allclose((made + 1).compute(), expected + 1, rtol=1e-6, atol=1e-8)


def test_a_scheduler_that_is_gone_and_another_one(all_distributed, tmp_path):
    with LocalCluster(n_workers=2, processes=False, dashboard_address=None) as first:
        ga.connect(first)
        x = ga.from_array(np.ones((40, 5)))
        for step in range(3):
            x = ga.checkpoint(tmp_path, step=step, x=x * 2)["x"]
        lost = (x + 1).persist()
    with pytest.raises(ClusterLost, match=r"connect to another cluster with ga\.connect"):
        (lost * 2).compute()
    with LocalCluster(n_workers=2, processes=False, dashboard_address=None) as second:
        ga.connect(second)
        step, saved = ga.resume(tmp_path)
        assert step == 2
        np.testing.assert_array_equal(saved["x"] + 1, np.full((40, 5), 9.0))
        np.testing.assert_array_equal(lost * 2, np.full((40, 5), 18.0))  # from the checkpoint
        ga.disconnect()


def test_arrays_larger_than_memory_are_right_or_the_cluster_is_lost(all_distributed, tmp_path):
    """Dask moves blocks to disk; if that is too slow, it kills the worker."""
    with LocalCluster(
        n_workers=1, threads_per_worker=1, memory_limit="500MB", dashboard_address=None,
        local_directory=str(tmp_path), host="127.0.0.1",
    ) as cluster:  # fmt: skip
        ga.connect(cluster)
        x = ga.from_array(np.arange(5_000_000.0))
        try:
            held = [(x + n).persist() for n in range(12)]  # 40 MB each
            totals = [float(y.sum()) for y in held]
        except ClusterLost:
            pass  # workers that Dask has killed, again and again: a clean end
        else:
            least = 5_000_000 * 4_999_999 / 2
            assert totals == [least + 5_000_000 * n for n in range(12)]
        finally:
            ga.disconnect()


def run_here(script, *arguments):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        check=False, capture_output=True, text=True,
    )  # fmt: skip


KILLED_WHILE_SAVING = """
    import os, signal, sys
    import numpy as np
    import graphwright.arrays as ga
    folder, step = sys.argv[1], int(sys.argv[2])
    ga.checkpoint(folder, step=3, x=ga.ones(4), y=ga.zeros(4))
    save, saved = np.save, []

    def dies_at_the_second(*given, **options):
        if saved:
            os.kill(os.getpid(), signal.SIGKILL)
        saved.append(save(*given, **options))

    np.save = dies_at_the_second
    ga.checkpoint(folder, step=step, x=ga.ones(4) * 2, y=ga.ones(4))
"""


@pytest.mark.parametrize("step", [3, 4])
def test_a_crash_while_a_checkpoint_is_saved_leaves_the_one_before(tmp_path, step):
    died = run_here(KILLED_WHILE_SAVING, tmp_path, step)
    assert died.returncode == -signal.SIGKILL, died.stderr
    step, saved = ga.resume(tmp_path)
    assert step == 3
    np.testing.assert_array_equal(saved["x"], np.ones(4))
    np.testing.assert_array_equal(saved["y"], np.zeros(4))
    ga.checkpoint(tmp_path, step=3, x=ga.ones(4) * 5)
    step, saved = ga.resume(tmp_path)
    assert step == 3 and list(saved) == ["x"]
    np.testing.assert_array_equal(saved["x"], np.full(4, 5.0))
    left = sorted(p.name for p in tmp_path.iterdir())
    assert len(left) == 2 and left[0] == "latest.json" and left[1].startswith("step-000000003")


def test_a_checkpoint_of_arrays_that_came_from_the_same_step(tmp_path):
    """The files that they are mapped from are replaced by themselves."""
    x = ga.checkpoint(tmp_path, step=1, x=ga.ones((100, 10)))["x"]
    for _ in range(3):
        x = ga.checkpoint(tmp_path, step=1, x=x)["x"]
    np.testing.assert_array_equal(x, np.ones((100, 10)))
    np.testing.assert_array_equal(ga.resume(tmp_path)[1]["x"], np.ones((100, 10)))


def test_a_checkpoint_whose_folder_is_gone_says_so(tmp_path):
    ga.checkpoint(tmp_path, step=1, x=ga.ones(3))
    (tmp_path / "step-000000001").rename(tmp_path / "elsewhere")
    with pytest.raises(ga.ArrayError, match="names step-000000001, and there is no such folder"):
        ga.resume(tmp_path)


def counting(folder):
    """A function that leaves a file for each call."""

    def function(block):
        os.close(os.open(f"{folder}/{os.urandom(8).hex()}", os.O_CREAT))
        return block + 1

    return function


def test_only_what_a_lost_worker_held_is_made_again(patient, all_distributed, tmp_path):
    """Through values that were let go on the way, and from an array of this process."""
    given = np.random.default_rng(0).normal(size=(2000, 50))
    step = counting(str(tmp_path))
    ga.use_workers(2)
    workers = current_workers()
    x = ga.from_array(given)
    for _ in range(3):
        x = ga.map(step, x, dtype=np.float64).persist()
    total = x.sum(axis=0).persist()
    assert len(list(tmp_path.iterdir())) == 3 * 2
    address = workers.addresses[1]
    victim = workers.client.run(os.getpid, workers=[address])[address]
    os.kill(victim, signal.SIGKILL)
    np.testing.assert_allclose((x * 2).compute(), (given + 3) * 2)
    np.testing.assert_allclose(total + 1, (given + 3).sum(axis=0) + 1)
    assert len(list(tmp_path.iterdir())) == 3 * 2 + 3  # one block of two, three steps back
    ga.disconnect()


def test_a_rank_moves_to_a_worker_that_is_left(all_distributed):
    """Without a new worker, one that is left does the work of both."""
    given = np.random.default_rng(0).normal(size=(2000, 50))
    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        ga.connect(cluster)
        x = (ga.from_array(given) + 1).persist()
        cluster.scale(1)
        while len(cluster.scheduler_info["workers"]) > 1:
            time.sleep(0.1)
        np.testing.assert_allclose((x * x).sum(axis=0), ((given + 1) ** 2).sum(axis=0))
        workers = current_workers()
        assert len(workers) == 2 and len(set(workers.addresses)) == 1
        ga.disconnect()
