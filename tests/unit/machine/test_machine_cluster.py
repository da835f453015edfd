"""Clusters: numbering, axes, routes, resizing, hashes."""

from __future__ import annotations

import math
import pickle
import time
from dataclasses import replace

import numpy as np
import pytest

from graphwright.errors import InvalidCluster
from graphwright.machine import Axis, Cluster, Device, FrozenDict, HostLink, Level, Link, Route

GPU = Device(
    name="gpu", memory=10**9, rates=FrozenDict({"float32": 1e12}), bandwidth=1e11, launch=1e-6
)


def make(*levels: Level, **others: object) -> Cluster:
    devices = (GPU,) * math.prod(level.count for level in levels)
    return Cluster(**{"name": "test", "levels": levels, "devices": devices, **others})


def node(count: int, **others: object) -> Level:
    return Level(**{"name": "node", "count": count, "bandwidth": 1e9, "latency": 1e-5, **others})


def gpu(count: int, **others: object) -> Level:
    return Level(**{"name": "gpu", "count": count, "bandwidth": 8e9, "latency": 2e-6, **others})


def test_axes_are_the_prime_factors_outermost_first():
    assert [axis.size for axis in make(node(2), gpu(8)).axes] == [2, 2, 2, 2]
    assert make(node(1), gpu(6)).axes == (Axis(size=2, level=1), Axis(size=3, level=1))
    assert [(a.size, a.level) for a in make(node(30), gpu(7)).axes] == [(2, 0), (3, 0), (5, 0), (7, 1)]  # fmt: skip
    assert make(gpu(1)).axes == ()


def test_strides():
    inner = Level(name="core", count=3, bandwidth=1e10, latency=0)
    cluster = make(node(2), gpu(4), inner)
    assert cluster.strides == (12, 3, 1)
    assert cluster.num_devices == 24


def test_resources_are_numbered_as_documented():
    links = (Link(devices=(3, 1), bandwidth=5e9, latency=0),)
    cluster = make(node(2), gpu(2), links=links)
    assert cluster.resources == (
        *("gpu 0", "gpu 1", "gpu 2", "gpu 3"),
        *("node 0 out", "node 0 in", "node 1 out", "node 1 in"),
        *("gpu 0 out", "gpu 0 in", "gpu 1 out", "gpu 1 in", "gpu 2 out", "gpu 2 in"),
        *("gpu 3 out", "gpu 3 in"),
        *("link 3-1", "link 1-3"),
    )
    assert cluster.num_resources == len(cluster.resources)
    assert cluster.resource_bandwidths.tolist() == [0.0] * 4 + [1e9] * 4 + [8e9] * 8 + [5e9] * 2


def test_host_links_are_numbered_behind_all_others():
    links, host = (Link(devices=(3, 1), bandwidth=5e9, latency=0),), HostLink(bandwidth=12e9, duplex=20e9, latency=1e-5)  # fmt: skip
    without, cluster = (make(node(2), gpu(2), links=links, host=h) for h in (None, host))
    assert cluster.resources[: cluster.first_host_link] == without.resources
    assert cluster.resources[cluster.first_host_link :] == (
        *("gpu 0 to-host", "gpu 0 from-host", "gpu 1 to-host", "gpu 1 from-host"),
        *("gpu 2 to-host", "gpu 2 from-host", "gpu 3 to-host", "gpu 3 from-host"),
    )
    assert cluster.first_link == without.first_link == without.num_resources - 2
    assert cluster.num_resources == len(cluster.resources) == without.num_resources + 8
    assert cluster.resource_bandwidths[: without.num_resources].tolist() == without.resource_bandwidths.tolist()  # fmt: skip
    assert set(cluster.resource_bandwidths[cluster.first_host_link :].tolist()) == {12e9}
    assert cluster.route(0, 3) == without.route(0, 3)


