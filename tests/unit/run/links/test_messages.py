"""Gathers and scattered reductions as messages: the right values, and no copies but those that are simulated."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from graphwright.ir import TensorType
from graphwright.machine import cluster
from graphwright.plans import Collective, Exchange, Sharding, parse_placement, whole_mesh
from graphwright.run.links.messages import gather, parts_along, scatter
from graphwright.tasks import staged_bytes
from reshardings import KINDS
from threads import run_all

SIZES = {2: (3, 2), 3: (2, 1, 2)}


def collective(kind, count, dim, sizes, reducer="sum"):
    return Collective(
        kind=KINDS[kind], tensor="t", group=tuple(range(count)), value=0, output=1, dim=dim, sizes=sizes,
        reducer=reducer,
    )  # fmt: skip


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gathered_parts_are_the_whole(count, dim):
    shape = [4, 4, 4]
    shape[dim] = sum(SIZES[count])
    whole = torch.randn(shape)
    parts = whole.split(SIZES[count], dim)
    what = collective("all_gather", count, dim, SIZES[count])
    found = run_all(count, lambda rank, links: links.collect(what, parts[rank].contiguous()).wait())
    assert all(torch.equal(each, whole) and each.is_contiguous() for each in found)


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("reducer", ["sum", "prod", "max", "min"])
def test_scattered_parts_are_those_of_the_total(count, dim, reducer):
    shape = [4, 4, 4]
    shape[dim] = sum(SIZES[count])
    terms = torch.randn(count, *shape, dtype=torch.float64)
    total = {"sum": terms.sum(0), "prod": terms.prod(0), "max": terms.amax(0), "min": terms.amin(0)}
    what = collective("reduce_scatter", count, dim, SIZES[count], reducer)
    found = run_all(count, lambda rank, links: links.collect(what, terms[rank]).wait())
    for part, expected in zip(found, total[reducer].split(SIZES[count], dim), strict=True):
        torch.testing.assert_close(part, expected)
        assert part.is_contiguous()


def test_whoever_has_nothing_is_sent_nothing():
    what = collective("all_gather", 2, 0, (3, 0))
    parts = [torch.arange(3.0), torch.zeros(0)]
    found = run_all(2, lambda rank, links: links.collect(what, parts[rank]).wait().tolist())
    assert found == [[0.0, 1.0, 2.0]] * 2


def test_several_regions_for_one_rank_go_in_one_message():
    value = torch.arange(12.0).reshape(3, 4)
    region = {"type": TensorType((2, 4), "float32"), "tensor": "t", "tag": 3, "own": ()}
    rows = [((0, 1), (0, 4)), ((2, 3), (0, 4))]
    places = [((1, 2), (0, 4)), ((0, 1), (0, 4))]
    sent = Exchange(value=0, output=None, sends=tuple((1, r) for r in rows), receives=(), **region)
    got = Exchange(value=None, output=1, sends=(), receives=tuple((0, p) for p in places), **region)

    def work(rank, links):
        return links.exchange(*((sent, value) if rank == 0 else (got, None))).wait()

    assert torch.equal(run_all(2, work)[1], value[[2, 0]])


def test_what_is_one_piece_is_sent_from_and_received_where_it_is():
    seen = {}

    def post(tag, sends, receives):
        seen["sent"], seen["received"] = sends[1], receives[1]
        return []

    value = torch.ones(2, 3)
    out = gather(collective("all_gather", 2, 0, (2, 2)), value, 0, post).wait()
    assert seen["sent"].data_ptr() == value.data_ptr()
    assert seen["received"].data_ptr() == out[2:].data_ptr()


class _Allocated(TorchDispatchMode):
    """Bytes of all memory that operators make."""

    def __init__(self):
        super().__init__()
        self.storages = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        before = {t.untyped_storage().data_ptr() for t in args if isinstance(t, torch.Tensor)}
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            storage = made.untyped_storage()
            if storage.data_ptr() not in before:
                self.storages[storage.data_ptr()] = storage
        return made


@pytest.mark.parametrize(
    ("kind", "source", "target", "dim"),
    [
        ("all_gather", "S0", "R", 0),
        ("all_gather", "S1", "R", 1),
        ("reduce_scatter", "P(sum)", "S0", 0),
        ("reduce_scatter", "P(sum)", "S1", 1),
    ],
)
def test_memory_is_what_the_simulation_says(kind, source, target, dim):
    type, mesh = TensorType((8, 6), "float32"), whole_mesh(cluster("local:2"))
    before, after = (Sharding(mesh, (parse_placement(word),)) for word in (source, target))
    staged = int(staged_bytes(KINDS[kind], before, after, type)[0])
    half = type.shape[dim] // 2
    whole = torch.ones(type.shape)
    value = whole.narrow(dim, 0, half).clone() if kind == "all_gather" else whole
    begin = gather if kind == "all_gather" else scatter
    what = collective(kind, 2, dim, (half, half))
    with _Allocated() as made:
        result = begin(what, value, 0, lambda tag, sends, receives: [])
        held = sum(s.nbytes() for s in made.storages.values())
        out = result.wait()
    assert held == staged + out.nbytes


def test_parts_follow_each_other():
    assert parts_along((4, 5), 1, (2, 3)) == [((0, 4), (0, 2)), ((0, 4), (2, 5))]
