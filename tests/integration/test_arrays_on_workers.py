"""Real workers: values, tilings that hold, exactly the planned bytes, functions that fail, workers that are killed."""

import os
import signal

import numpy as np
import psutil
import pytest

import graphwright.arrays as ga
from graphwright.arrays.evaluate import SETTINGS
from graphwright.arrays.running.session import Held, current_workers


@pytest.fixture
def distributed(monkeypatch):
    """Programs of any size go to the workers."""
    monkeypatch.setattr(SETTINGS, "least_bytes", 1)
    yield
    ga.disconnect()


@pytest.fixture
def threads(distributed):
    ga.use_workers(3, processes=False)


def test_values_and_what_stays_where(threads):
    given = np.random.default_rng(0).normal(size=(30, 4))
    x = ga.from_array(given)
    y = (x - x.mean(axis=0)).persist()
    held = y._output.value
    assert isinstance(held, Held)
    np.testing.assert_allclose(y, given - given.mean(axis=0))
    total = float((y * 2).sum())  # reads y where it is
    assert abs(total) < 1e-9
    assert y._output.value is held


def test_all_results_of_a_factorisation_made_here_reach_the_workers(threads, monkeypatch):
    rng = np.random.default_rng(0)
    rows, given = rng.normal(size=(300, 256)), rng.normal(size=(256, 256))
    with monkeypatch.context() as here:
        here.setattr(SETTINGS, "least_bytes", 1 << 40)
        made = ga.linalg.qr(ga.from_array(given))
        values = ga.compute(*made)
    for x, value in zip(made, values, strict=True):
        np.testing.assert_allclose(ga.from_array(rows) @ x, rows @ value, atol=1e-10)


def test_random_integers_and_quantiles_are_those_of_one_process(threads, monkeypatch):
    def run():
        x = ga.random.default_rng(0).integers(-(2**62), 2**62, (30, 4))
        y = ga.from_array(np.linspace(0, 1, 120, dtype=np.float32).reshape(30, 4))
        return ga.compute(x, ga.median(y, axis=0), ga.percentile(y, 30, axis=1))

    made = run()
    monkeypatch.setattr(SETTINGS, "least_bytes", 1 << 40)
    for spread, here in zip(made, run(), strict=True):
        np.testing.assert_array_equal(spread, here)


def test_a_failed_connect_leaves_the_workers_of_before(threads):
    y = (ga.from_array(np.arange(12.0)) * 2).persist()
    before, held = current_workers(), y._output.value
    for address in ("nonsense", 5):
        with pytest.raises((ValueError, TypeError)):
            ga.connect(address)
    assert current_workers() is before
    assert float(y.sum()) == 132
    assert y._output.value is held
    ga.connect(before.client)  # the client that is in use is not closed
    assert float((y + 1).sum()) == 144


def test_several_results_are_one_program(threads):
    x = ga.from_array(np.arange(12.0))
    low, high, ordered = ga.compute(x.min(), x.max(), ga.sort(-x))
    assert (low, high) == (0, 11)
    np.testing.assert_array_equal(ordered, np.arange(-11.0, 1))


def test_everything_runs_on_the_worker_that_it_is_planned_for(threads):
    from distributed import get_worker

    large = ga.from_array(np.zeros((3000, 1000)))
    where = ga.map(
        lambda x: np.full(x.shape, hash(get_worker().address) % 1000), large, dtype=np.int64
    )
    made = where.persist()._output.value
    workers = current_workers()
    for rank, future in made.futures.items():
        block = future.result()
        assert np.unique(block).tolist() == [hash(workers.addresses[rank]) % 1000]
        assert [*workers.client.who_has([future])[future.key]] == [workers.addresses[rank]]


def test_explain_names_tilings_and_bytes(threads):
    x = ga.from_array(np.zeros((3000, 500)))
    text = ga.explain(x.T @ x)
    assert "aten.matmul" in text and "[P(sum)]" in text and "in all 4 MB received" in text
    y = (x + 1).persist()
    assert "computed already" in ga.explain(y)


def test_a_functions_own_traceback_reaches_its_caller(threads):
    def fails(x):
        raise KeyError("my mistake")

    with pytest.raises(KeyError, match="my mistake") as caught:
        ga.map(fails, ga.ones((10, 3)), dtype=np.float64).compute()
    assert any(entry.name == "fails" for entry in caught.traceback)
    assert float(ga.ones(10).sum()) == 10  # the workers go on


def test_dask_arrays_and_files(threads, tmp_path):
    x = ga.from_array(np.random.default_rng(0).normal(size=(3000, 500))).persist()
    tiled = ga.to_dask(x + 1)
    np.testing.assert_allclose(tiled.sum(axis=0).compute(), (x + 1).compute().sum(axis=0))
    np.testing.assert_allclose(ga.from_dask(tiled - 1), x, atol=1e-12)
    ga.save(tmp_path / "x.npy", x)
    np.testing.assert_array_equal(ga.load(tmp_path / "x.npy"), x)
    ga.savez(tmp_path / "both.npz", x=x, y=x * 2)
    np.testing.assert_array_equal(ga.load(tmp_path / "both.npz")["y"], x * 2)
    x.compute().tofile(tmp_path / "bare")
    np.testing.assert_array_equal(ga.from_file(tmp_path / "bare", np.float64, (3000, 500)), x)
    with pytest.raises(ga.ArrayError, match="no format for"):
        ga.save(tmp_path / "x.txt", x)


