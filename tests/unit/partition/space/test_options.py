"""Options of operators in numbers, against what placing the operators says."""

import numpy as np
import pytest

from additive import coarse_of, codes
from graphwright.describe import Types
from graphwright.ir import Attrs, TensorType
from graphwright.partition.space.options import (
    PARTIAL,
    REPLICATED,
    can_tile,
    distinct_rows,
    num_parts,
    options,
    to_sharding,
    ways_of,
)
from graphwright.plans import Along, Keep, Mesh, Replicate, Strategy
from graphwright.tasks import place


def call(op, attrs, inputs, *outputs):
    typed = lambda shapes: tuple(TensorType(s, "float32") for s in shapes)
    return op, Attrs(attrs), Types(typed(inputs), typed(outputs))


def matrix_product(n=8, k=16, m=4):
    return call("aten.mm", {}, [(n, k), (k, m)], (n, m))


def test_a_matrix_product():
    found = options(*matrix_product())
    rows = {
        str(choice): (need.tolist(), made.tolist())
        for choice, need, made in zip(found.choices, found.need, found.made, strict=True)
    }
    assert rows == {
        "-": ([-1, -1], [-1]),
        "i": ([0, -1], [0]),
        "j": ([-1, 1], [1]),
        "k": ([1, 0], [-2]),
        "+0": ([-2, -1], [-2]),
        "+1": ([-1, -2], [-2]),
    }
    numbers = found.numbers(Strategy(("i", "j", "k")))
    assert [found.units[n] for n in numbers] == [8, 4, 16]
    assert found.strategy(numbers) == Strategy(("i", "j", "k"))
    assert [r for r, c in zip(found.reduces, found.choices, strict=True) if c == Along("k")] == [
        True
    ]
    assert found.numbers(Strategy(("i", "nothing"))) is None
    assert found.clashes == frozenset()


def test_what_cannot_be_split_is_not_offered():
    found = options(*matrix_product(n=1))
    assert Along("i") not in found.choices
    assert found.choices[0] == Replicate()


def test_an_operator_without_a_description_is_replicated():
    assert options(*call("mine.strange", {}, [(4, 4)], (4, 4))).choices == (Replicate(),)


@pytest.mark.parametrize("name", ["mlp", "lenet", "gpt2", "rnn-4-8k", "dlrm", "resnet50"])
def test_layouts_are_those_of_placing(name):
    """Along one axis of 2 or 3 devices, for every option of every operator; at 3 parts are uneven."""
    facts = coarse_of(name).facts
    calls = dict.fromkeys(
        (node.op, attrs, types)
        for node, attrs, types in zip(facts.graph.nodes, facts.attrs, facts.types, strict=True)
    )
    count = 0
    for each in list(calls)[:: max(1, len(calls) // 150)]:
        found = options(*each)
        for o, choice in enumerate(found.choices):
            for size in (2, 3):
                if isinstance(choice, Along) and found.units[o] < size:
                    continue
                placed = place(*each, Strategy((choice,)), Mesh(tuple(range(size)), (size,)))
                needed = [REPLICATED if s is None else codes(s)[0] for s in placed.inputs]
                assert needed == found.need[o].tolist(), (each, choice)
                assert [codes(s)[0] for s in placed.outputs] == found.made[o].tolist()
                count += 1
    assert count > 100


def test_options_that_cut_one_dim_clash():
    """A convolution of one image: rows of the output and rows of the kernel cut the image along the same dim."""
    facts = coarse_of("lenet").facts
    i = next(i for i, n in enumerate(facts.graph.nodes) if n.op.startswith("aten.convolution"))
    found = options(facts.graph.nodes[i].op, facts.attrs[i], facts.types[i])
    assert found.clashes
    for a, b in found.clashes:
        rows = np.concatenate([found.need, found.made], axis=1)
        assert ((rows[a] == rows[b]) & (rows[a] >= 0)).any()


def test_rows_of_layouts():
    rows = np.array([[0, -1, 0], [1, -2, -1], [0, -1, 0]], dtype=np.int8)
    assert ways_of(rows, (2, 3, 5)).tolist() == [10, 2, 10]
    distinct, number = distinct_rows(rows)
    assert (distinct[number] == rows).all()
    assert len(distinct) == 2
    mesh = Mesh(tuple(range(8)), (2, 2, 2))
    sharding = to_sharding(np.array([0, REPLICATED, PARTIAL], dtype=np.int8), mesh)
    assert str(sharding) == "[S0 R P(sum)]"
    assert codes(sharding) == [0, REPLICATED, PARTIAL]


def test_rows_over_no_axes():
    rows, number = distinct_rows(np.zeros((3, 0), dtype=np.int8))
    assert rows.shape == (1, 0)
    assert number.tolist() == [0, 0, 0]
    assert ways_of(rows, ()).tolist() == [1]


def test_parts_along_indices():
    choices = (Along("i"), Keep((0,)), Along("i"), Along("k"))
    assert dict(num_parts(choices, (2, 2, 3, 5))) == {"i": 6, "k": 5}
    assert can_tile(*matrix_product(), (("i", 8),))
    assert not can_tile(*matrix_product(), (("i", 9),))
