"""Laws of clusters: the file gives the cluster back; one route or many, the answer is the same."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphwright.errors import InvalidCluster
from graphwright.machine import (
    Cluster,
    Device,
    FrozenDict,
    HostLink,
    Level,
    Link,
    from_toml,
    to_toml,
)

positive = st.floats(1e-18, 1e24) | st.integers(1, 10**15)
times = st.just(0.0) | st.floats(1e-18, 1e6) | st.sampled_from([1e-6, 4e-6, 3.5e-3])
names = st.text(min_size=1, max_size=8).filter(lambda s: s.isprintable() and s == s.strip() and s)
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)


@st.composite
def devices(draw) -> Device:
    others = draw(st.dictionaries(st.sampled_from(["float16", "float64", "int8"]), positive))
    return Device(
        name=draw(names),
        memory=draw(st.integers(1, 2**50) | st.just(80 * 10**9)),
        rates=FrozenDict({"float32": draw(positive), **others}),
        bandwidth=draw(positive),
        launch=draw(times),
        overlaps=draw(st.booleans()),
    )


@st.composite
def clusters(draw) -> Cluster:
    counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    levels = tuple(
        Level(
            name=f"{draw(names)} {depth}",
            count=count,
            bandwidth=draw(positive),
            latency=draw(times),
            shared=draw(st.booleans()),
        )
        for depth, count in enumerate(counts)
    )
    total = prod(counts)
    kinds = draw(st.lists(devices(), min_size=1, max_size=2))
    placed = tuple(draw(st.sampled_from(kinds)) for _ in range(min(total, 6)))
    pairs = [(a, b) for a in range(total) for b in range(total) if a != b]
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=6)) if pairs else []
    links = {frozenset(pair): pair for pair in chosen}.values()
    way = draw(st.floats(1.0, 1e12))
    return Cluster(
        name=draw(names),
        levels=levels,
        devices=(placed + placed[-1:] * total)[:total],
        links=tuple(Link(devices=p, bandwidth=draw(positive), latency=draw(times)) for p in links),
        host=draw(st.none() | st.just(HostLink(bandwidth=way, duplex=1.5 * way, latency=1e-5))),
        price=draw(st.none() | times),
        source=draw(texts),
    )


@given(clusters())
def test_toml_round_trip(cluster: Cluster):
    text = to_toml(cluster)
    again = from_toml(text)
    assert again == cluster
    assert again.hash == cluster.hash
    assert to_toml(again) == text


@given(clusters())
def test_route_and_routes_agree(cluster: Cluster):
    pairs = [(a, b) for a in range(cluster.num_devices) for b in range(cluster.num_devices)][:2000]
    sources, targets = np.array(pairs).T
    resources, bandwidth, latency = cluster.routes(sources, targets)
    assert (resources.dtype, bandwidth.dtype, latency.dtype) == (np.int32, np.float64, np.float64)
    for i, (source, target) in enumerate(pairs):
        route = cluster.route(source, target)
        assert tuple(r for r in resources[i] if r >= 0) == route.resources
        assert (bandwidth[i], latency[i]) == (route.bandwidth, route.latency)


@given(clusters())
def test_a_route_is_as_fast_as_the_slowest_level_it_passes(cluster: Cluster):
    linked = {frozenset(link.devices): link for link in cluster.links}
    for source in range(min(cluster.num_devices, 8)):
        for target in range(cluster.num_devices):
            route = cluster.route(source, target)
            if source == target:
                assert route.resources == ()
                continue
            assert all(cluster.num_devices <= r < cluster.num_resources for r in route.resources)
            assert all(route.bandwidth <= cluster.resource_bandwidths[r] for r in route.resources)
            if link := linked.get(frozenset((source, target))):
                assert (route.bandwidth, route.latency) == (link.bandwidth, link.latency)
                continue
            depth = cluster.first_differing_level((source, target))
            assert route.latency == cluster.latency(depth)
            assert route.bandwidth == min(v.bandwidth for v in cluster.levels[depth:])
            back = cluster.route(target, source)
            shared = cluster.levels[depth].shared
            assert (set(back.resources) == set(route.resources)) == shared


@given(clusters())
def test_axes_multiply_to_the_levels(cluster: Cluster):
    for depth, level in enumerate(cluster.levels):
        assert prod(a.size for a in cluster.axes if a.level == depth) == level.count
        assert cluster.strides[depth] == prod(v.count for v in cluster.levels[depth + 1 :])
    assert [axis.level for axis in cluster.axes] == sorted(axis.level for axis in cluster.axes)
    assert len(set(cluster.resources)) == cluster.num_resources
    assert len(cluster.resource_bandwidths) == cluster.num_resources


@given(clusters(), st.integers(1, 6))
def test_resizing_back_gives_the_same_machine(cluster: Cluster, count: int):
    outermost = cluster.levels[0]
    with suppress(InvalidCluster):  # several kinds of device, or links that cannot be repeated
        other = cluster.resized({outermost.name: count})
        assert other.num_devices == cluster.strides[0] * count
        back = other.resized({outermost.name: outermost.count})
        assert set(back.links) == set(cluster.links)
        assert replace(back, links=cluster.links).hash == cluster.hash


@given(st.text(max_size=300) | st.binary(max_size=100).map(repr))
def test_no_text_crashes_the_reader(text: str):
    with suppress(InvalidCluster):
        from_toml(text)