def test_the_ways_to_and_from_the_host():
    cluster = make(node(2), gpu(2), host=HostLink(bandwidth=12e9, duplex=20e9, latency=1e-5))
    there, back = cluster.to_host(1), cluster.from_host(1)
    assert [cluster.resources[r] for r in there.resources + back.resources] == ["gpu 1 to-host", "gpu 1 from-host"]  # fmt: skip
    assert there.bandwidth == back.bandwidth == 12e9
    assert there.latency == 1e-5
    busy = cluster.to_host(1, both=True)
    assert (busy.resources, busy.bandwidth) == (there.resources, 10e9)
    assert cluster.from_host(1, both=True).bandwidth == 10e9
    with pytest.raises(IndexError, match="devices 0 to 3"):
        cluster.to_host(4)
    with pytest.raises(InvalidCluster, match=r"says nothing about the link to its hosts; add a table \[host\]"):  # fmt: skip
        make(node(2), gpu(2)).from_host(0)


def test_a_shared_level_has_one_bus_per_group():
    cluster = make(node(2), gpu(2, shared=True))
    assert cluster.resources[4:] == (
        *("node 0 out", "node 0 in", "node 1 out", "node 1 in"),
        *("node 0 bus", "node 1 bus"),
    )
    assert cluster.route(2, 3) == Route(resources=(9,), bandwidth=8e9, latency=2e-6)
    alone = make(gpu(3, shared=True))
    assert alone.resources[3:] == ("gpu bus",)
    assert alone.route(2, 0).resources == (3,)


def test_a_route_takes_the_ports_of_the_outermost_level_that_parts_the_devices():
    cluster = make(node(2), gpu(2))
    assert cluster.route(0, 1) == Route(resources=(8, 11), bandwidth=8e9, latency=2e-6)
    assert cluster.route(1, 0).resources == (10, 9)
    assert cluster.route(1, 2) == Route(resources=(4, 7), bandwidth=1e9, latency=1e-5)
    assert cluster.route(1, 2) is cluster.route(1, 2)


def test_a_slower_level_inside_bounds_the_bandwidth():
    cluster = make(node(2, bandwidth=1e12), gpu(2))
    route = cluster.route(0, 3)
    assert route.bandwidth == 8e9
    assert route.latency == 1e-5
    assert [cluster.resources[r] for r in route.resources] == ["node 0 out", "node 1 in"]


def test_an_explicit_link_is_the_whole_route_each_way():
    cluster = make(node(2), gpu(2), links=(Link(devices=(1, 2), bandwidth=3e9, latency=1e-7),))
    there, back = cluster.route(1, 2), cluster.route(2, 1)
    assert [cluster.resources[r] for r in there.resources + back.resources] == ["link 1-2", "link 2-1"]  # fmt: skip
    assert there.bandwidth == back.bandwidth == 3e9
    assert cluster.route(0, 2).latency == 1e-5


def test_a_device_reaches_itself_at_once():
    cluster = make(node(2), gpu(2))
    assert cluster.route(3, 3) == Route(resources=(), bandwidth=math.inf, latency=0.0)
    resources, bandwidth, latency = cluster.routes([3], [3])
    assert (resources.tolist(), bandwidth.tolist(), latency.tolist()) == ([[-1, -1]], [math.inf], [0.0])  # fmt: skip


@pytest.mark.parametrize("pair", [(-1, 0), (0, 4)])
def test_a_device_that_is_not_there_is_refused(pair: tuple[int, int]):
    cluster = make(node(2), gpu(2))
    with pytest.raises(IndexError, match="devices 0 to 3"):
        cluster.route(*pair)
    with pytest.raises(IndexError, match="devices 0 to 3"):
        cluster.routes([0, pair[0]], [1, pair[1]])


def test_first_differing_level():
    cluster = make(node(2), gpu(4))
    assert cluster.first_differing_level([0, 3, 5]) == 0
    assert cluster.first_differing_level([4, 7]) == 1
    assert cluster.first_differing_level([6]) == cluster.first_differing_level([6, 6]) == 2
    assert cluster.latency(1) == 2e-6


