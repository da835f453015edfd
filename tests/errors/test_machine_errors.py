"""Clusters and stores that are not what they should be: each message names the place, the value, the next step."""

from __future__ import annotations

import math
import os
import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from graphwright.errors import (
    ClusterFileError,
    GraphwrightError,
    InvalidCluster,
    StoreError,
    StoreVersionMismatch,
    UnknownCluster,
)
from graphwright.machine import (
    Cluster,
    Level,
    Link,
    Measurement,
    Store,
    cluster,
    from_toml,
    load,
    preset_names,
    save,
)

GOOD = """
name = "mine"
[device]
name = "gpu"
memory = "16GB"
bandwidth = "900GB/s"
launch = "5us"
[device.rates]
float32 = "15T"
[[level]]
name = "node"
count = 2
bandwidth = "10GB/s"
latency = "5us"
[[level]]
name = "gpu"
count = 2
bandwidth = "100GB/s"
latency = "2us"
[[link]]
devices = [0, 1]
bandwidth = "25GB/s"
latency = "2us"
[host]
bandwidth = "12GB/s"
duplex = "20GB/s"
latency = "10us"
"""

SEVERAL = GOOD.replace("[device]", "[[device]]\ncount = 4")

BAD = [
    # (what is replaced, by what, what the message has to name)
    ('memory = "16GB"', "", "device: 'memory' is missing"),
    ('memory = "16GB"', 'memory = "16"', "device: memory: '16' is not a size"),
    ('memory = "16GB"', 'memory = "0.3B"', "not an integer number of bytes"),
    ('memory = "16GB"', "memory = -1", "device: memory: -1"),
    ('memory = "16GB"', "memory = 1.5", "device: memory: 1.5"),
    ('memory = "16GB"', "memory = true", "device: memory: True"),
    ('memory = "16GB"', 'memory = "16GB"\nmemroy = 3', "device: unknown key 'memroy'; is 'memory' meant?"),
    ('"900GB/s"', '"900GB"', "device: bandwidth: '900GB' is not a bandwidth"),
    ('"900GB/s"', "inf", "device: bandwidth: inf"),
    ('"900GB/s"', "nan", "device: bandwidth: nan"),
    ('"900GB/s"', "0", "device: bandwidth: 0"),
    ('launch = "5us"', 'launch = "-5us"', "device: launch: '-5us' is not a time"),
    ('launch = "5us"', 'launch = "5us"\noverlaps = "no"', "device: overlaps: 'no' is not true or false"),
    ('launch = "5us"', 'launch = "5us"\nhandling = "-1us"', "device: handling: '-1us' is not a time"),
    ('launch = "5us"', 'launch = "5us"\nhandling_bandwidth = 0', "device: handling_bandwidth: 0"),
    ('launch = "5us"', 'launch = "5us"\nhandlin = 0', "device: unknown key 'handlin'; is 'handling' meant?"),
    ('float32 = "15T"', 'float16 = "15T"', "float32 is missing"),
    ('float32 = "15T"', 'float32 = "15T"\nfp16 = "2T"', "'fp16' is not a dtype"),
    ('float32 = "15T"', 'float32 = "15 flops"', "device.rates: float32: '15 flops' is not a rate"),
    ("[device.rates]\nfloat32", "rates = 3\n[host2]\nfloat32", "'host2'"),
    ("count = 2\nbandwidth = \"10GB/s\"", "count = 0\nbandwidth = \"10GB/s\"", "level[0]: count: 0"),
    ("count = 2\nbandwidth = \"10GB/s\"", "count = 2.0\nbandwidth = \"10GB/s\"", "level[0]: count: 2.0"),
    ("count = 2\nbandwidth = \"10GB/s\"", "count = 9999999\nbandwidth = \"10GB/s\"", "devices exceed the limit"),
    ("count = 2\nbandwidth = \"10GB/s\"", f"count = 1{'0' * 40}\nbandwidth = \"10GB/s\"", "level[0]: count: 1000"),
    ('"100GB/s"', '"100GB/s"\nshared = 1', "level[1]: shared: 1 is not true or false"),
    ('name = "node"', 'name = "gpu"', "two levels have the same name"),
    ('name = "node"', "name = 5", "level[0]: name: 5 is not a name"),
    ('name = "node"', "", "level[0]: 'name' is missing"),
    ('name = "mine"', "", "'name' is missing"),
    ('name = "mine"', 'name = "mine"\ncolour = 1', "unknown key 'colour'; known are name"),
    ('name = "mine"', 'name = "mine"\nprice_per_device_hour = -1', "price_per_device_hour: -1"),
    ('name = "mine"', 'name = "mine"\nsource = 1', "source: 1 is not text"),
    ("devices = [0, 1]", "devices = [0, 0]", "link[0]: devices: [0, 0] is not a pair"),
    ("devices = [0, 1]", "devices = [0, 4]", "devices are 0 to 3"),
    ("devices = [0, 1]", "devices = [0, -1]", "link[0]: devices: -1"),
    ("devices = [0, 1]", "devices = 3", "link[0]: devices: 3 is not a list"),
    ("[host]", "[[link]]\ndevices=[1, 0]\nbandwidth=1\nlatency=1\n[host]", "link (1, 0) is given twice"),
    ('duplex = "20GB/s"', 'duplex = "30GB/s"', "host: duplex: 30000000000"),
    ('duplex = "20GB/s"', "", "host: 'duplex' is missing"),
    ("[host]", "[[host]]", "host: [{"),
    ("[device]", "[[device]]", "device[0]: give either 'count' or 'at'"),
    ("[device]", "[[device]]\ncount = 3", "1 of 4 devices are not defined, first 3"),
    ("[device]", "[[device]]\ncount = 5", "device[0]: count: 5 devices, but only 4 of 4 are left"),
    ("[device]", "[[device]]\nat = [0, 4]", "device[0]: at: the devices are 0 to 3, not 4"),
    ("[device]", "[[device]]\nat = [0, 0]", "device[0]: at: device 0 is given twice"),
    ("[device]", "[device]\ncount = 4", "device: unknown key 'count'"),
    ("[[level]]", "[[levels]]", "unknown key 'levels'; is 'level' meant?"),
    ("[host]", "[host", "is not a TOML file"),
]  # fmt: skip


