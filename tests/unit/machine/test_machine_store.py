"""Measured costs are kept, one row per key, whoever writes."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from graphwright.machine import Measurement, Store, default_path
from limits import HANG

KEY = ("cpu", "2.13", "aten.mm", "", "float32[4, 4] float32[4, 4]")
M = Measurement(seconds=1.5e-6, spread=1e-7, repeats=30)


def rows(path: Path, table: str = "compute") -> int:
    connection = sqlite3.connect(path)
    (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    connection.close()
    return count


def test_measurements_come_back(tmp_path: Path):
    path = tmp_path / "new" / "costs.sqlite"
    store = Store(path)
    assert store.load_compute("cpu", "2.13") == {}
    assert store.counts() == (0, 0)
    assert not path.parent.exists()
    store.put_compute(*KEY, M)
    store.put_compute("other", *KEY[1:], M)
    store.put_collective("abc", "all_reduce", "1,8", np.int64(20), M)
    again = Store(path)
    assert again.load_compute("cpu", "2.13") == {KEY[2:]: M}
    assert again.load_compute("cpu", "2.14") == {}
    assert again.load_collective("abc") == {("all_reduce", "1,8", 20): M}
    assert again.counts() == (2, 1)


def test_a_key_has_one_row(tmp_path: Path):
    store = Store(tmp_path / "costs.sqlite")
    newer = Measurement(seconds=2.0, spread=0.0, repeats=1)
    store.put_compute(*KEY, M)
    store.put_compute(*KEY, newer)
    store.put_compute(*KEY[:2], "aten.add", "", "x", M)
    assert store.load_compute(*KEY[:2])[KEY[2:]] == newer
    assert rows(store.path) == 2


def test_an_empty_file_becomes_a_store(tmp_path: Path):
    path = tmp_path / "costs.sqlite"
    path.touch()
    store = Store(path)
    assert store.load_compute(*KEY[:2]) == {}
    store.put_compute(*KEY, M)
    assert Store(path).load_compute(*KEY[:2]) == {KEY[2:]: M}


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("GRAPHWRIGHT_COSTS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_path() == Store().path == tmp_path / "graphwright" / "costs.sqlite"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_path() == Path("~/.cache/graphwright/costs.sqlite").expanduser()
    monkeypatch.setenv("GRAPHWRIGHT_COSTS", str(tmp_path / "mine.sqlite"))
    assert Store().path == tmp_path / "mine.sqlite"


WRITER = """
import sys
from graphwright.machine import Measurement, Store
store, me = Store(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for i in range(int(sys.argv[3])):
    for op in (f"own {me} {i}", f"common {i}"):
        store.put_compute("d", "t", op, "", "", Measurement(seconds=float(me), spread=0.0, repeats=1))
    print(i, flush=True)
"""


def start(path: Path, me: int, count: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(me), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_processes_write_at_once(tmp_path: Path):
    path = tmp_path / "costs.sqlite"
    writers = [start(path, me, 25) for me in range(3)]
    for writer in writers:  # none has found a store: one makes it
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=HANG)
        assert writer.returncode == 0
    assert rows(path) == 25 * 3 + 25
    assert len(Store(path).load_compute("d", "t")) == 100


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that cannot be caught")
def test_what_was_written_before_a_kill_is_there(tmp_path: Path):
    path = tmp_path / "costs.sqlite"
    with start(path, 0, 100_000) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
        for _ in range(10):
            done = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
    store = Store(path)
    found = store.load_compute("d", "t")
    assert all((f"own 0 {i}", "", "") in found for i in range(done + 1))
    store.put_compute(*KEY, M)
    assert store.load_compute(*KEY[:2]) == {KEY[2:]: M}


def test_a_reader_undoes_what_a_crash_left_half_written(tmp_path: Path):
    store = Store(tmp_path / "costs.sqlite")
    store.put_compute(*KEY, M)
    # A copy of the files in the middle of a transaction is what a crash leaves.
    database = sqlite3.connect(store.path, isolation_level=None)
    database.execute("PRAGMA cache_size = 1")
    database.execute("PRAGMA cache_spill = 1")
    database.execute("BEGIN IMMEDIATE")
    for i in range(2000):
        values = ("d", "t", f"op {i}", "x" * 500, "", 1.0, 0.0, 1)
        database.execute("INSERT INTO compute VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
    crashed = tmp_path / "crashed.sqlite"
    crashed.write_bytes(store.path.read_bytes())
    journal = Path(f"{store.path}-journal")
    assert journal.stat().st_size > 0
    Path(f"{crashed}-journal").write_bytes(journal.read_bytes())
    database.execute("ROLLBACK")
    database.close()
    assert Store(crashed).load_compute("d", "t") == {}
    assert Store(crashed).load_compute(*KEY[:2]) == {KEY[2:]: M}
