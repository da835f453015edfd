"""A persistent store of measured costs: one SQLite file, one row per key.

    compute      (device, torch version and method, op, attrs, types) -> seconds, spread, repeats
    collective   (cluster hash, kind, group signature, log2 of size)  -> seconds, spread, repeats
    note         key                                                  -> text

Notes are what was measured as a whole: the figures of this machine (`machine.local`), and how far
steps are from predictions (`run.measure.trial`).
Every `put` is one transaction: an interrupted calibration resumes where it stopped, and several
processes may write concurrently (each waits up to `timeout`). A new measurement replaces its row.
"""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from graphwright.errors import StoreError, StoreVersionMismatch

STORE_VERSION = 1
"""Increases whenever the tables change."""

_APPLICATION_ID = 0x67776373
"""In the file header ("gwcs"): distinguishes a store from other databases."""

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE compute (
    device TEXT NOT NULL, torch TEXT NOT NULL,
    op TEXT NOT NULL, attrs TEXT NOT NULL, types TEXT NOT NULL,
    seconds REAL NOT NULL, spread REAL NOT NULL, repeats INTEGER NOT NULL,
    PRIMARY KEY (device, torch, op, attrs, types)
) WITHOUT ROWID;
CREATE TABLE collective (
    cluster TEXT NOT NULL, kind TEXT NOT NULL, signature TEXT NOT NULL, log2_size INTEGER NOT NULL,
    seconds REAL NOT NULL, spread REAL NOT NULL, repeats INTEGER NOT NULL,
    PRIMARY KEY (cluster, kind, signature, log2_size)
) WITHOUT ROWID;
"""

_NOTES = "CREATE TABLE IF NOT EXISTS note (key TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID"
"""Made when the first one is written: older stores have none."""

ComputeKey = tuple[str, str, str]
"""op, attrs, types: the key of a compute measurement for one device and torch version."""

CollectiveKey = tuple[str, str, int]
"""kind, signature, log2 of the size: the key of a collective measurement for one cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The median of `repeats` runs in seconds, and the spread: half the interquartile range."""

    seconds: float
    spread: float
    repeats: int

    def __post_init__(self) -> None:
        times: tuple[tuple[str, object], ...] = (("seconds", self.seconds), ("spread", self.spread))
        for name, value in times:
            if not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise StoreError(f"a measurement has {name} = {value!r}, not a time; measure again")
        repeats: object = self.repeats
        if not isinstance(repeats, int) or repeats < 1:
            raise StoreError(f"a measurement needs at least one run, not {repeats!r}")


def default_path() -> Path:
    """The default store: GRAPHWRIGHT_COSTS, or graphwright/costs.sqlite in the cache folder."""
    if chosen := os.environ.get("GRAPHWRIGHT_COSTS"):
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore relative paths.
    folder = Path(cache) if os.path.isabs(cache) else Path("~/.cache").expanduser()
    return folder / "graphwright" / "costs.sqlite"


class Store:
    """The store at `path` (by default `default_path()`), created by the first write.

    Reading a missing store returns nothing and creates no file.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, timeout: float = 30.0
    ) -> None:
        self.path = default_path() if path is None else Path(path)
        self.timeout = timeout
        with self._reading():
            pass  # refuse a file that is not a store before measuring anything

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    def put_compute(
        self, device: str, torch: str, op: str, attrs: str, types: str, measurement: Measurement
    ) -> None:
        """Save the measurement of one call of an operator."""
        self._put("compute", (device, torch, op, attrs, types), measurement)

    def load_compute(self, device: str, torch: str) -> dict[ComputeKey, Measurement]:
        """All measurements of a device with a torch version, by (op, attrs, types)."""
        return {
            (str(a), str(b), str(c)): m for (a, b, c), m in self._load("compute", (device, torch))
        }

    def put_collective(
        self, cluster: str, kind: str, signature: str, log2_size: int, measurement: Measurement
    ) -> None:
        """Save the measurement of a collective."""
        self._put("collective", (cluster, kind, signature, int(log2_size)), measurement)

    def load_collective(self, cluster: str) -> dict[CollectiveKey, Measurement]:
        """All measurements of a cluster's collectives, by (kind, signature, log2 of the size)."""
        return {
            (str(a), str(b), int(c)): m for (a, b, c), m in self._load("collective", (cluster,))
        }

    def put_note(self, key: str, text: str) -> None:
        """Save a text; it replaces what has that key."""
        with self._writing() as database:
            database.execute(_NOTES)
            database.execute("INSERT OR REPLACE INTO note VALUES (?, ?)", (key, text))

    def load_note(self, key: str) -> str | None:
        """The text of that key, if there is one."""
        with self._reading() as database:
            there = "SELECT 1 FROM sqlite_schema WHERE name = 'note'"
            if database is None or not database.execute(there).fetchone():
                return None
            row = database.execute("SELECT text FROM note WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def counts(self) -> tuple[int, int]:
        """The numbers of compute and collective measurements."""
        with self._reading() as database:
            if database is None:
                return 0, 0
            compute, collective = (
                int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
                for table in _KEYS
            )
        return compute, collective

    def _load(
        self, table: str, prefix: tuple[str | int, ...]
    ) -> list[tuple[tuple[str | int, ...], Measurement]]:
        """The rows whose keys begin with `prefix`: the rest of the key, and the measurement."""
        columns = _KEYS[table]
        where = " AND ".join(f"{name} = ?" for name in columns[: len(prefix)])
        rest = columns[len(prefix) :]
        wanted = ", ".join((*rest, "seconds", "spread", "repeats"))
        with self._reading() as database:
            if database is None:
                return []
            rows = database.execute(
                f"SELECT {wanted} FROM {table} WHERE {where}", prefix
            ).fetchall()
        for row in rows:
            self._check_key(dict(zip(rest, row, strict=False)))
        return [
            (tuple(row[:-3]), Measurement(seconds=row[-3], spread=row[-2], repeats=row[-1]))
            for row in rows
        ]

    def _check_key(self, key: Mapping[str, object]) -> None:
        """Refuse what another program has written: SQLite takes anything."""
        for name, value in key.items():
            is_size = isinstance(value, int) and 0 <= value < 63
            if not (is_size if name == "log2_size" else isinstance(value, str)):
                raise StoreError(
                    f"a measurement in {self.path} has {name} = {value!r}; delete the file and "
                    "measure again, or set GRAPHWRIGHT_COSTS to another path"
                )

    def _put(self, table: str, key: tuple[str | int, ...], measured: Measurement) -> None:
        row = (*key, float(measured.seconds), float(measured.spread), int(measured.repeats))
        marks = ", ".join("?" * len(row))
        with self._writing() as database:
            database.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)

    def _exists(self) -> bool:
        try:
            return self.path.stat().st_size > 0 or not self.path.is_file()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._failed("read", error) from error

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """The checked store, or None if it does not exist yet."""
        if not self._exists():
            yield None
            return
        # Not read-only: after a crash during a write, the next reader must roll it back.
        with self._connection("read", "rw") as database:
            if database.execute("PRAGMA page_count").fetchone() == (0,):
                yield None
            else:
                _check(database, self.path)
                yield database

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction on the store, which is created if it does not exist."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._failed("write", error) from error
        with self._connection("write", "rwc") as database:
            # Lock first: if two processes see no store, only one of them creates it.
            database.execute("BEGIN IMMEDIATE")
            if not database.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
                for statement in filter(str.strip, _TABLES.split(";")):
                    database.execute(statement)
                database.execute("INSERT INTO meta VALUES ('version', ?)", (str(STORE_VERSION),))
                database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            _check(database, self.path)
            yield database
            database.execute("COMMIT")

    @contextmanager
    def _connection(self, verb: str, mode: str) -> Iterator[sqlite3.Connection]:
        """A new connection for every use, so that threads and forks can share a store."""
        try:
            with closing(
                sqlite3.connect(
                    f"{self.path.absolute().as_uri()}?mode={mode}",
                    uri=True,
                    timeout=self.timeout,
                    isolation_level=None,
                )
            ) as database:
                yield database
        except (sqlite3.Error, OSError) as error:
            raise self._failed(verb, error) from error

    def _failed(self, verb: str, error: Exception) -> StoreError:
        said = str(error)
        if "not a database" in said or self.path.is_dir():
            what, tip = "it is not a store of measured costs", "use another path"
        elif "locked" in said:
            what, tip = "another process is writing to it", "try again later"
        elif "malformed" in said:
            what, tip = "the file is damaged", "delete it and measure again"
        else:
            what = (error.strerror or said) if isinstance(error, OSError) else said
            tip = "check that its folder exists and is writable, and that the disk is not full"
        return StoreError(
            f"cannot {verb} the measured costs in {self.path}: {what}; {tip}, or set "
            "GRAPHWRIGHT_COSTS to another path"
        )


_KEYS = {
    "compute": ("device", "torch", "op", "attrs", "types"),
    "collective": ("cluster", "kind", "signature", "log2_size"),
}


def _check(database: sqlite3.Connection, path: Path) -> None:
    """Refuse other databases, and stores of another version."""
    (application,) = database.execute("PRAGMA application_id").fetchone()
    if application != _APPLICATION_ID:
        raise StoreError(
            f"{path} is a database, but not a store of measured costs; use another path, or set "
            "GRAPHWRIGHT_COSTS"
        )
    row = database.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
    version = row[0] if row else "none"
    if version != str(STORE_VERSION):
        raise StoreVersionMismatch(
            f"the measured costs in {path} have version {version}, but this Graphwright reads "
            f"{STORE_VERSION}; use the version that wrote them, delete the file and measure again, "
            "or set GRAPHWRIGHT_COSTS to another path"
        )
