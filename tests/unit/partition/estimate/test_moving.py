"""Tables of what moving takes: the cases that can be worked out by hand, and the model's own points."""

import numpy as np
import pytest

from graphwright.ir import TensorType
from graphwright.machine import cluster
from graphwright.partition.estimate.moving.tables import Prices
from graphwright.plans import Replicated, Sharding, Split, whole_mesh
from graphwright.simulate.communication import Table, analytic
from graphwright.simulate.costs import CostModel
from graphwright.tasks import reshard

R, P = -1, -2
TYPE = TensorType((1024, 512), "float32")
SIZE = 1024 * 512 * 4


def prices(name, costs=None):
    return Prices(cluster(name), costs or CostModel(measured=False))


def codes(*rows):
    return np.array(rows, dtype=np.int8)


def test_a_table_has_an_entry_for_every_source_and_target():
    seconds, moved = prices("local:4").table(TYPE, codes([R, R], [0, 0], [P, P]), codes([0, R]))
    assert seconds.shape == moved.shape == (3, 1)
    assert (seconds[1:] > 0).all() and (moved[1:] > 0).all()


@pytest.mark.parametrize("name", ["local:4", "v100-2x8", "dgx-1v", "summit:2"])
def test_nothing_moves_to_where_it_is_and_slices_are_free(name):
    found = prices(name)
    num_axes = len(cluster(name).axes)
    rows = codes(*([code] * num_axes for code in (R, 0, 1, P)))
    seconds, moved = found.table(TYPE, rows, rows)
    assert (np.diag(seconds) == 0).all() and (np.diag(moved) == 0).all()
    assert (seconds[0] == 0).all() and (moved[0] == 0).all()  # from copies: to parts, to terms


def test_bytes_are_those_that_devices_receive():
    _, moved = prices("p2.8xlarge").table(
        TYPE, codes([0, 0, 0], [P, P, P]), codes([R, R, R], [0, 0, 0], [1, 1, 1])
    )
    gathered, swapped = 8 * SIZE * 7 / 8, 8 * SIZE / 8 * 7 / 8
    assert moved[0].tolist() == pytest.approx([gathered, 0, swapped])
    assert moved[1].tolist() == pytest.approx([2 * 7 * SIZE, 7 * SIZE, 7 * SIZE])


def test_a_tensor_without_dims_can_be_summed():
    seconds, _ = prices("local:4").table(TensorType((), "float32"), codes([P, P]), codes([R, R]))
    assert seconds[0, 0] > 0


def test_a_price_that_is_no_line_keeps_the_points_and_interpolates_bandwidths():
    measured = Table((2**10, 2**20, 2**24), (1e-6, 2e-5, 9e-5))

    class Measured:
        def compute(self, op, attrs, types, device):
            return 0.0

        def communicate(self, traffic):
            one_by_one = traffic.kind.edges == "messages"
            return analytic(traffic) if one_by_one else measured.time(traffic.nbytes)

    machine = cluster("local:4")
    mesh = whole_mesh(machine)
    found = Prices(machine, Measured())
    for rows in (128, 1000, 4096):
        type = TensorType((rows, 256), "float32")
        source = Sharding(mesh, (Split(0), Split(0)))
        target = Sharding(mesh, (Replicated(), Replicated()))
        true = reshard(machine, Measured(), type, source, target).seconds
        assert found.table(type, codes([0, 0]), codes([R, R]))[0][0, 0] == pytest.approx(
            true, rel=0.02
        )
