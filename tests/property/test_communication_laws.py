"""Laws of transfer times: more bytes never take less time, and a table says at its points what was measured there."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphwright.machine import Cluster, Device, FrozenDict, Level
from graphwright.plans import transfers
from graphwright.simulate.communication import Table, analytic
from graphwright.tasks.costs import Traffic

DEVICE = Device(
    name="gpu", memory=10**9, rates=FrozenDict({"float32": 1e12}), bandwidth=1e11, launch=1e-6
)


@st.composite
def traffics(draw) -> tuple[Traffic, Traffic]:
    """Two steps that differ in their bytes alone, the first with no more on any link."""
    bandwidths = st.floats(1e6, 1e12)
    levels = tuple(
        Level(
            name=name,
            count=draw(st.integers(1, 4)),
            bandwidth=draw(bandwidths),
            latency=draw(st.just(0.0) | st.floats(1e-18, 1e-3)),
            shared=draw(st.booleans()),
        )
        for name in ("node", "gpu")
    )
    count = levels[0].count * levels[1].count
    cluster = Cluster(name="any", levels=levels, devices=(DEVICE,) * count)
    links = range(count, cluster.num_resources)
    resources = draw(st.lists(st.sampled_from(links), min_size=1, unique=True))
    sizes = st.lists(st.integers(0, 10**12), min_size=len(resources), max_size=len(resources))
    few, more = draw(sizes), draw(sizes)
    loads = [few, [a + b for a, b in zip(few, more, strict=True)]]
    kind = draw(st.sampled_from(transfers.TRANSFERS))
    spans = tuple(draw(st.integers(1, level.count)) for level in levels)
    first, second = (
        Traffic(
            cluster=cluster,
            kind=kind,
            nbytes=max(load),
            spans=spans,
            contenders=1,
            resources=np.array(resources, np.int32),
            loads=np.array(load, np.int64),
        )
        for load in loads
    )
    return first, second


@given(traffics())
def test_time_is_monotone_in_bytes(pair):
    first, second = pair
    assert 0 <= analytic(first) <= analytic(second)


@st.composite
def tables(draw) -> Table:
    """Measured times that do not shrink, at some powers of two."""
    exponents = sorted(draw(st.sets(st.integers(0, 40), min_size=1, max_size=12)))
    times = sorted(
        draw(st.lists(st.floats(1e-7, 10), min_size=len(exponents), max_size=len(exponents)))
    )
    return Table(tuple(2**e for e in exponents), tuple(times))


@given(tables())
def test_a_table_passes_through_its_points(table):
    assert tuple(map(table.time, table.sizes)) == table.seconds


@given(tables(), st.integers(0, 2**41), st.integers(0, 2**41))
def test_a_table_is_monotone_where_its_points_are(table, a, b):
    low, high = sorted((a, b))
    assert table.time(low) <= table.time(high) * (1 + 1e-9)


@given(tables(), st.integers(0, 39), st.floats(0, 1))
def test_between_two_points_time_is_between_theirs(table, exponent, share):
    size = int(2**exponent * (1 + share))
    around = [t for s, t in zip(table.sizes, table.seconds, strict=True) if s <= size][-1:]
    above = [t for s, t in zip(table.sizes, table.seconds, strict=True) if s >= size][:1]
    if around and above:
        assert around[0] * (1 - 1e-9) <= table.time(size) <= above[0] * (1 + 1e-9)
