"""The calls that models make, cut along several indices at once and spread over meshes, on the step's own tensors."""

from collections.abc import Iterator
from random import Random

import pytest
import torch

from graphwright import zoo
from graphwright.aten.batches import map_tensors
from graphwright.capture import bind, capture, replay
from graphwright.describe import types_of
from graphwright.ir import CONSTANT_OP, Graph
from tilings import Call, Tally, adding_sets, check_placement, check_ways, random_ways

MODELS = ("bert-base", "dlrm", "lenet", "nmt", "resnext50", "rnnlm")
MESHES = ((2,), (2, 2), (3, 2))
MOST_CALLS = 50


def calls_of(name: str) -> Iterator[Call]:
    """The distinct calls of a model's training step, in float64."""
    torch.manual_seed(0)
    workload = zoo.load(name, small=True, device="cpu")
    model = workload.model.double()
    batch = map_tensors(lambda t: t.double() if t.is_floating_point() else t, workload.batch)
    options = {"optimizer": workload.optimizer, "optimizer_options": workload.optimizer_options}
    graph = capture(model, workload.loss_fn, batch, **options)
    everything = Graph(graph.nodes, graph.tensors, graph.inputs, tuple(graph.tensors))
    values = replay(everything, bind(graph, model, batch, **options))
    seen = {}
    for node in graph.nodes:
        if node.op != CONSTANT_OP:
            seen.setdefault((node.op, node.attrs, types_of(graph, node)), node)
    nodes = list(seen.values())
    for node in Random(0).sample(nodes, min(MOST_CALLS, len(nodes))):
        inputs = [None if n is None else values[n].contiguous() for n in node.inputs]
        yield Call.make(node.op, node.attrs, inputs)


@pytest.mark.parametrize("name", MODELS)
def test_several_splits_of_every_call(name):
    rng, tally, placed = Random(1), Tally(), Tally()
    for call in calls_of(name):
        ways = random_ways(rng, call, rng.randint(2, 3))
        if len(ways) > 1:
            check_ways(call, ways, tally)
        check_placement(rng, call, rng.choice(MESHES), adding_sets(call), placed)
    assert tally.held * 3 >= tally.tried * 2 > 10, tally
    assert placed.held * 3 >= placed.tried * 2, placed
