"""Tables of measured times beside a preset: found by device and machine, after what a user measured."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphwright import ir
from graphwright.cli import app
from graphwright.describe import Types
from graphwright.errors import InvalidMeasurement, MeasuredTableError
from graphwright.ir import Attrs, GraphBuilder, TensorType
from graphwright.machine import (
    Cluster,
    Device,
    Level,
    Link,
    Measurement,
    Store,
    measured,
    names,
    save,
    save_table,
    table_from_json,
    table_of,
)
from graphwright.machine import cluster as find_cluster
from graphwright.simulate import CostModel, measured_with, record_collectives
from graphwright.simulate.communication import load_tables

SQUARE = TensorType((16, 16), "float32")
MM = ("aten.mm", Attrs(), Types((SQUARE, SQUARE), (SQUARE,)))
RELU = ("aten.relu", Attrs(), Types((SQUARE,), (SQUARE,)))
KEY = ("aten.mm", "", "float32[16, 16], float32[16, 16] -> float32[16, 16]")
ROW = Measurement(seconds=1.5e-5, spread=1e-7, repeats=30)


def machine(name="shipped", count=2, **changes) -> Cluster:
    device = Device(
        name="a device", memory=10**9, rates={"float32": 1e12}, bandwidth=1e11, launch=1e-6
    )
    levels = (
        Level(name="node", count=count, bandwidth=1e9, latency=1e-5),
        Level(name="gpu", count=4, bandwidth=1e10, latency=1e-6),
    )
    given = {"name": name, "levels": levels, "devices": (device,) * (4 * count)}
    return Cluster(**given | changes)


@pytest.fixture
def presets(tmp_path, monkeypatch):
    """A folder of presets of its own, in place of the package's."""
    folder = tmp_path / "presets"
    folder.mkdir()
    monkeypatch.setattr(names, "preset_folder", lambda: folder)
    forget()
    yield folder
    forget()


def forget() -> None:
    for known in (
        names.preset_names, names._preset, names._preset_files, measured._with_tables,
        measured._table,
    ):  # fmt: skip
        known.cache_clear()


def ship(folder: Path, on: Cluster, store: Store) -> None:
    save(on, folder / f"{on.name}.toml")
    devices = [device.name for device in on.kinds()]
    table = table_of(store, devices=devices, on=on, source="test", measured_with=measured_with())
    save_table(table, folder / f"{on.name}.measured.json")
    forget()


@pytest.fixture
def full(tmp_path) -> Store:
    """What somebody measured on the machine."""
    store = Store(tmp_path / "theirs.sqlite")
    store.put_compute("a device", measured_with(), *KEY, ROW)
    record_collectives(store, machine(), "all_reduce", (1, 4), 1, {1024: 1e-4, 4096: 2e-4})
    return store


def test_a_table_survives_its_file(presets, full):
    ship(presets, machine(), full)
    text = (presets / "shipped.measured.json").read_text()
    table = table_from_json(text, "it")
    assert table.compute == {"a device": {KEY: ROW}}
    assert table.collective == full.load_collective(machine().hash)
    assert (table.source, table.measured_with) == ("test", measured_with())
    assert all(len(line) < 200 for line in text.splitlines())  # a row for each line, to be compared


def test_own_measurements_win_over_a_table_and_a_table_over_the_roofline(presets, full, tmp_path):
    on, device = machine(), machine().devices[0]
    formulas = CostModel(measured=False)
    mine = Store(tmp_path / "mine.sqlite")
    assert CostModel(mine).compute(*MM, device) == formulas.compute(*MM, device)
    ship(presets, on, full)
    costs = CostModel(mine)
    assert costs.has_measured(device)
    assert costs.compute(*MM, device) == ROW.seconds
    assert costs.measurement(*MM, device) == ROW
    assert costs.compute(*RELU, device) == formulas.compute(*RELU, device)
    assert formulas.compute(*MM, device) != ROW.seconds
    own = replace(ROW, seconds=7e-5)
    mine.put_compute("a device", measured_with(), *KEY, own)
    assert CostModel(mine).compute(*MM, device) == own.seconds


def test_collectives_are_those_of_the_machine_with_any_counts(presets, full, tmp_path):
    ship(presets, machine(), full)
    mine = Store(tmp_path / "mine.sqlite")
    key = ("all_reduce", "1x4, 1 contenders")
    for on in (machine(), machine("other name", count=5), find_cluster("shipped:3")):
        assert load_tables(mine, on)[key].seconds == (1e-4, 2e-4)
    slower = replace(machine().levels[1], bandwidth=5e9)
    other = machine(levels=(machine().levels[0], slower))
    linked = machine(links=(Link(devices=(0, 1), bandwidth=1e9, latency=1e-6),))
    assert load_tables(mine, other) == load_tables(mine, linked) == {}
    record_collectives(mine, machine(), "all_reduce", (1, 4), 1, {1024: 3e-4})
    assert load_tables(mine, machine())[key].seconds == (3e-4,)  # never points of both in one


