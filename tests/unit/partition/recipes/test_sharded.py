"""The recipes for large models: where parameters live, what is gathered again, what is split."""

import pytest
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import graphwright as gw
from graphwright import zoo
from graphwright.ir import Role
from graphwright.machine import cluster
from graphwright.partition import coarsen, other_plan
from graphwright.simulate import CostModel, Simulator
from graphwright.zoo.llama import Llama

COSTS = CostModel(measured=False)
NODES = cluster("dgx-h100:2")


@pytest.fixture(scope="module")
def coarse():
    workload = zoo.gpt(2, width=512, batch_size=32, sequence=64, vocabulary=512)
    return coarsen(workload.capture())


def figures(coarse, name, on=NODES):
    plan = other_plan(name, coarse, on, COSTS)
    return plan, Simulator(coarse.facts, on, COSTS).figures(plan)


def parameters(coarse):
    graph = coarse.facts.graph
    return [n for n in graph.inputs if graph.tensors[n].role is Role.PARAMETER]


def test_fsdp_gathers_again_and_holds_less(coarse):
    _, held = figures(coarse, "zero2")
    plan, again = figures(coarse, "fsdp")
    assert again.memory < held.memory
    assert again.nbytes > 1.2 * held.nbytes
    assert {plan.keep[name] for name in parameters(coarse)} == {"before"}


def test_hsdp_has_a_copy_in_every_node(coarse):
    everywhere, _ = figures(coarse, "fsdp")
    within, _ = figures(coarse, "hsdp")
    weight = max(parameters(coarse), key=lambda n: coarse.facts.graph.tensors[n].type.numel)
    split = {p: str(plan.inputs[weight]) for p, plan in (("fsdp", everywhere), ("hsdp", within))}
    assert split["hsdp"].count("S") < split["fsdp"].count("S")


@pytest.mark.parametrize("name", ["megatron", "fsdp-tp"])
@pytest.mark.parametrize("precision", [None, torch.bfloat16])
def test_tensor_parallelism_splits_parameters_and_heads_alone(name, precision):
    """Within a node no product along the batch or the sequence, no attention along queries."""
    workload = zoo.gpt(2, width=512, batch_size=8, sequence=64, vocabulary=512)
    graph = gw.capture(
        workload.model, workload.loss_fn, workload.batch, optimizer=torch.optim.AdamW,
        autocast=precision,
    )  # fmt: skip
    coarse = coarsen(graph)
    plan = other_plan(name, coarse, NODES, COSTS)
    for node in graph.nodes:
        within = [str(c) for c in plan.strategy(node.name).choices[1:]]
        if node.op == "aten.matmul" and node.module.startswith("layers"):
            assert not {"i0", "i1"} & set(within), node
        if "attention" in node.op:
            assert set(within) <= {"h", "j", "-"}, node
            assert "h" in within or "j" in within, node


def test_zero_is_the_former_name_of_zero2(coarse):
    assert other_plan("zero", coarse, NODES, COSTS).algorithm == "zero2"
    found = gw.plan(coarse.facts.graph, "local:2", points=1, baselines=("zero",))
    assert list(found.others) == ["zero2"]


def test_checkpoints_take_time_and_save_memory():
    """What is computed again is computed: a checkpointed Llama is never predicted to be faster."""

    class Again(torch.nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, *given):
            return checkpoint(self.layer, *given, use_reentrant=False)

    tokens, found = torch.empty(8, 512, dtype=torch.int64, device="meta"), []
    for every in (0, 2, 1):
        with torch.device("meta"):
            model = Llama(
                layers=2, size=512, heads=8, shared=2, inner=1024, vocabulary=1024, length=512
            )
        for number in range(every - 1, 2, every) if every else ():
            model.layers[number] = Again(model.layers[number])
        graph = gw.capture(
            model, lambda y, t: F.cross_entropy(y.flatten(0, 1).float(), t.flatten()),
            (tokens, tokens), optimizer=torch.optim.AdamW, mixed_precision=torch.bfloat16,
        )  # fmt: skip
        costs, on = CostModel(measured=False), cluster("dgx-h100")
        step = gw.simulate(graph, other_plan("fsdp", coarsen(graph), on, costs), costs=costs)
        found.append((step.makespan, -int(step.memory.peak.max())))
    assert found == sorted(found) and len(set(found)) == 3
