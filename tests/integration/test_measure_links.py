"""What collectives between real processes take, measured and used by the cost model."""

from graphwright.machine import Store, cluster
from graphwright.run.measure.links import KINDS, LinkTime, axes_of, make_monotone, measure_local
from graphwright.simulate import CostModel
from graphwright.simulate.communication import load_tables, signature
from limits import HANG


def test_every_way_to_span_levels_is_measured_once():
    assert list(axes_of(cluster("local:2"))) == [(0,)]
    assert list(axes_of(cluster("local:4"))) == [(0,), (0, 1)]
    assert len(list(axes_of(cluster("v100-2x8")))) == 7  # 1 or 2 nodes, 1 to 8 of their devices


def test_measured_times_are_what_the_cost_model_says(tmp_path):
    on, store = cluster("local:2"), Store(tmp_path / "costs.sqlite")
    found = measure_local(on, store=store, sizes=(1024, 65536), repeats=2, timeout=HANG).times
    assert {row.kind for row in found} == {kind.name for kind in KINDS}
    assert all(row.seconds > 0 for row in found)
    assert len(found) == 2 * len(KINDS)
    tables = load_tables(store, on)
    for row in found:
        table = tables[row.kind, signature(row.spans, row.contenders)]
        assert table.time(row.nbytes) == row.seconds
    assert CostModel(store)._tables_of(on).keys() == tables.keys()


def test_a_size_takes_no_longer_than_a_larger_one():
    rows = [
        LinkTime(kind=kind, spans=(2,), contenders=1, nbytes=nbytes, seconds=seconds)
        for kind, nbytes, seconds in (("send", 1, 5.0), ("send", 2, 3.0), ("send", 4, 4.0), ("all_reduce", 1, 9.0))
    ]  # fmt: skip
    assert [row.seconds for row in make_monotone(rows)] == [4.0, 4.0, 4.0, 9.0]


def test_processes_of_this_machine_measure_themselves(tmp_path):
    from graphwright.machine import estimated_cluster, measured_cluster
    from graphwright.run.measure.machine import measure_machine
    from graphwright.run.measure.strain import Strain, load_strain

    store = Store(tmp_path / "costs.sqlite")
    made = measure_machine(2, store)
    assert measured_cluster(2, store) == made
    assert made.devices[0].name == estimated_cluster(2).devices[0].name
    assert made.devices[0].launch > 1e-7
    assert 1e8 < made.devices[0].rate("float32") < 1e13
    assert 1e-6 < made.levels[0].latency < 1.0
    assert load_tables(store, made)
    assert load_strain(store, made) != Strain()
