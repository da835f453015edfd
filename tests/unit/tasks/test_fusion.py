"""Which operators are one kernel, and what a compiled step costs by that."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import graphwright as gw
from graphwright import zoo
from graphwright.errors import InvalidOption
from graphwright.ir import Phase
from graphwright.machine import cluster
from graphwright.partition import data_parallel, random_plan
from graphwright.simulate import CostModel, Incremental, simulate
from graphwright.tasks import ALONE, GraphFacts

H200 = cluster("h200")


def captured(model, *shape, loss=F.mse_loss, **options):
    x = torch.empty(shape, device="meta")
    y = model.to("meta")(x)
    return gw.capture(model, loss, (x, torch.empty_like(y)), **options)


def kept_of(graph, within="all"):
    facts = GraphFacts(graph)
    pairs = zip(graph.nodes, facts.fused(within), strict=True)
    return {node.name: fused for node, fused in pairs}, facts


def moved(graph, within):
    """Bytes that the element-wise kernels of the forward pass move."""
    kept, facts = kept_of(graph, within)
    total = 0
    for i, node in enumerate(graph.nodes):
        if facts.is_view[i] or node.phase is not Phase.FORWARD or node.op.startswith("aten.mm"):
            continue
        fused = kept[node.name]
        types = facts.types[i]
        for stays, t in (
            *zip(fused.inputs or (False,) * 9, types.inputs, strict=False),
            *zip(fused.outputs or (False,) * 9, types.outputs, strict=False),
        ):
            total += 0 if stays or t is None else t.nbytes
    return total


class Chain(nn.Module):
    def forward(self, x):
        return torch.sin(torch.cos(x).exp() * 2.0)


class RowNorm(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)


def test_a_run_of_elementwise_operators_reads_and_writes_once():
    x = torch.empty(64, 128, device="meta")
    graph = gw.capture(Chain(), inputs=x)
    assert moved(graph, "none") == 8 * x.nbytes
    assert moved(graph, "all") == 2 * x.nbytes
    kept, _ = kept_of(graph)
    assert [fused.launches for fused in kept.values()] == [True, False, False, False]


def test_a_reduction_of_rows_and_what_follows_it_is_one_kernel():
    x = torch.empty(64, 128, device="meta")
    graph = gw.capture(RowNorm(), inputs=x)
    small = 4 * 64
    assert moved(graph, "all") <= 2 * x.nbytes + 8 * small


def test_a_batch_norm_reads_its_input_twice():
    """Once for the sums, once to normalise: the sums are known only when all has been read."""
    graph = captured(nn.BatchNorm2d(8), 16, 8, 32, 32)
    size = 16 * 8 * 32 * 32 * 4
    for within in ("modules", "all"):
        forward = moved(graph, within)
        assert 3 * size <= forward < 8 * size
        assert forward < moved(graph, "none") / 1.5


@pytest.mark.parametrize("autocast", [None, torch.float16])
def test_a_batch_norm_in_half_precision_makes_its_differences_again(autocast):
    """It reads its input for each of two sums and to scale it, and writes one tensor; backward it
    reads input and gradient twice, and writes one: as the kernels of PyTorch and cuDNN do, whatever
    dtype they compute in."""
    options = {} if autocast is None else {"autocast": autocast}
    model = nn.Sequential(nn.Conv2d(4, 8, 1, bias=False), nn.BatchNorm2d(8), nn.Conv2d(8, 4, 1))
    graph = captured(model, 64, 4, 16, 16, optimizer=torch.optim.SGD, **options)
    kept, facts = kept_of(graph, "modules")
    activation = 64 * 8 * 16 * 16 * (4 if autocast is None else 2)
    passes = dict.fromkeys((Phase.FORWARD, Phase.BACKWARD), 0.0)
    for i, node in enumerate(graph.nodes):
        if node.module == "1" and node.phase in passes and not facts.is_view[i]:
            fused, types = kept[node.name], facts.types[i]
            for stays, type in zip(
                (*fused.inputs, *fused.outputs), (*types.inputs, *types.outputs), strict=True
            ):
                passes[node.phase] += (1 - stays) * type.nbytes / activation
    assert passes[Phase.FORWARD] == pytest.approx(4, rel=0.05)
    assert passes[Phase.BACKWARD] == pytest.approx(5, rel=0.05)


def test_what_depends_on_a_kernel_through_a_product_is_another_one():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = nn.Linear(32, 32, bias=False)

        def forward(self, x):
            y = torch.relu(x)
            return y + self.map(y)

    x = torch.empty(8, 32, device="meta")
    graph = gw.capture(Residual().to("meta"), inputs=x)
    kept, _ = kept_of(graph)
    relu, add = (
        next(n for n in graph.nodes if n.op == f"aten.{op}") for op in ("relu", "add.Tensor")
    )
    assert kept[relu.name].outputs == (False,)
    assert kept[add.name].inputs == (False, False)


def test_an_optimizer_that_is_not_fused_takes_an_operator_at_a_time():
    graph = captured(nn.Linear(64, 32), 16, 64, optimizer=torch.optim.AdamW)
    apart, _ = kept_of(graph, "foreach")
    together, _ = kept_of(graph, "modules")
    for node in graph.nodes:
        if node.phase is Phase.UPDATE:
            assert not any((*apart[node.name].inputs, *apart[node.name].outputs))
            assert not apart[node.name].launches  # for all parameters at once
        else:
            assert apart[node.name] == together[node.name]
    assert any(any(fused.outputs) for name, fused in together.items() if name.startswith("add"))


def test_fusion_within_modules_leaves_modules_apart():
    model = nn.Sequential(nn.Tanh(), nn.Sigmoid())
    graph = gw.capture(model, inputs=torch.empty(64, 32, device="meta"))
    kept, _ = kept_of(graph, "modules")
    assert all(not any((*fused.inputs, *fused.outputs)) for fused in kept.values())
    assert any(any(fused.outputs) for fused in kept_of(graph, "all")[0].values())
    assert set(kept_of(graph, "none")[0].values()) == {ALONE}


@pytest.mark.parametrize("name", ["gpt2", "resnet50", "lenet"])
def test_a_compiled_step_is_faster_and_never_below_its_products(name):
    graph = zoo.load(name, batch_size=8, device="meta").capture()
    plan = data_parallel(graph, H200)
    eager, compiled = (simulate(graph, plan, compiled=c).makespan for c in (False, True))
    assert compiled < eager
    costs = CostModel(measured=False)
    facts = GraphFacts(graph)
    products = sum(
        costs.compute(n.op, facts.attrs[i], facts.types[i], H200.devices[0])
        for i, n in enumerate(graph.nodes)
        if n.op in ("aten.mm", "aten.matmul", "aten.tensordot", "aten.convolution")
    )
    assert compiled > 0.9 * products


def test_incremental_simulation_of_a_compiled_step_is_the_full_one():
    graph = zoo.load("mlp", small=True).capture()
    on, costs = cluster("dgx-h100"), CostModel(measured=False, compiled=True)
    plans = [random_plan(graph, on, seed) for seed in range(6)]
    timed = Incremental(graph, plans[0], costs)
    for plan in plans[1:]:
        timed.propose({node.name: plan.strategy(node.name) for node in graph.nodes})
        timed.accept()
        assert timed.makespan == simulate(graph, plan, costs=costs).makespan


def test_compiled_and_costs_exclude_each_other():
    graph = zoo.load("mlp", small=True).capture()
    with pytest.raises(InvalidOption, match="compiled=True chooses the costs"):
        gw.plan(graph, "local:2", compiled=True, costs=CostModel())
    with pytest.raises(InvalidOption, match="compiled is True or False"):
        simulate(graph, data_parallel(graph, "local:2"), compiled="yes")