def test_the_good_ones_are_good():
    assert from_toml(GOOD).num_devices == 4
    assert from_toml(SEVERAL) == from_toml(GOOD)


@pytest.mark.parametrize(("old", "new", "named"), BAD)
def test_a_bad_figure_is_named_with_its_file(tmp_path: Path, old: str, new: str, named: str):
    assert old in GOOD
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace(old, new, 1) if old != "[[level]]" else GOOD.replace(old, new))
    with pytest.raises(InvalidCluster, match=re.escape(named)) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))


def test_devices_of_several_kinds():
    text = GOOD.replace("[device]", "[[device]]\nat = [1, 3]")
    second = GOOD[GOOD.index("[device]") : GOOD.index("[[level]]")]
    second = second.replace("[device]", "[[device]]\ncount = 2").replace('"gpu"', '"old gpu"')
    mixed = from_toml(text + second)
    assert [device.name for device in mixed.devices] == ["old gpu", "gpu", "old gpu", "gpu"]
    with pytest.raises(InvalidCluster, match="several kinds and cannot be resized"):
        mixed.resized({"node": 4})


def test_files_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(ClusterFileError, match=r"nowhere\.toml: No such file"):
        cluster(str(tmp_path / "nowhere.toml"))
    with pytest.raises(ClusterFileError, match="check the path"):
        load(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidCluster, match="is not a TOML file"):
        load(binary)


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path):
    with pytest.raises(ClusterFileError, match="check that its folder exists"):
        save(from_toml(GOOD), tmp_path / "missing" / "mine.toml")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("dgx-h10", "did you mean 'dgx-h100'?"),
        ("DGX-H100", "did you mean 'dgx-h100'?"),
        ("zzzz", "there is no cluster 'zzzz'; use a preset"),
        ("zzzz:4", "there is no cluster 'zzzz:4'"),
        ("", "'' is not the name of a cluster"),
        ("a\0b", "is not the name of a cluster"),
        (7, "7 is not the name of a cluster"),
        (None, "None is not the name of a cluster"),
    ],
)
def test_unknown_names(name: object, named: str):
    with pytest.raises(UnknownCluster, match=re.escape(named)) as caught:
        cluster(name)  # type: ignore[arg-type]
    assert all(preset in str(caught.value) for preset in preset_names())


@pytest.mark.parametrize(
    "name", ["dgx-h100:0", "local:0", "local:999999999", "dgx-h100:999999999", "dgx-h100:four"]
)
def test_counts_that_cannot_be(name: str):
    with pytest.raises(InvalidCluster, match=r"at least 1|devices exceed the limit|as dgx-h100:4"):
        cluster(name)


def test_resizing_what_cannot_be():
    good = from_toml(GOOD)
    with pytest.raises(InvalidCluster, match="no level 'rack'; its levels are node, gpu"):
        good.resized({"rack": 2})
    with pytest.raises(InvalidCluster, match="level 'gpu': count: 0"):
        good.resized({"gpu": 0})
    with pytest.raises(
        InvalidCluster, match=r"the explicit link \(0, 1\) connects two of its members"
    ):
        good.resized({"gpu": 4})
    with pytest.raises(InvalidCluster, match="its members differ in their explicit links"):
        good.resized({"node": 4})