def test_no_table_is_read_before_it_is_asked_for(presets, full, monkeypatch):
    ship(presets, machine(), full)
    (presets / "shipped.measured.json").write_text("not read")
    stranger = replace(machine().devices[0], name="another")
    assert CostModel().compute(*MM, stranger) > 0
    with pytest.raises(MeasuredTableError, match="the measured table of preset shipped is not"):
        CostModel().compute(*MM, machine().devices[0])


def test_a_real_table_of_this_machine(presets, tmp_path):
    """Measured, written by the command, shipped beside a preset of this machine, and used."""
    store, on, build = tmp_path / "costs.sqlite", find_cluster("local:2"), GraphBuilder()
    x = build.add_input("x", SQUARE)
    (y,) = build.add("aten.mm", [x, x], {}, SQUARE)
    ir.save(build.build(build.add("aten.relu", [y], {}, SQUARE)), tmp_path / "graph.json")
    command = ["calibrate", str(tmp_path / "graph.json"), "--cluster", "local:2", "--store"]
    done = CliRunner().invoke(
        app, [*command, str(store), "-o", str(presets / "mine.measured.json")]
    )
    assert done.exit_code == 0, done.output
    save(replace(on, name="mine"), presets / "mine.toml")
    forget()
    costs, device = CostModel(Store(tmp_path / "none.sqlite")), on.devices[0]
    kept = Store(store).load_compute(device.name, measured_with())
    assert len(kept) >= 3  # whole, and in parts of two
    assert costs.compute(*MM, device) == kept[KEY].seconds > 0
    assert costs.compute(*MM, device) != CostModel(measured=False).compute(*MM, device)


def test_a_table_of_another_device_is_refused_before_anything_is_measured(presets, tmp_path):
    save(machine(), presets / "shipped.toml")
    forget()
    output = str(tmp_path / "shipped.measured.json")
    done = CliRunner().invoke(app, ["calibrate", "mlp", "--cluster", "shipped", "-o", output])
    assert isinstance(done.exception, InvalidMeasurement)
    assert "but shipped has 'a device'; measure another --device" in str(done.exception)
    assert not list(tmp_path.glob("*.json"))


def test_an_empty_table_is_refused(tmp_path):
    table = table_of(
        Store(tmp_path / "none.sqlite"), devices=["x"], on=None, source="", measured_with=""
    )
    with pytest.raises(MeasuredTableError, match="nothing was measured"):
        save_table(table, tmp_path / "x.measured.json")
    assert not list(tmp_path.iterdir())


GOOD = {
    "format": "graphwright.measured",
    "version": 1,
    "source": "",
    "measured_with": "2.11.0, method 5",
    "compute": {"a device": [[*KEY, 1.5e-5, 1e-7, 30]]},
    "collective": [["all_reduce", "1x4, 1 contenders", 10, 1e-4, 0.0, 1]],
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "graphwright.plan"}, "it is no table of measured times"),
        ({"version": 2}, "it has version 2; this Graphwright reads 1"),
        ({"source": 3}, "it: field 'source': has to be of type str"),
        ({"computes": {}}, "it: field 'computes': unknown"),
        ({"compute": []}, "it: field 'compute': has to be of type dict"),
        (
            {"compute": {"d": 5}},
            r"it: d\[0\]: 5 is not a row of \(str, str, str, float, float, int",
        ),
        ({"compute": {"d": [[*KEY, "1", 0.0, 1]]}}, r"it: d\[0\]: .* is not a row"),
        ({"compute": {"d": [[*KEY, -1.0, 0.0, 1]]}}, r"it: d\[0\]: a measurement has seconds = -1"),
        ({"collective": [["all_reduce", "4", 10, 1e-4, 0.0, 1]]}, "all_reduce over '4' at 2.10"),
        ({"collective": [["send", "2, 1 contenders", 99, 1e-4, 0.0, 1]]}, "sizes are 2.0 to 2.62"),
    ],
)
def test_a_table_that_is_none_is_refused(changes, message):
    table_from_json(json.dumps(GOOD), "it")
    with pytest.raises(MeasuredTableError, match=message):
        table_from_json(json.dumps(GOOD | changes), "it")


def test_a_field_that_is_missing_is_named():
    for name in GOOD.keys() - {"format", "version"}:
        less = {key: value for key, value in GOOD.items() if key != name}
        with pytest.raises(MeasuredTableError, match=f"it: field '{name}'"):
            table_from_json(json.dumps(less), "it")
    with pytest.raises(MeasuredTableError, match="it is not JSON"):
        table_from_json("{", "it")


def test_the_tables_that_are_shipped_can_be_read():
    for name in names.preset_names():
        assert name not in measured._with_tables() or measured._table(name)
