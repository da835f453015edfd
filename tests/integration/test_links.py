"""Links between real processes, with much under way at once."""

import torch

import graphwright as gw
from graphwright.plans import Collective
from graphwright.run import world
from graphwright.run.links import GroupLinks

BOTH = (0, 1)
COUNT = 100


def collective(kind, *sizes):
    return Collective(kind=kind, tensor="t", value=0, output=1, group=BOTH, sizes=sizes)


def many_at_once(rounds):
    """Begin many different collectives before waiting for any: all results are right, and the heap is whole."""
    here = world()
    links = GroupLinks([BOTH])
    mine = torch.tensor([1.0 + here.rank, 5.0])
    gather, scatter = collective("all_gather", 2, 2), collective("reduce_scatter", 1, 1)
    for _ in range(rounds):
        begun = [links.collect(what, mine) for _ in range(COUNT) for what in (gather, scatter)]
        found = [each.wait().tolist() for each in begun]
        assert found[::2] == [[1.0, 5.0, 2.0, 5.0]] * COUNT
        assert found[1::2] == [[3.0] if here.rank == 0 else [10.0]] * COUNT
    links.close()
    return True


def test_many_collectives_under_way_at_once():
    assert gw.launch(2, timeout=60)(many_at_once, 100) == [True, True]