def test_rates_fall_back():
    device = replace(GPU, rates={"float32": 8.0, "float16": 64.0})
    assert device.rate("float64") == 4
    assert device.rate("bfloat16") == 8
    assert device.rate("float8_e5m2") == 64
    assert device.rate("complex128") == 1
    assert device.rate("int64") == 4
    assert replace(device, rates={"float32": 8.0, "float64": 7.0}).rate("float64") == 7


def test_resized_keeps_the_machine():
    cluster = make(node(2), gpu(8), host=HostLink(bandwidth=1e9, duplex=2e9, latency=0), price=2.0)
    larger = cluster.resized({"node": 4})
    assert larger.name == "test:4"
    assert larger.num_devices == 32
    assert (larger.host, larger.price) == (cluster.host, cluster.price)
    assert larger.resized({"node": 2}).hash == cluster.hash
    assert cluster.resized({"gpu": 2}).name == "test[node=2, gpu=2]"
    assert cluster.resized({"node": 2}) is cluster


def test_resized_repeats_the_links_of_a_member():
    links = tuple(
        Link(devices=(2 * n + 1, 2 * n), bandwidth=n % 1 + 1e9, latency=0) for n in range(2)
    )
    larger = make(node(2), gpu(2), links=links).resized({"node": 3})
    assert [link.devices for link in larger.links] == [(1, 0), (3, 2), (5, 4)]


def test_the_hash_covers_figures_and_not_names():
    cluster = make(node(2), gpu(8))
    # A change of this value makes every measured collective stale: say so in the change log.
    assert cluster.hash == "8ae6aa04afae83d50f9a280b4f9dffa3"
    assert replace(cluster, name="other", source="elsewhere", price=1.0).hash == cluster.hash
    assert replace(cluster, name="other") != cluster
    for other in (
        make(node(4), gpu(4)),
        make(node(2), gpu(8, shared=True)),
        make(node(2), gpu(8), links=(Link(devices=(0, 1), bandwidth=1e9, latency=0),)),
        make(node(2), gpu(8), host=HostLink(bandwidth=1, duplex=2, latency=0)),
        replace(cluster, devices=(*cluster.devices[1:], replace(GPU, memory=1))),
        replace(cluster, devices=(replace(GPU, overlaps=False),) * 16),
    ):
        assert other.hash != cluster.hash
    equal = replace(cluster, devices=tuple(replace(GPU) for _ in range(16)))
    assert (equal.hash, hash(equal)) == (cluster.hash, hash(cluster))
    assert equal == cluster


def test_a_cluster_can_be_pickled():
    cluster = make(node(2), gpu(2), links=(Link(devices=(1, 2), bandwidth=3e9, latency=1e-7),))
    again = pickle.loads(pickle.dumps(cluster))
    assert again == cluster
    assert again.route(1, 2) == cluster.route(1, 2)


def test_repr_says_what_it_is():
    assert repr(make(node(2), gpu(8))) == "Cluster(test: 2 node x 8 gpu: 16 x gpu (1 GB))"


@pytest.mark.parametrize("nodes", [128, 2048])
def test_large_clusters_are_cheap(nodes: int):
    begin = time.process_time()
    cluster = make(node(nodes), gpu(8))
    assert time.process_time() - begin < 0.1
    everyone = np.arange(cluster.num_devices)
    resources, bandwidth, _ = cluster.routes(everyone, np.roll(everyone, -1))
    assert resources.shape == (8 * nodes, 2)
    assert set(bandwidth.tolist()) == {1e9, 8e9}
    assert len(cluster.resources) == cluster.num_resources == 8 * nodes * 3 + 2 * nodes


def test_figures_are_checked_when_made():
    with pytest.raises(
        InvalidCluster, match=r"level 'node': bandwidth: -1 is not a finite positive number"
    ):
        node(2, bandwidth=-1)
    with pytest.raises(InvalidCluster, match="2 x 2 = 4 devices, but 3 are given"):
        make(node(2), gpu(2), devices=(GPU,) * 3)