@pytest.mark.parametrize(
    "make",
    [
        lambda good: replace(good, levels=()),
        lambda good: replace(good, levels=("node",)),
        lambda good: replace(good, name=" "),
        lambda good: replace(good, name="a\nb"),
        lambda good: replace(good, price=math.nan),
        lambda good: replace(good, source="\ud800"),
        lambda good: replace(good, host=3),
        lambda good: replace(good.devices[0], rates=5),
        lambda good: replace(good.devices[0], memory=10**30),
        lambda good: Link(devices=(0,), bandwidth=1, latency=1),
        lambda good: Link(devices=(0, 1), bandwidth=10**400, latency=1),
        lambda good: Level(name="x", count=True, bandwidth=1, latency=1),
        lambda good: Level(name="x", count=1, bandwidth="1", latency=1),
    ],
)
def test_what_is_made_in_python_is_checked_too(make: Callable[[Cluster], object]):
    with pytest.raises(InvalidCluster):
        make(from_toml(GOOD))


M = Measurement(seconds=1.0, spread=0.0, repeats=1)


def put(path: Path) -> None:
    Store(path, timeout=0.1).put_compute("d", "t", "op", "", "", M)


def test_a_store_of_another_version(tmp_path: Path):
    path = tmp_path / "costs.sqlite"
    put(path)
    database = sqlite3.connect(path)
    database.execute("UPDATE meta SET value = '99'")
    database.commit()
    database.close()
    before = path.read_bytes()
    with pytest.raises(
        StoreVersionMismatch, match=r"costs\.sqlite have version 99.*delete the file"
    ):
        Store(path)
    assert path.read_bytes() == before


def test_a_store_that_changes_while_it_is_open(tmp_path: Path):
    path = tmp_path / "costs.sqlite"
    put(path)
    store = Store(path)
    database = sqlite3.connect(path)
    database.execute("UPDATE meta SET value = '99'")
    database.commit()
    database.close()
    with pytest.raises(StoreVersionMismatch):
        store.load_compute("d", "t")
    with pytest.raises(StoreVersionMismatch):
        store.put_compute("d", "t", "op", "", "", M)


def test_a_file_that_is_no_database(tmp_path: Path):
    path = tmp_path / "costs.sqlite"
    path.write_text("not a database, but long enough to have a header of one hundred bytes" * 20)
    with pytest.raises(StoreError, match=r"costs\.sqlite: it is not a store"):
        Store(path)
    with pytest.raises(StoreError, match="it is not a store"):
        Store(tmp_path)


def test_a_database_of_something_else(tmp_path: Path):
    path = tmp_path / "photos.sqlite"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE photos (name TEXT)")
    database.commit()
    database.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="but not a store of measured costs"):
        Store(path)
    assert path.read_bytes() == before


def test_a_damaged_store(tmp_path: Path):
    path = tmp_path / "costs.sqlite"
    put(path)
    path.write_bytes(path.read_bytes()[:5000] + b"\xff" * 20000)
    with pytest.raises(StoreError, match=re.escape(str(path))):
        Store(path).load_compute("d", "t")


def test_a_folder_that_cannot_be_written_to(tmp_path: Path):
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(StoreError, match="GRAPHWRIGHT_COSTS"):
        put(blocked / "costs.sqlite")
    with pytest.raises(StoreError, match="GRAPHWRIGHT_COSTS"):
        put(blocked / "deeper" / "costs.sqlite")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(tmp_path: Path):
    path = tmp_path / "costs.sqlite"
    put(path)
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        assert Store(path).load_compute("d", "t") == {("op", "", ""): M}
        with pytest.raises(StoreError, match="exists and is writable"):
            put(path)
        with pytest.raises(StoreError, match="exists and is writable"):
            put(tmp_path / "other.sqlite")
    finally:
        tmp_path.chmod(0o755)


def test_a_folder_of_the_system(tmp_path: Path):
    if not Path("/proc/self").is_dir():
        pytest.skip("needs a folder that nobody can write to")
    with pytest.raises(StoreError, match=r"cannot write .*exists and is writable"):
        put(Path("/proc/costs.sqlite"))


def test_a_store_that_another_process_holds(tmp_path: Path):
    path = tmp_path / "costs.sqlite"
    put(path)
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another process is writing to it"):
        put(path)
    database.execute("ROLLBACK")
    database.close()
    put(path)


@pytest.mark.parametrize(
    "figures", [(math.nan, 0.0, 1), (-1.0, 0.0, 1), (1.0, math.inf, 1), (1.0, 0.0, 0)]
)
def test_measurements_that_are_none(figures: tuple[float, float, int]):
    with pytest.raises(StoreError):
        Measurement(seconds=figures[0], spread=figures[1], repeats=figures[2])


def test_all_are_caught_by_the_base():
    for error in (InvalidCluster, UnknownCluster, ClusterFileError, StoreError):
        assert issubclass(error, GraphwrightError)