def test_a_lost_cluster_resumes_from_a_checkpoint(threads, tmp_path):
    x = ga.from_array(np.ones((40, 5)))
    assert ga.resume(tmp_path) is None
    for step in range(5):
        x = x * 2
        x = ga.checkpoint(tmp_path, step=step, every=2, x=x)["x"]
    ga.disconnect()  # all that the workers held is gone
    ga.use_workers(2, processes=False)
    step, saved = ga.resume(tmp_path)
    assert step == 4
    np.testing.assert_array_equal(saved["x"], np.full((40, 5), 32.0))
    np.testing.assert_array_equal(x + 1, np.full((40, 5), 33.0))
    assert [p.name for p in tmp_path.glob("step-*")] == ["step-000000004"]


def test_processes_receive_the_planned_bytes_and_may_be_killed(distributed):
    ga.use_workers(2)
    given = np.random.default_rng(0).normal(size=(200_000, 4))
    x = ga.from_array(given)
    workers = current_workers()
    y = x - x.mean(axis=0)
    before = sum(workers.client.run(received).values())
    gram = (y.T @ y).persist()
    moved = sum(workers.client.run(received).values()) - before
    assert listening() == {"127.0.0.1"}
    np.testing.assert_allclose(gram, np.cov(given.T) * (len(given) - 1))
    terms = 4 * 8 + 4 * 4 * 8  # of the mean and of the product, and nothing else moves
    assert 0 < moved <= 2 * terms
    y = y.persist()

    addresses = workers.addresses
    victim = workers.client.run(os.getpid, workers=[addresses[0]])[addresses[0]]
    os.kill(victim, signal.SIGKILL)
    np.testing.assert_allclose((y * 2).sum(axis=0), np.zeros(4), atol=1e-6)  # y is made again
    np.testing.assert_allclose((y * y).sum(axis=0), given.var(axis=0) * len(given))


def listening():
    """The addresses on which this process and the workers' accept connections."""
    here = psutil.Process()
    sockets = [
        c for process in (here, *here.children(recursive=True)) for c in process.net_connections()
    ]
    return {c.laddr.ip for c in sockets if c.status == psutil.CONN_LISTEN}


def received(dask_worker):
    return sum(transfer["total"] for transfer in dask_worker.transfer_incoming_log)


def test_zarr_parquet_and_mapped_files(tmp_path):
    x = np.random.default_rng(0).normal(size=(30, 7))
    pytest.importorskip("zarr")
    for value in (x, np.array(3.5), np.zeros((0, 3)), np.arange(5, dtype=np.uint8), np.array([1j])):
        ga.save(tmp_path / "x.zarr", ga.asarray(value))  # takes the place of the one before
        np.testing.assert_array_equal(ga.load(tmp_path / "x.zarr"), value)
    table = pytest.importorskip("pyarrow").table({"a": [1, 2], "b": [0.5, None], "s": ["x", "y"]})
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "t.parquet")
    columns = ga.load(tmp_path / "t.parquet", columns=["a", "b"])
    assert columns["a"].tolist() == [1, 2] and np.isnan(columns["b"][1])
    with pytest.raises(TypeError, match="numbers and truth values"):
        ga.load(tmp_path / "t.parquet")
    np.save(tmp_path / "x.npy", x)
    mapped = ga.load(tmp_path / "x.npy")
    mapped[0] = 0
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), x)


@pytest.mark.parametrize("name", ["x.zarr", "x.parquet", "x.npy", "x.npz"])
def test_damaged_files_are_no_arrays(tmp_path, name):
    if name in ("x.zarr", "x.parquet"):
        pytest.importorskip({"x.zarr": "zarr", "x.parquet": "pyarrow"}[name])
    with pytest.raises(FileNotFoundError):
        ga.load(tmp_path / name)
    (tmp_path / name).write_text("x")
    with pytest.raises(ga.ArrayError, match="file of numbers, or not all of one"):
        ga.load(tmp_path / name)


def test_a_cluster_with_tls(distributed):
    from distributed import Client, LocalCluster
    from distributed.security import Security

    pytest.importorskip("cryptography")
    security = Security.temporary()
    with (
        LocalCluster(
            n_workers=2, processes=False, protocol="tls", security=security, host="127.0.0.1",
            dashboard_address=None, threads_per_worker=1,
        ) as cluster,
        Client(cluster, security=security) as client,
    ):  # fmt: skip
        ga.connect(client)
        assert all(address.startswith("tls://") for address in current_workers().addresses)
        x = ga.from_array(np.arange(12.0).reshape(4, 3))
        np.testing.assert_array_equal(x.T @ x, np.asarray(x).T @ np.asarray(x))
        ga.disconnect()
