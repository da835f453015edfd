"""Small sums go together: how many, how large, and never one that waits for another."""

import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.lower import lower
from graphwright.lower.buckets import fill_buckets
from graphwright.lower.order import find_waits
from graphwright.machine import cluster
from graphwright.partition import BASELINES, data_parallel, random_plan
from graphwright.plans import Together, transfers
from graphwright.simulate import CostModel, schedule
from graphwright.tasks import BUCKET_BYTES, Expansion, GraphFacts, assemble_blocks, blocks
from random_plans import zoo_graph

COSTS = CostModel(measured=False)
TWO = cluster("local:2")


def found_waits(graph, plan):
    x = Expansion(GraphFacts(graph), plan, COSTS)
    all_blocks = blocks(x)
    tasks = assemble_blocks(all_blocks)
    return x, find_waits(all_blocks, tasks, schedule(tasks), small=0.0)


def sums(lowered):
    """The buckets of a program, and the sums that go by themselves, by the tensors that they add up."""
    program = lowered.program(0)
    together = [[s.tensor for s in i.sums] for i in program.instructions if type(i) is Together]
    alone = [
        i.tensor for i in program.instructions if getattr(i, "kind", None) == transfers.AllReduce()
    ]
    return together, alone


def test_gradients_wait_for_each_other_although_updates_could_begin():
    model = nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(64, 64), nn.ReLU())])
    batch = torch.randn(8, 64), torch.randn(8, 64)
    graph = gw.capture(model, nn.functional.mse_loss, batch, optimizer=torch.optim.SGD)
    together, alone = sums(lower(graph, data_parallel(graph, TWO), costs=COSTS))
    gradients = {f"{name}.grad" for name, _ in model.named_parameters()}
    [bucket] = (names for names in together if set(names) & gradients)
    assert set(bucket) == gradients
    assert not set(alone) & gradients


def test_large_sums_go_by_themselves_and_buckets_are_full_before_the_next_begins():
    model = nn.Sequential(
        nn.Linear(512, 1024), nn.Linear(1024, 2048), *[nn.Linear(2048, 128), nn.Linear(128, 2048)]
    )
    batch = torch.randn(8, 512), torch.randn(8, 2048)
    graph = gw.capture(model, nn.functional.mse_loss, batch, optimizer=torch.optim.SGD)
    together, alone = sums(lower(graph, data_parallel(graph, TWO), costs=COSTS))
    assert "1.weight.grad" in alone  # 8 MiB
    sizes = [sum(graph.tensors[name].type.nbytes for name in names) for names in together]
    assert max(sizes) <= BUCKET_BYTES
    small = sum(
        tensor.type.nbytes
        for name, tensor in graph.tensors.items()
        if name.endswith(".grad") and tensor.type.nbytes <= BUCKET_BYTES // 2
    )
    assert sum(sizes) >= small
    assert len(sizes) <= 2 * small / BUCKET_BYTES + 2


@pytest.mark.parametrize("name", ["lenet", "rnnlm-2", "dlrm", "gpt2"])
@pytest.mark.parametrize("how", [*BASELINES, 0, 1, 2])
def test_no_bucket_waits_for_itself(name, how):
    graph, on = zoo_graph(name), cluster("local:4")
    plan = random_plan(graph, on, how) if isinstance(how, int) else BASELINES[how](graph, on)
    x, waits = found_waits(graph, plan)
    joined = fill_buckets(x, waits)
    order = joined.order()  # would not end, or leave some out
    inside = [a for at in order for a in (*joined.actions[at].before, joined.actions[at])]
    assert len(inside) == len(waits.actions)
    place = {}
    for at, number in enumerate(order):
        action = joined.actions[number]
        for each in (*action.before, action):
            place[each.block.name, each.stage] = at
    for source, target in zip(waits.sources.tolist(), waits.targets.tolist(), strict=True):
        before, after = waits.actions[source], waits.actions[target]
        assert place[before.block.name, before.stage] < place[after.block.name, after.stage]
