"""What transfers are priced at: small gradients by the bucket, and ways by formulas whatever was measured."""

from dataclasses import replace
from pathlib import Path

import pytest

from graphwright.ir import TensorType
from graphwright.machine import Store, cluster
from graphwright.partition import data_parallel
from graphwright.plans import Partial, Replicated, Sharding, whole_mesh
from graphwright.simulate import CostModel, record_collectives, simulate
from graphwright.tasks import BUCKET_BYTES, Templates, reshard
from random_plans import zoo_graph

LOCAL = cluster("local:2")
FORMULAS = CostModel(measured=False)
SUMMED = Sharding(whole_mesh(LOCAL), (Replicated(),))
TERMS = Sharding(whole_mesh(LOCAL), (Partial(),))


def seconds(on, nbytes, pooled):
    type = TensorType((nbytes // 4,), "float32")
    return Templates(on, FORMULAS).movement(type, TERMS, SUMMED, pooled).duration.sum() / 1e12


def test_a_small_gradient_takes_its_share_of_a_bucket():
    small = BUCKET_BYTES // 64
    assert seconds(LOCAL, small, True) == pytest.approx(seconds(LOCAL, BUCKET_BYTES, False) / 64)
    assert seconds(LOCAL, small, True) < seconds(LOCAL, small, False)
    assert seconds(LOCAL, BUCKET_BYTES, True) == seconds(LOCAL, BUCKET_BYTES, False)


def test_where_devices_overlap_it_takes_what_it_takes_alone():
    overlapping = replace(LOCAL, devices=tuple(replace(d, overlaps=True) for d in LOCAL.devices))
    assert seconds(overlapping, 1024, True) == seconds(overlapping, 1024, False)


def test_gradients_alone_are_pooled():
    graph = zoo_graph("lenet")
    timeline = simulate(graph, data_parallel(graph, LOCAL), LOCAL, costs=FORMULAS)
    alone = simulate(
        graph,
        data_parallel(graph, LOCAL),
        replace(LOCAL, devices=tuple(replace(d, overlaps=True) for d in LOCAL.devices)),
        costs=FORMULAS,
    )
    assert timeline.transfer_time["all_reduce"] < alone.transfer_time["all_reduce"]


def test_ways_are_chosen_by_formulas_and_priced_by_measurements(tmp_path: Path):
    """A sum that was measured to take for ever is still how terms become whole, and takes for ever."""
    store = Store(tmp_path / "costs.sqlite")
    record_collectives(store, LOCAL, "all_reduce", (2,), 1, {2**n: 100.0 for n in range(10, 25)})
    type = TensorType((1 << 16,), "float32")
    expected = reshard(LOCAL, FORMULAS, type, TERMS, SUMMED)
    found = reshard(LOCAL, CostModel(store), type, TERMS, SUMMED)
    assert [p.hop for p in found.hops] == [p.hop for p in expected.hops]
    assert found.seconds == pytest.approx(100.0, rel=0.5)
