"""Every kind of transfer goes through all stages: priced, staged, simulated, lowered, and carried
out by processes.
"""

from typing import get_args

import pytest
import torch

import graphwright as gw
from graphwright.ir import TensorType
from graphwright.lower import lower_hop
from graphwright.lower.moves import lower_slice
from graphwright.machine import cluster
from graphwright.plans import (
    KINDS,
    SWAPS,
    Collective,
    Replicated,
    Sharding,
    Split,
    boxes,
    transfers,
    whole_mesh,
)
from graphwright.run import world
from graphwright.run.links.collectives import GroupLinks
from graphwright.run.measure.links import KINDS as MEASURED
from graphwright.simulate import CostModel
from graphwright.simulate.timeline.gantt import COLOURS
from graphwright.tasks import Hop, Pricer, staged_bytes
from graphwright.tasks.movement import movement
from reshardings import implied_bytes

TWO = cluster("local:2")
TYPE = TensorType((6, 4), "float32")
HALO = ((0, ((0, 4), (2, 6))),)
HOPS = tuple(kind() for kind in get_args(transfers.HopKind))


def hop(kind):
    mesh, pieces = whole_mesh(TWO), ()
    match kind:
        case transfers.Exchange():
            before, after, pieces = Split(0), Split(0), HALO
        case transfers.Slice():
            before, after = Replicated(), Split(1)
        case _:
            before, after = kind.before, kind.after
    return Hop(kind, Sharding(mesh, (before,)), Sharding(mesh, (after,), pieces))


def test_the_table_is_complete():
    assert {type(kind) for kind in transfers.TRANSFERS} == set(get_args(transfers.TransferKind))
    assert tuple(kind.name for kind in transfers.TRANSFERS) == KINDS[1 : KINDS.index(SWAPS[0])]
    names = {kind.name for kind in (*HOPS, *transfers.TRANSFERS)}
    assert len(names) == 1 + len(transfers.TRANSFERS)


@pytest.mark.parametrize("kind", transfers.TRANSFERS, ids=str)
def test_every_transfer_is_measured_or_made_of_what_is(kind):
    assert kind in MEASURED or kind == transfers.Exchange()
    assert kind.name in COLOURS


@pytest.mark.parametrize("kind", HOPS, ids=str)
def test_every_kind_is_priced_staged_and_laid_out(kind):
    this = hop(kind)
    priced = Pricer(TWO, CostModel(measured=False), TYPE).price(this)
    made = priced.transfers()
    assert sum(t.nbytes for t in made) == implied_bytes(priced, TYPE)
    assert (priced.seconds > 0) == bool(made) == (kind != transfers.Slice())
    laid_out = movement((priced,), TYPE, this.source, this.target)
    assert [KINDS[k] for k in laid_out.kind] == [t.kind.name for t in made]
    assert all(t.kind in (kind, transfers.Send()) for t in made)
    if isinstance(kind, transfers.GroupKind):
        copies = staged_bytes(kind, this.source, this.target, TYPE)
        assert (copies >= 0).all() and not (kind.in_place and copies.any())
        assert [t.staged.tolist() for t in made] == [copies.tolist()]
    result = int(sum(laid_out.buffer_nbytes)) - sum(int(t.staged.sum()) for t in made)
    assert (result > 0) == (bool(made) and not kind.in_place)


def part(whole, sharding, rank):
    region = boxes(sharding, TYPE.shape)[rank].tolist()
    return whole[tuple(slice(*bounds) for bounds in region)]


def carry_out():
    """Each rank does its share of a hop of every kind, and has what the target says."""
    rank = world().rank
    links = GroupLinks([(0, 1)])
    whole = torch.arange(24.0).reshape(6, 4)
    for tag, kind in enumerate(HOPS):
        this = hop(kind)
        terms = whole * (1 + 2 * rank) / 4 if kind.reduces else whole
        value = part(terms, this.source, rank).clone()
        if kind == transfers.Slice():
            cut = lower_slice(this, TYPE, rank, 0, 1)
            result = value[tuple(slice(*bounds) for bounds in cut.region)]
        else:
            what = lower_hop(this, "t", TYPE, TWO, rank, 0, 1, tag)
            begin = links.collect if isinstance(what, Collective) else links.exchange
            result = begin(what, value).wait()
        assert torch.equal(result, part(whole, this.target, rank)), kind
    links.close()
    return True


def test_every_kind_is_lowered_and_carried_out():
    assert gw.launch(2, timeout=60)(carry_out) == [True] * 2
