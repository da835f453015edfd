"""Transfers take what the formula of their links says, or what the tables of the cluster say."""

from dataclasses import replace

import numpy as np
import pytest

from graphwright.machine import (
    Cluster,
    Device,
    FrozenDict,
    Level,
    Link,
    Store,
    from_toml,
    to_toml,
)
from graphwright.simulate.communication import (
    Table,
    analytic,
    latency,
    load_tables,
    record_collectives,
    signature,
)
from graphwright.simulate.costs import CostModel
from graphwright.tasks.costs import Traffic
from reshardings import KINDS

DEVICE = Device(
    name="gpu", memory=10**9, rates=FrozenDict({"float32": 1e12}), bandwidth=1e11, launch=1e-6
)
NODES = Cluster(
    name="nodes",
    levels=(
        Level(name="node", count=2, bandwidth=1e9, latency=1e-5),
        Level(name="gpu", count=4, bandwidth=1e10, latency=1e-6),
    ),
    devices=(DEVICE,) * 8,
)
PAIR = Cluster(
    name="pair",
    levels=(Level(name="gpu", count=2, bandwidth=1e9, latency=1e-5),),
    devices=(DEVICE,) * 2,
    links=(Link(devices=(0, 1), bandwidth=2e10, latency=1e-7),),
)


def traffic(cluster, kind, spans, loads, nbytes=None, contenders=1) -> Traffic:
    resources = [cluster.resources.index(name) for name in loads]
    return Traffic(
        cluster=cluster,
        kind=KINDS[kind],
        nbytes=max(loads.values(), default=0) if nbytes is None else nbytes,
        spans=spans,
        contenders=contenders,
        resources=np.array(resources, np.int32),
        loads=np.array(list(loads.values()), np.int64),
    )


def test_a_message_waits_for_its_link():
    sent = traffic(NODES, "send", (1, 2), {"gpu 0 out": 10**7, "gpu 1 in": 10**7})
    assert analytic(sent) == pytest.approx(1e-6 + 1e-3)


def test_transfers_reach_a_share_of_what_a_level_carries():
    levels = NODES.levels[0], replace(NODES.levels[1], efficiency=0.8)
    part = replace(NODES, levels=levels)
    loads = {"gpu 0 out": 10**7, "gpu 1 in": 10**7}
    assert analytic(traffic(part, "send", (1, 2), loads)) == pytest.approx(1e-6 + 1e-3 / 0.8)
    assert part.hash != NODES.hash
    again = from_toml(to_toml(part), "part.toml")
    assert again == part and again.hash == part.hash


def test_a_message_between_nodes_waits_for_the_outermost_level_alone():
    sent = traffic(NODES, "send", (2, 2), {"node 0 out": 10**6, "node 1 in": 10**6})
    assert analytic(sent) == pytest.approx(1e-5 + 1e-3)


def test_a_collective_waits_log2_times_at_every_level_it_crosses():
    loads = {"node 0 out": 10**6, "gpu 0 out": 10**6}
    gathered = traffic(NODES, "all_gather", (2, 4), loads)
    assert latency(gathered) == pytest.approx(1 * 1e-5 + 2 * 1e-6)
    assert analytic(gathered) == pytest.approx(1.2e-5 + 1e-3)
    assert latency(traffic(NODES, "all_gather", (1, 3), loads)) == pytest.approx(2e-6)


def test_an_all_reduce_has_two_phases():
    loads = {"gpu 0 out": 10**6}
    reduced = latency(traffic(NODES, "all_reduce", (2, 4), loads))
    assert reduced == 2 * latency(traffic(NODES, "reduce_scatter", (2, 4), loads))


def test_the_slowest_link_counts():
    loads = {"node 0 out": 10**5, "gpu 0 out": 10**7}
    assert analytic(traffic(NODES, "exchange", (1, 1), loads)) == pytest.approx(1e-3)


def test_nothing_moved_takes_no_time():
    assert analytic(traffic(NODES, "all_reduce", (1, 4), {})) == 0
    assert analytic(traffic(NODES, "all_reduce", (1, 4), {"gpu 0 out": 0})) == 0


def test_an_explicit_link_has_its_own_latency():
    direct = traffic(PAIR, "send", (2,), {"link 0-1": 2 * 10**7})
    assert analytic(direct) == pytest.approx(1e-7 + 1e-3)
    back = traffic(PAIR, "all_reduce", (2,), {"link 0-1": 10, "link 1-0": 10})
    assert latency(back) == pytest.approx(2e-7)


def test_a_table_interpolates_the_bandwidth():
    table = Table((1024, 2048), (1e-3, 1e-3))
    assert table.time(1024) == table.time(2048) == 1e-3
    assert table.time(1536) == pytest.approx(1536 / (1.5 * 1024 / 1e-3))


def test_beyond_a_table_latency_and_bandwidth_stay():
    table = Table((1024, 4096), (1e-3, 2e-3))
    assert table.time(1) == table.time(1000) == 1e-3
    assert table.time(40960) == pytest.approx(2e-2)
    assert table.time(0) == 0


def test_tables_come_back_from_the_store(tmp_path):
    store = Store(tmp_path / "costs.sqlite")
    measured = {1: 1e-5, 2: 1e-5, 1024: 2e-5}
    record_collectives(store, NODES, "all_reduce", (1, 4), 2, measured)
    tables = load_tables(store, NODES)
    assert tables == {("all_reduce", signature((1, 4), 2)): Table((1, 2, 1024), (1e-5, 1e-5, 2e-5))}
    assert load_tables(store, PAIR) == {}


def test_the_cost_model_prefers_its_tables(tmp_path):
    store = Store(tmp_path / "costs.sqlite")
    record_collectives(store, NODES, "all_reduce", (1, 4), 2, {1024: 0.5, 2048: 0.75})
    model = CostModel(store)
    loads = {"gpu 0 out": 3072}
    known = traffic(NODES, "all_reduce", (1, 4), loads, nbytes=2048, contenders=2)
    assert model.communicate(known) == 0.75
    assert CostModel(store, measured=False).communicate(known) == analytic(known)
    for other in (
        traffic(NODES, "all_reduce", (1, 4), loads, contenders=1),
        traffic(NODES, "all_reduce", (1, 2), loads, contenders=2),
        traffic(NODES, "all_gather", (1, 4), loads, contenders=2),
    ):
        assert model.communicate(other) == analytic(other)
