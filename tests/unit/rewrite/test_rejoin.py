"""Kernels that capture took apart are one node again where a plan leaves their parts together."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.describe import Concat, node_splits
from graphwright.errors import GraphFormatError
from graphwright.ir import Composite, Graph, from_json, region_between, to_json, verify
from graphwright.lower import lower
from graphwright.machine import cluster
from graphwright.partition import data_parallel, replicate
from graphwright.plans import Call, Strategy, make_plan
from graphwright.rewrite import rejoin
from graphwright.simulate import CostModel
from graphwright.tasks import GraphFacts, place_node

ONE, TWO = cluster("local:1"), cluster("local:2")
COSTS = CostModel(measured=False)
BATCH_NORM = "aten._native_batch_norm_legit_functional"


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.layer = nn.LayerNorm(8)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(x)).relu().mean((2, 3))
        return self.head(self.drop(self.layer(x)))


@pytest.fixture(scope="module")
def model() -> Images:
    torch.manual_seed(0)
    return Images().double()


@pytest.fixture(scope="module")
def batch() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(4, 3, 6, 6, dtype=torch.float64), torch.randint(0, 4, (4,))


@pytest.fixture(scope="module")
def graph(model, batch) -> Graph:
    return gw.capture(model, nn.CrossEntropyLoss(), batch, optimizer=torch.optim.AdamW)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def test_on_one_device_every_kernel_is_one_node(graph):
    joined, plan = rejoin(graph, replicate(graph, ONE))
    verify(joined)
    assert ops(joined).count(BATCH_NORM) == 1
    assert ops(joined).count("aten.native_batch_norm_backward") == 1
    assert ops(joined).count("aten.native_layer_norm_backward") == 1
    assert ops(joined).count("aten.linear") == 1
    num_parameters = 7
    assert ops(joined).count("graphwright.adam") == num_parameters
    assert not any("addcdiv" in op or "rsqrt" in op for op in ops(joined))
    assert (joined.inputs, joined.outputs) == (graph.inputs, graph.outputs)
    assert joined.updates == graph.updates
    assert plan.graph_hash == joined.hash
    partners = {node.name for node in joined.nodes}
    assert all(node.partner in {None, *partners} for node in joined.nodes)


def test_a_batch_norm_of_a_split_batch_stays_in_parts(graph):
    joined, plan = rejoin(graph, data_parallel(graph, TWO))
    assert not any("batch_norm" in op for op in ops(joined))
    backward = next(n for n in joined.nodes if n.op == "aten.native_layer_norm_backward")
    assert "graphwright.adam" in ops(joined)
    assert str(plan.strategy(backward.name)) != "-"


def test_channels_that_are_split_leave_a_batch_norm_whole(graph):
    norm = next(c for c in graph.composites if c.op == BATCH_NORM)
    members, _ = region_between(graph.producer, graph.tensors, norm.inputs, norm.outputs)
    strategies: dict[str, Strategy | str] = {}
    for node in members:
        channels = Concat(1 if len(graph.tensors[node.name].type.shape) == 4 else 0)
        split = next(s for s in node_splits(graph, node) if s.joins[0] == channels)
        strategies[node.name] = split.index
    joined, plan = rejoin(graph, make_plan(graph, TWO, strategies))
    (whole,) = [node for node in joined.nodes if node.op == BATCH_NORM]
    placed = place_node(GraphFacts(joined), whole, plan.strategy(whole.name), TWO)
    assert [str(s) for s in placed.outputs] == ["[S1]", "[S0]", "[S0]", "[S0]", "[S0]"]
    del strategies[norm.outputs[0]]  # its output is made whole then
    joined, _ = rejoin(graph, make_plan(graph, TWO, strategies))
    assert BATCH_NORM not in ops(joined)


def test_draws_are_the_same_whatever_is_put_together(graph):
    plan = replicate(graph, ONE)
    apart = replace(graph, composites=())
    numbers = [
        [i.draw for i in lower(g, plan).program(0).instructions if isinstance(i, Call) and i.is_random]
        for g in (graph, apart)
    ]  # fmt: skip
    assert numbers[0] == numbers[1] != []


def test_a_step_is_that_of_eager_code(graph, model, batch):
    mine = copy.deepcopy(model)
    apart, together = (
        gw.compile(
            replicate(g, ONE), copy.deepcopy(mine), nn.CrossEntropyLoss(), torch.optim.AdamW,
            graph=g, check_graph=False,
        )
        for g in (replace(graph, composites=()), graph)
    )  # fmt: skip
    for _ in range(3):
        torch.testing.assert_close(together(batch), apart(batch), rtol=1e-12, atol=1e-12)
    shards = apart.shards()
    for name, shard in together.shards().items():
        torch.testing.assert_close(shard.local, shards[name].local, rtol=1e-10, atol=1e-11)


def test_what_is_simulated_is_what_runs(graph):
    plan = replicate(graph, ONE)
    joined, _ = rejoin(graph, plan)
    timeline = gw.simulate(graph, plan, costs=COSTS)
    assert len(timeline.tasks.duration) == len(joined.nodes)
    apart = gw.simulate(replace(graph, composites=()), plan, costs=COSTS)
    assert timeline.makespan < apart.makespan
    assert timeline.memory.peak.max() <= apart.memory.peak.max()


def test_a_graph_that_was_changed_keeps_what_it_says(graph):
    changed = [
        replace(n, attrs={**n.attrs, "other": 0.5}) if n.op == "aten.add.Scalar" else n
        for n in graph.nodes
    ]
    other = replace(graph, nodes=tuple(changed))
    joined, _ = rejoin(other, replicate(other, ONE))
    assert BATCH_NORM not in ops(joined)


def test_what_is_read_in_between_stays_in_parts():
    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            product = x @ self.linear.weight.T
            return product + self.linear.bias + product.sin()

    graph = gw.capture(Reads(), nn.MSELoss(), (torch.randn(3, 4), torch.randn(3, 4)))
    joined, _ = rejoin(graph, replicate(graph, ONE))
    assert "aten.linear" not in ops(joined)


def test_composites_are_saved_with_their_graph(graph):
    assert len(graph.composites) > 3
    assert all(isinstance(c, Composite) for c in graph.composites)
    read = from_json(to_json(graph))
    assert read.composites == graph.composites
    assert replace(graph, composites=()).hash == graph.hash


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("inputs", ["nobody"], "there is no tensor 'nobody'"),
        ("op", "rm -rf", "op and digest have to be text"),
        ("types", [], "expected one for each output"),
        ("more", 1, "unknown field"),
    ],
)
def test_composites_are_checked_when_read(graph, field, value, message):
    data = json.loads(to_json(graph))
    data["composites"][0][field] = value
    with pytest.raises(GraphFormatError, match=message):
        from_json(json.dumps(data))


class GroupNormed(nn.Module):
    """The dims that a group norm takes apart stay apart in what follows it."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(2, 8, dtype=dtype)
        self.last = nn.Conv2d(8, 4, 1, dtype=dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(nn.functional.silu(self.norm(x)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_group_norm_is_one_node_whose_readers_see_groups(dtype):
    torch.manual_seed(0)
    model, x = GroupNormed(dtype), torch.randn(4, 8, 6, 6, dtype=dtype)
    batch = (x, torch.randn(4, 4, 6, 6, dtype=dtype))
    graph = gw.capture(model, nn.functional.mse_loss, batch, optimizer=torch.optim.SGD)
    for plan in (replicate(graph, ONE), data_parallel(graph, TWO)):
        joined, _ = rejoin(graph, plan)
        verify(joined)
        assert ops(joined).count("aten.native_group_norm") == 1
        assert not any("rsqrt" in op for op in ops(joined))
    if dtype == torch.float64:
        step = gw.compile(
            replicate(graph, ONE), copy.deepcopy(model), nn.functional.mse_loss, torch.optim.SGD,
            graph=graph, device="cpu",
        )  # fmt: skip
        optimizer = torch.optim.SGD(model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(batch[0]), batch[1])
            loss.backward()
            optimizer.step()
            assert float(step(batch)) == pytest.approx(float(loss.detach()), rel=1e-12)
