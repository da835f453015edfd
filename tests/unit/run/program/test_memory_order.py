"""Tensors that are permuted views: moved and cut as they lie in memory, without turning them."""

import pytest
import torch

import graphwright as gw
from graphwright.ir import TensorType
from graphwright.lower.moves import laid_out
from graphwright.plans import Collective, Exchange
from graphwright.plans.transfers import AllGather, AllReduce, ReduceScatter
from graphwright.run.program.regions import cut, order_in_memory
from graphwright.run.program.targets import StartTransfer
from graphwright.tasks import GraphFacts
from threads import run_all

TURNED = (2, 0, 1)
"""The dims as they lie in memory, the outermost first."""


def turned(*shape):
    """A tensor of a shape that lies in memory in that order."""
    within = torch.randn([shape[dim] for dim in TURNED])
    return within.permute([TURNED.index(dim) for dim in range(3)])


def test_the_order_of_memory_is_found():
    assert order_in_memory(turned(2, 3, 4)) == list(TURNED)
    assert order_in_memory(torch.zeros(2, 3)) is None
    assert order_in_memory(torch.zeros(2, 3)[:, :2]) is None  # there are gaps
    assert order_in_memory(torch.zeros(2, 1).expand(2, 3)) is None


@pytest.mark.parametrize("region", [((0, 2), (0, 5), (1, 3)), ((0, 1), (2, 4), (0, 4))])
def test_a_region_keeps_the_order(region):
    value = turned(2, 5, 4)
    found = cut(value, region)
    assert torch.equal(found, value[tuple(slice(*bounds) for bounds in region)])
    assert found.permute(TURNED).is_contiguous()


def test_edges_are_filled_in_any_order():
    value = turned(2, 3, 4)
    found = cut(value, ((0, 2), (-1, 4), (0, 4)), (None, 7.0, None))
    assert torch.equal(found[:, 1:4], value) and set(found[:, 0].flatten().tolist()) == {7.0}
    assert found.permute(TURNED).is_contiguous()


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_parts_are_gathered_as_they_lie(dim):
    whole = turned(4, 6, 8)
    half = whole.shape[dim] // 2
    what = Collective(
        kind=AllGather(), tensor="t", group=(0, 1), value=0, output=1, dim=dim, sizes=(half, half)
    )
    what = laid_out(what, TURNED)
    assert what.dim == TURNED.index(dim)

    def work(rank, links):
        part = whole.narrow(dim, rank * half, half)
        return StartTransfer(links, what)(cut(part, [(0, n) for n in part.shape])).wait()

    for found in run_all(2, work):
        assert torch.equal(found, whole)
        assert found.permute(TURNED).is_contiguous()


@pytest.mark.parametrize("kind", [ReduceScatter(), AllReduce()])
def test_terms_are_added_as_they_lie(kind):
    terms = [turned(2, 6, 4) for _ in range(2)]
    sizes = () if kind.in_place else (4, 2)
    what = Collective(
        kind=kind, tensor="t", group=(0, 1), value=0, output=1, dim=1 if sizes else 0, sizes=sizes
    )
    found = run_all(
        2, lambda rank, links: StartTransfer(links, laid_out(what, TURNED))(terms[rank]).wait()
    )
    total = terms[0] + terms[1]
    expected = total.split(sizes, 1) if sizes else (total, total)
    for part, right in zip(found, expected, strict=True):
        torch.testing.assert_close(part, right)
        assert part.permute(TURNED).is_contiguous()


def test_regions_travel_as_they_lie():
    value = turned(2, 5, 4)
    region, place = ((0, 2), (1, 3), (0, 4)), ((0, 2), (0, 2), (0, 4))
    shared = {"tensor": "t", "tag": 3, "type": TensorType((2, 2, 4), "float32"), "own": ()}
    sent = Exchange(value=0, output=None, sends=((1, region),), receives=(), **shared)
    got = Exchange(value=None, output=1, sends=(), receives=((0, place),), **shared)

    def work(rank, links):
        what = laid_out((sent, got)[rank], TURNED)
        return StartTransfer(links, what)(value if rank == 0 else None).wait()

    found = run_all(2, work)[1]
    assert torch.equal(found, value[:, 1:3]) and found.permute(TURNED).is_contiguous()


def test_nothing_changes_without_an_order():
    what = Collective(kind=AllReduce(), tensor="t", group=(0, 1), value=0, output=1)
    assert laid_out(what, None) is what


def test_a_graph_knows_what_is_permuted():
    class Turns(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 4)

        def forward(self, x):
            return self.linear(x).permute(2, 0, 1).exp().permute(1, 0, 2).permute(1, 2, 0).sum()

    batch = torch.randn(2, 5, 3)
    graph = gw.capture(Turns(), batch=(batch,))
    made = {name: graph.nodes[number] for name, (number, _) in GraphFacts(graph).producer.items()}
    orders = {name: order for name, order in GraphFacts(graph).order.items() if len(order) == 3}
    assert {made[name].op for name in orders} == {"aten.permute"}
    turns = {name: tuple(made[name].attrs["dims"]) for name in orders}
    assert (1, 2, 0) in [
        orders[n] for n in orders if turns[n] == (2, 0, 1)
    ]  # rows of the product still follow each other
