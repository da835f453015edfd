"""The least time for each number of devices."""

from dataclasses import replace

import pytest

import graphwright as gw
from additive import COSTS
from graphwright.errors import InvalidOption
from graphwright.machine import cluster
from graphwright.plans import figures_of
from random_plans import zoo_graph

QUICK = {"points": 2, "baselines": ("data",), "costs": COSTS}


def test_one_row_for_each_size():
    found = gw.profile(zoo_graph("mlp"), "v100-2x8", devices=(4, 1, 2, 11, 16), **QUICK)
    assert [row.num_devices for row in found] == [1, 2, 4, 16]
    assert len(found) == 4
    for row in found:
        assert row.plan.cluster.num_devices == row.num_devices
        assert (row.time, row.memory) == (figures_of(row.plan).time, figures_of(row.plan).memory)
    assert found.fastest().time == min(row.time for row in found)
    assert "devices" in repr(found)


def test_what_does_not_fit_says_what_it_needs():
    alone = gw.profile(zoo_graph("gpt2"), "p2.8xlarge", devices=(1,), **QUICK)
    limit = int(alone.rows[0].memory * 0.7)
    found = gw.profile(zoo_graph("gpt2"), "p2.8xlarge", devices=(1, 8), memory=limit, **QUICK)
    small, large = found
    assert (small.time, small.cost, small.plan) == (None, None, None)
    assert small.memory > limit >= large.memory
    assert found.fastest() is large
    assert found.cheapest() is large
    assert "does not fit" in repr(found)


def test_prices():
    on = replace(cluster("p2.8xlarge"), price=3.6)
    found = gw.profile(zoo_graph("mlp"), on, devices=(1, 2), **QUICK)
    for row in found:
        assert row.cost == pytest.approx(3.6 * row.num_devices * row.time / 3600)
    assert found.cheapest().cost == min(row.cost for row in found)


def test_nothing_fits_at_all():
    found = gw.profile(zoo_graph("mlp"), "local:2", memory="1kB", **QUICK)
    assert found.fastest() is None
    assert found.cheapest() is None


@pytest.mark.parametrize("devices", [(0,), (-1,), (2.0,), (True,), ("2",)])
def test_numbers_of_devices(devices):
    with pytest.raises(InvalidOption, match="no number of devices"):
        gw.profile(zoo_graph("mlp"), "local:2", devices=devices, **QUICK)


def test_sizes_that_the_cluster_cannot_have():
    with pytest.raises(InvalidOption, match=r"cannot have any of \[11\] devices"):
        gw.profile(zoo_graph("mlp"), "v100-2x8", devices=(11,), **QUICK)
