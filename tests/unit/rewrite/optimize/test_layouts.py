"""Layouts of images: the cheapest of all choices, and rules that are chosen together with them."""

from itertools import product

import numpy as np
import pytest

from graphwright.ir import GraphBuilder, Role, TensorType
from graphwright.rewrite import ChannelsLast, fixed_tensors, layouts_of, rewrite_graph
from graphwright.rewrite.optimize.layouts import IN_ORDER, Placement

IMAGE = TensorType((1, 2, 4, 4), "float32")
ATTRS = {
    "stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "transposed": False,
    "output_padding": (0, 0), "groups": 1,
}  # fmt: skip


def test_the_cut_is_as_cheap_as_the_best_of_all_choices():
    rng = np.random.default_rng(0)
    for _ in range(200):
        placement, count = Placement(), int(rng.integers(1, 7))
        for _ in range(count):
            placement.call(*rng.uniform(0, 3, 2))
        passed = []
        for tensor in range(int(rng.integers(0, 10))):
            maker, copy = int(rng.integers(-2, count)), float(rng.uniform(0, 2))
            readers = rng.integers(-2, count, int(rng.integers(1, 4))).tolist()
            passed.append((maker, copy, readers))
            for reader in readers:
                placement.read(tensor, maker, reader, copy)

        def cost(labels, prices=placement.prices, passed=passed):
            known = [*labels, True, False]  # -2 has channels last, -1 has not
            copies = sum(c for m, c, rs in passed if any(known[r] != known[m] for r in rs))
            return copies + sum(p[label] for p, label in zip(prices, labels, strict=True))

        least, labels = placement.solve()
        every = (cost(labels) for labels in product((False, True), repeat=count))
        assert least == pytest.approx(min(every), rel=1e-6)
        assert cost(labels) == pytest.approx(least)


def convolutions(count, *, side_by_side=False):
    """Some of one image each, or one after the other."""
    build = GraphBuilder()
    x = build.add_input("x", IMAGE, Role.INPUT)
    kernel = TensorType((2, 2, 3, 3), "float32")
    made = []
    for n in range(count):
        w = build.add_input(f"w{n}", kernel, Role.PARAMETER)
        read = made[-1] if made and not side_by_side else x
        made += build.add("aten.convolution", [read, w, None], ATTRS, IMAGE)
    return build.build(made if side_by_side else made[-1:])


def last_of(price, copy=0.1):
    def keeps(op, attrs, types):
        return True

    return ChannelsLast(price, keeps, lambda type: copy)


def test_each_call_has_the_layout_that_is_cheapest_for_the_whole():
    """A copy is paid where a call gains more than it; inputs and outputs are in order."""
    graph = convolutions(3)

    def price(op, attrs, types):
        return 1.0

    gains = last_of(lambda op, attrs, types: 0.9)
    assert layouts_of(graph, price, gains, fixed_tensors(graph)).nodes == {
        node.name for node in graph.nodes
    }
    assert layouts_of(graph, price, gains, fixed_tensors(graph)).cost == pytest.approx(
        3 * 0.9 + 2 * 0.1
    )
    dear = last_of(lambda op, attrs, types: 0.9, copy=0.2)
    assert layouts_of(graph, price, dear, fixed_tensors(graph)).nodes == frozenset()


@pytest.mark.parametrize("algorithm", ["backtracking", "saturation"])
def test_rules_and_layouts_are_chosen_together(algorithm):
    """Merging pays with channels last alone, and channels last only with merging."""

    def wide(types):
        return types.outputs[0].shape[1] > 2

    def price(op, attrs, types):
        return 0.0 if "conv" not in op else 3.0 if wide(types) else 1.0

    def last_price(op, attrs, types):
        return 0.0 if "conv" not in op else 1.2 if wide(types) else 1.05

    graph, last = convolutions(2, side_by_side=True), last_of(last_price)
    layouts_alone = layouts_of(graph, price, last, fixed_tensors(graph))
    assert layouts_alone.cost == pytest.approx(2.0) and not layouts_alone.nodes
    rules_alone = rewrite_graph(graph, price, algorithm=algorithm)
    assert rules_alone.cost == pytest.approx(2.0) and not rules_alone.applied
    both = rewrite_graph(graph, price, last=last, algorithm=algorithm)
    assert both.applied and both.cost == pytest.approx(1.3)  # the image is copied once
    assert [n.op for n in both.graph.nodes].count("aten.conv2d") == 1


def test_what_is_given_with_channels_last_is_read_so():
    placement = Placement()
    call = placement.call(1.0, 1.0)
    placement.read("x", IN_ORDER, call, 0.5)
    assert placement.solve() == (1.0, [False])
