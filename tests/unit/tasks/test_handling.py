"""Transfers that take some of a device's own time: computing beside them is longer by that, and waiting for them is not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graphwright.ir import GraphBuilder, Role, TensorType
from graphwright.machine import Cluster, Store, cluster, from_toml, hosts, to_toml
from graphwright.machine.local import estimated_cluster
from graphwright.plans import HANDLING, KINDS, Replicated, Sharding, Split, on_one, whole_mesh
from graphwright.simulate import CostModel, record_handling, simulate
from graphwright.tasks import BUCKET_BYTES, Templates
from graphwright.tasks.symmetry import SymmetricTemplates

COSTS = CostModel(measured=False)
SIDE = 512
SQUARE = TensorType((SIDE, SIDE), "float32")
BYTES = 4 * SIDE * SIDE
FREE = hosts(2, estimated_cluster(1), bandwidth=1e8, latency=1e-4, name="two")
FREE = replace(FREE, devices=tuple(replace(d, handling=0.0, handling_bandwidth=None) for d in FREE.devices))  # fmt: skip


def handling(seconds: float, rate: float | None = None, on: Cluster = FREE) -> Cluster:
    devices = tuple(replace(d, handling=seconds, handling_bandwidth=rate) for d in on.devices)
    return replace(on, devices=devices)


def sent_beside(num_products: int):
    """A message from 0 to 1, and products on the receiver that have nothing to do with it."""
    made = GraphBuilder()
    x, z = (made.add_input(name, SQUARE, Role.INPUT) for name in "xz")
    made.add("aten.relu", (x,), {}, SQUARE, names="made")
    made.add("aten.relu", ("made",), {}, SQUARE, names="there")
    strategies = {"made": on_one(0), "there": on_one(1)}
    for n in range(num_products):
        made.add("aten.mm", (z, z), {}, SQUARE, names=f"p{n}")
        strategies[f"p{n}"] = on_one(1)
    outputs = ("there", *(f"p{n}" for n in range(num_products)))
    return made.build(outputs), strategies


def times(on: Cluster, num_products: int):
    return simulate(*sent_beside(num_products), on, costs=COSTS)


def test_a_device_that_only_waits_loses_nothing():
    assert times(handling(1e-3, 1e9), 0).makespan == times(FREE, 0).makespan


def test_a_device_that_computes_loses_what_the_transfer_takes():
    each, rate = 2e-3, 5e8
    free, busy = times(FREE, 400), times(handling(each, rate), 400)
    assert free.busy[1] > 2 * max(free.busy[2:])  # computing is what the step waits for
    assert busy.makespan - free.makespan == pytest.approx(each + BYTES / rate)
    assert busy.busy[1] - free.busy[1] == pytest.approx(each + BYTES / rate)
    assert busy.busy[0] - free.busy[0] == pytest.approx(each)  # it receives nothing
    assert busy.computing.tolist() == free.computing.tolist()
    assert busy.link_bytes == free.link_bytes
    assert busy.transfer_time["handling"] == pytest.approx(2 * each + BYTES / rate)


def test_a_transfer_of_no_device_of_its_own_has_no_such_tasks():
    tasks = times(FREE, 3).tasks
    assert KINDS.index(HANDLING) not in tasks.kind
    alone = replace(
        FREE, devices=tuple(replace(d, overlaps=False, handling=1.0) for d in FREE.devices)
    )
    assert KINDS.index(HANDLING) not in times(alone, 3).tasks.kind


def test_what_was_measured_takes_the_place_of_the_file(tmp_path: Path):
    store = Store(tmp_path / "costs.sqlite")
    on = handling(5.0)
    record_handling(store, on, 1e-3, 2e-9)
    graph, strategies = sent_beside(1)
    timeline = simulate(graph, strategies, on, costs=CostModel(store))
    assert timeline.transfer_time["handling"] == pytest.approx(2e-3 + 2e-9 * BYTES)


def test_measured_handling_counts_where_the_file_says_nothing(tmp_path: Path):
    store = Store(tmp_path / "costs.sqlite")
    record_handling(store, FREE, 1e-3, 0.0)
    graph, strategies = sent_beside(1)
    assert simulate(graph, strategies, FREE, costs=CostModel(store)).transfer_time["handling"] == pytest.approx(2e-3)  # fmt: skip


def test_a_small_gradient_takes_its_share_of_a_bucket():
    from graphwright.plans import Partial

    on = handling(1e-3)
    terms, summed = (Sharding(whole_mesh(on), (end,)) for end in (Partial(), Replicated()))
    type = TensorType((BUCKET_BYTES // 64 // 4,), "float32")

    def of(pooled: bool) -> float:
        made = Templates(on, COSTS).movement(type, terms, summed, pooled)
        return made.duration[made.kind == KINDS.index(HANDLING)].sum() / 1e12

    assert of(False) == pytest.approx(2e-3)
    assert of(True) == pytest.approx(2e-3 / 64)


def test_one_device_of_each_class_handles_for_all():
    """Two hosts of four: a gather along all devices has one handling for each of the four classes."""
    whole = hosts(2, estimated_cluster(4), bandwidth=1e8, latency=1e-4, name="eight")
    mesh = whole_mesh(whole)
    parts, gathered = Sharding(mesh, (Split(0),) * 3), Sharding(mesh, (Replicated(),) * 3)
    every = Templates(whole, COSTS).movement(SQUARE, parts, gathered)
    one = SymmetricTemplates(whole, COSTS, 4).movement(SQUARE, parts, gathered)
    of_all = every.device[every.kind == KINDS.index(HANDLING)]
    of_one = one.device[one.kind == KINDS.index(HANDLING)]
    assert np.bincount(of_all).tolist() == [len(of_all) // 8] * 8
    assert np.bincount(of_one).tolist() == [len(of_all) // 8] * 4


def test_handling_is_kept_in_files_and_makes_another_cluster():
    on = handling(2.5e-4, 1.5e9)
    assert from_toml(to_toml(on)) == on
    assert "handling" not in to_toml(cluster("dgx-h100"))
    assert len({on.hash, FREE.hash, handling(2.5e-4).hash, handling(0.0, 1.5e9).hash}) == 4
