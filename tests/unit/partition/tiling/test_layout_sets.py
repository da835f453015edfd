"""Sets of layouts serve every reader, and are all there are unless they would be too many."""

from itertools import pairwise, product

from graphwright.partition.tiling import layout_sets as module
from graphwright.partition.tiling import worker_cluster
from graphwright.partition.tiling.layout_sets import layout_sets
from graphwright.plans import Sharding, whole_mesh

MESH = whole_mesh(worker_cluster(4))
LAYOUTS = [Sharding(MESH, words) for words in product(("S0", "S1", "R"), repeat=2)]
ALONE = tuple(frozenset([layout]) for layout in LAYOUTS)
TWICE = tuple(frozenset([a, b]) for a, b in pairwise(LAYOUTS))


def serves(union, kinds):
    return all(any(one <= union for one in choices) for choices, _ in kinds)


def test_every_union_of_what_readers_choose_is_there():
    kinds = ((ALONE, 2), (TWICE, 1))
    sets, most = layout_sets(kinds)
    assert most == (2, 1) and len(set(sets)) == len(sets)
    wanted = {a | b | c for a, b in product(ALONE, repeat=2) for c in TWICE}
    assert set(sets) == wanted
    assert all(serves(union, kinds) for union in sets)


def test_many_readers_of_a_kind_have_three_choices():
    sets, most = layout_sets(((ALONE, 15),))
    assert most == (3,) and max(map(len, sets)) == 3 and len(sets) == 9 + 36 + 84


def test_too_many_sets_are_fewer(monkeypatch):
    monkeypatch.setattr(module, "MOST_SETS", 50)
    layout_sets.cache_clear()
    kinds = ((ALONE, 15),)
    sets, most = layout_sets(kinds)
    assert most == (2,) and len(sets) == 45
    kinds = ((ALONE, 2), (TWICE, 1))
    sets, most = layout_sets(kinds)
    assert most == (0, 0) and len(sets) <= 50
    assert sets and all(serves(union, kinds) for union in sets)
    layout_sets.cache_clear()
