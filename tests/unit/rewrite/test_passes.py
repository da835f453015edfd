"""A pass of one's own: its name and options, and its way from capture through a saved plan to a
trained step.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import graphwright as gw
from graphwright import report, zoo
from graphwright.errors import PlanMismatch, UnknownPass
from graphwright.ir import UNMERGED, Edit, Graph, PassRecord, from_json, to_json, verify
from graphwright.pipeline import prepare
from graphwright.rewrite import PASSES, Pass, Unmerge, apply_passes, read_pass, register


@pytest.fixture
def fold() -> Iterator[type[Pass]]:
    @register
    @dataclass(frozen=True, slots=True, kw_only=True)
    class FoldOnes(Pass):
        """Let `x * 1` be `x`, of as many nodes as `most` says."""

        name: ClassVar[str] = "fold-ones"
        exact: ClassVar[bool] = True
        most: int = 100

        def rewrite(self, graph: Graph) -> Graph:
            edit, left = Edit(graph), self.most
            for node in graph.nodes:
                is_one = node.op == "aten.mul.Scalar" and node.attrs["other"] == 1
                if is_one and left and node.inputs[0] is not None:
                    edit.replace(node.name, node.inputs[0])
                    left -= 1
                else:
                    edit.keep(node)
            return edit.build()

    yield FoldOnes
    del PASSES["fold-ones"]


class Scaled(nn.Module):
    """A model that multiplies by one, forward and backward, where a view merges dims too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x) * 1) * 1).flatten(0, 1)


SGD = {"optimizer": torch.optim.SGD, "optimizer_options": {"lr": 0.1, "momentum": 0.9}}


def model_and_batch():
    torch.manual_seed(0)
    x = torch.randn(4, 2, 4, dtype=torch.float64)
    return Scaled().double(), (x, torch.randint(3, (8,)))


def ones(graph: Graph) -> int:
    return sum(n.op == "aten.mul.Scalar" and n.attrs["other"] == 1 for n in graph.nodes)


def captured(**options) -> Graph:
    model, batch = model_and_batch()
    return gw.capture(model, F.cross_entropy, batch, **SGD, **options)


def train_eagerly(steps: int) -> tuple[list[float], dict[str, Tensor]]:
    model, (x, t) = model_and_batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), t)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, dict(model.named_parameters())


def test_a_captured_graph_names_its_passes(fold):
    assert captured().passes == UNMERGED == (Unmerge().record,)
    assert captured(passes=()).passes == ()
    graph = captured(passes=[Unmerge(), fold(most=3)])
    assert graph.passes == (PassRecord("unmerge"), PassRecord("fold-ones", {"most": 3}))
    assert (ones(captured()), ones(graph)) == (4, 1)
    verify(graph)


def test_a_pass_applied_later_is_the_same_as_one_that_capture_applies(fold):
    raw = captured(passes=())
    assert Unmerge().apply(raw) == captured()
    graph = apply_passes(raw, [Unmerge(), fold()])
    assert graph == captured(passes=[Unmerge(), fold()])
    assert graph.hash != captured().hash


def test_parameters_and_gradients_keep_their_names(fold):
    before, after = captured(), captured(passes=[Unmerge(), fold()])
    assert (after.inputs, after.outputs, after.updates) == (
        before.inputs,
        before.outputs,
        before.updates,
    )
    for name in before.tensors:
        if name.endswith(".grad"):
            assert after.tensors[name].of == name.removesuffix(".grad")


def test_a_saved_graph_and_plan_keep_their_passes(fold, tmp_path):
    graph = captured(passes=[Unmerge(), fold(most=3)])
    assert from_json(to_json(graph)).passes == graph.passes
    assert '"passes"' not in to_json(captured())  # as it was before there were passes
    assert from_json(to_json(captured())).passes == UNMERGED
    assert from_json(to_json(captured(passes=()))).passes == ()
    plan = gw.plan(graph, "local:1", objective="time", baselines=())
    plan.save(tmp_path / "plan.json")
    assert gw.Plan.load(tmp_path / "plan.json").passes == graph.passes


def test_a_plan_of_a_rewritten_graph_trains_as_eager_does(fold, tmp_path):
    plan = gw.plan(captured(), "local:1", objective="time", baselines=(), passes=[fold()])
    assert plan.passes == (PassRecord("unmerge"), PassRecord("fold-ones", {"most": 100}))
    plan.save(tmp_path / "plan.json")
    model, batch = model_and_batch()
    losses, trained = train_eagerly(3)
    for example in ({"batch": batch}, {"graph": captured()}, {}):
        step = gw.compile(
            tmp_path / "plan.json", copy.deepcopy(model), F.cross_entropy, **SGD, **example
        )
        assert [float(step(batch)) for _ in range(3)] == pytest.approx(losses, rel=1e-12)
        assert ones(step.graph) == 0
        for name, value in trained.items():
            torch.testing.assert_close(step.values()[name], value.detach())


def test_the_captured_graph_will_do_to_look_at_a_plan(fold, tmp_path):
    graph = captured()
    rewritten = apply_passes(graph, [fold()])
    plan = gw.plan(graph, "local:2", objective="time", baselines=(), passes=[fold()])
    assert gw.simulate(graph, plan).makespan == gw.simulate(rewritten, plan).makespan
    assert report.explain_plan(graph, plan) is not None
    assert report.diff_plans(plan, plan, graph).num_different == 0
    assert list(report.annotated_program(graph, plan)) == list(
        report.annotated_program(rewritten, plan)
    )
    gw.plot((graph, plan), tmp_path / "plan.png")


def test_a_plan_of_a_graph_that_was_not_rewritten_compiles(fold):
    model, batch = model_and_batch()
    plan = gw.plan(captured(passes=()), "local:1", objective="time", baselines=())
    assert plan.passes == ()
    step = gw.compile(plan, model, F.cross_entropy, **SGD, batch=batch)
    assert float(step(batch)) == pytest.approx(train_eagerly(1)[0][0], rel=1e-12)


def test_a_graph_that_cannot_become_that_of_a_plan_is_refused(fold):
    plan = gw.plan(captured(), "local:1", objective="time", baselines=())
    model, _ = model_and_batch()
    further = captured(passes=[Unmerge(), fold()])
    with pytest.raises(PlanMismatch, match="another graph"):
        gw.compile(plan, model, F.cross_entropy, **SGD, graph=further)


def test_prepare_is_capture_of_a_workload(fold):
    workload = zoo.load("mlp", small=True)
    assert prepare(workload) == workload.capture()
    assert prepare(workload, [fold()]).passes == (fold().record,)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (PassRecord("unmerg"), "no pass 'unmerg'; there are .*did you mean 'unmerge'"),
        (PassRecord("unmerge", {"x": 1}), "'unmerge' has no option 'x'; it has no options"),
        (PassRecord("fold-ones", {"mos": 1}), "has no option 'mos'; its options are most"),
    ],
)
def test_unknown_passes_and_options_are_refused(fold, record, message):
    with pytest.raises(UnknownPass, match=message):
        read_pass(record)


def test_a_pass_is_read_back_from_its_record(fold):
    assert read_pass(fold(most=3).record) == fold(most=3)
    assert read_pass(PassRecord("fold-ones")) == fold()
    assert (fold.exact, Unmerge.exact) == (True, False)
