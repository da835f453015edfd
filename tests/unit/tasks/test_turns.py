"""Nodes that would be ready long before their turn wait for it."""

from itertools import pairwise

import pytest
import torch

from graphwright.capture import capture
from graphwright.ir import Phase
from graphwright.machine import cluster
from graphwright.partition import data_parallel
from graphwright.simulate import CostModel, simulate
from graphwright.tasks import GraphFacts


@pytest.fixture(scope="module")
def graph():
    layers = (torch.nn.Linear(32, 32), torch.nn.LayerNorm(32), torch.nn.ReLU())
    model = torch.nn.Sequential(*layers, *layers, torch.nn.Linear(32, 1))
    batch = torch.zeros(8, 32), torch.zeros(8, 1)
    return capture(model, torch.nn.functional.mse_loss, batch, optimizer=torch.optim.Adam)


def test_what_a_gradient_makes_of_forward_results_waits(graph):
    """A layer norm's gradient normalizes its input again: from what the forward pass has made, but not during it."""
    facts = GraphFacts(graph)
    early = [
        i
        for i, node in enumerate(graph.nodes)
        if node.phase is Phase.BACKWARD
        and not facts.is_view[i]
        and node.inputs
        and not any(n in facts.producer and facts.late[facts.producer[n][0]] for n in node.inputs)
        and graph.tensors[node.outputs[0]].type.rank > 0
    ]
    assert len(early) > 2
    first = next(i for i in early if i not in facts.turns)
    assert all(facts.late[max(facts.turns[i])] for i in early if i != first)


def test_memory_of_what_waits_is_free_during_the_forward_pass(graph):
    """Nothing but single numbers and the beginning of the backward pass is made before the last layer's forward operator ends."""
    on, facts = cluster("local:2"), GraphFacts(graph)
    step = simulate(graph, data_parallel(graph, on), costs=CostModel(measured=False))
    tasks, last = step.tasks, facts.position["mm_2"]
    done = step.schedule.end[(tasks.kind == 0) & (tasks.node == last)].max()
    for task in range(len(tasks)):
        node = graph.nodes[tasks.node[task]]
        if tasks.kind[task] == 0 and tasks.duration[task] and facts.late[tasks.node[task]]:
            small = graph.tensors[node.outputs[0]].type.rank == 0
            assert small or step.schedule.start[task] >= done, node


def test_what_the_backward_pass_makes_of_activations_waits_in_every_micro_batch():
    """In each it waits for the gradient of that micro-batch, not for the one before."""
    layers = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 8)
    x = torch.empty(8, 8, device="meta")
    graph = capture(
        torch.nn.Sequential(*layers).to("meta"), torch.nn.functional.mse_loss, (x, x),
        optimizer=torch.optim.SGD, mixed_precision=torch.bfloat16, accumulate=2,
    )  # fmt: skip
    facts = GraphFacts(graph)
    casts = [
        i for i, node in enumerate(graph.nodes)
        if node.module == "1" and facts.late[i] and node.op == "aten._to_copy" and i in facts.turns
    ]  # fmt: skip
    assert len(casts) == 2
    between = [i for i in range(*casts) if not facts.late[i]]  # the second forward pass
    assert max(facts.turns[casts[0]]) < between[0] and max(facts.turns[casts[1]]) > between[-1]


def test_casts_of_weights_wait_for_their_layer_in_every_micro_batch():
    """FSDP gathers what they make: all layers at once, if they were made as a pass begins."""
    layers = [torch.nn.Linear(8, 8, bias=False) for _ in range(4)]
    x = torch.empty(8, 8, device="meta")
    graph = capture(
        torch.nn.Sequential(*layers).to("meta"), torch.nn.functional.mse_loss, (x, x),
        optimizer=torch.optim.SGD, mixed_precision=torch.bfloat16, accumulate=2,
    )  # fmt: skip
    facts = GraphFacts(graph)
    casts = [
        i for i, node in enumerate(graph.nodes)
        if not facts.late[i] and node.op == "aten._to_copy" and str(node.inputs[0]).endswith("weight")
    ]  # fmt: skip
    assert len(casts) == 8
    second = next(i for i in casts if any(facts.late[:i]))
    start = max(i for i in range(second) if facts.late[i])
    for pair in pairwise(casts[4:]):
        first, then = (max(facts.turns[i]) for i in pair)
        assert start < first < then
