"""Every split of every distinct operator call in the zoo's training graphs, run on the step's own tensors.

The property tests draw calls; these are the calls that models make, with their attributes, shapes and values.
"""

import pytest
import torch
from test_coverage import families

from graphwright import zoo
from graphwright.aten.batches import map_tensors
from graphwright.capture import bind, capture, replay
from graphwright.describe import types_of
from graphwright.ir import CONSTANT_OP, Graph
from graphwright.run import check_operator


@pytest.mark.parametrize("name", families())
def test_every_split_of_every_call(name):
    torch.manual_seed(0)
    workload = zoo.load(name, small=True, device="cpu")
    model = workload.model.double()
    batch = map_tensors(lambda t: t.double() if t.is_floating_point() else t, workload.batch)
    options = {"optimizer": workload.optimizer, "optimizer_options": workload.optimizer_options}
    graph = capture(model, workload.loss_fn, batch, **options)
    everything = Graph(graph.nodes, graph.tensors, graph.inputs, tuple(graph.tensors))
    values = replay(everything, bind(graph, model, batch, **options))
    seen, num_splits = set(), 0
    for node in graph.nodes:
        call = (node.op, node.attrs, types_of(graph, node))
        if node.op == CONSTANT_OP or call in seen:
            continue
        seen.add(call)
        inputs = [None if n is None else values[n].contiguous() for n in node.inputs]
        tolerance = 1e-9 if all(t is None or t.dtype != torch.float32 for t in inputs) else 1e-5
        found = check_operator(node.op, node.attrs, inputs, tolerance=tolerance, values=False)
        num_splits += len(found)
    assert num_splits > 50
