"""Steps under a memory plan on a GPU: recorded or not, the values of the same plan on a CPU, and nothing allocated."""

import copy

import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.run.program.cuda_graph import SWITCH

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
LOSS = nn.functional.cross_entropy


class Net(nn.Module):
    def __init__(self, drop=0.0):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.block, self.drop = nn.Conv2d(16, 16, 3, padding=1), nn.Dropout(drop)
        self.rows, self.out = nn.LayerNorm(16), nn.Linear(16, 5)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        x = self.drop(x + nn.functional.gelu(self.block(x)))
        return self.out(self.rows(x.mean((2, 3))))


def batches(count, dtype=torch.float64):
    numbers = torch.Generator().manual_seed(1)
    return [
        (torch.randn(8, 3, 16, 16, generator=numbers, dtype=dtype), torch.randint(0, 5, (8,), generator=numbers))
        for _ in range(count)
    ]  # fmt: skip


def planned(model, share=0.3, optimizer=torch.optim.Adam):
    graph = gw.capture(model, LOSS, batches(1)[0], optimizer=optimizer)
    whole = gw.swap(graph, "1GB", cluster="h200")
    room = int(whole.least + share * (whole.needs - whole.least))
    return gw.swap(graph, room, cluster="h200", search="greedy")


def compiled(plan, model, device="cuda", optimizer=torch.optim.Adam):
    made = optimizer(model.parameters(), lr=0.01)
    return plan.compile(model, LOSS, made, device=device, check_graph=False)


@pytest.mark.parametrize("recorded", ["1", "0"])
def test_values_are_those_of_a_cpu_with_other_batches_and_rates(monkeypatch, recorded):
    monkeypatch.setenv(SWITCH, recorded)
    torch.manual_seed(0)
    model = Net().double()
    plan = planned(model)
    assert plan.plan.count("out") > 0
    steps = [compiled(plan, copy.deepcopy(model), device) for device in ("cuda", "cpu")]
    for number, batch in enumerate(batches(7)):
        for step in steps:
            step.optimizer.param_groups[0]["lr"] = 0.01 / (1 + number)
        here, there = (step(batch) for step in steps)
        torch.testing.assert_close(here.cpu(), there, rtol=1e-9, atol=1e-11)
    values, wanted = (step.values() for step in steps)
    for name, value in values.items():
        torch.testing.assert_close(value.cpu(), wanted[name], rtol=1e-7, atol=1e-9, msg=name)
    recorder = steps[0]._executor.recorder
    assert recorder.failure is None and bool(recorder.graphs) == (recorded == "1")


def test_a_recording_draws_what_the_calls_would_draw(monkeypatch):
    torch.manual_seed(0)
    model = Net(drop=0.5).double()
    plan, losses = planned(model), []
    for recorded in ("0", "1"):
        monkeypatch.setenv(SWITCH, recorded)
        step = compiled(plan, copy.deepcopy(model))
        torch.manual_seed(7)
        losses.append([float(step(batch)) for batch in batches(6)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    assert len(set(losses[0])) == 6


def test_a_batch_may_be_on_the_gpu_and_nothing_is_allocated():
    torch.manual_seed(0)
    model = Net().double()
    plan = planned(model, optimizer=torch.optim.SGD)
    steps = [compiled(plan, copy.deepcopy(model), optimizer=torch.optim.SGD) for _ in range(2)]
    for x, y in batches(5):
        losses = steps[0]((x, y)), steps[1]((x.cuda(), y.cuda()))
        torch.testing.assert_close(*losses, rtol=1e-10, atol=0)
    batch = batches(1)[0]
    losses = [steps[0](batch) for _ in range(3)]
    before = torch.cuda.memory_stats()["num_device_alloc"]
    losses += [steps[0](batch) for _ in range(20)]
    assert torch.cuda.memory_stats()["num_device_alloc"] == before
    assert torch.isfinite(torch.stack(losses)).all()


def test_a_recorded_step_goes_on_from_a_checkpoint(tmp_path):
    torch.manual_seed(0)
    model = Net().double()
    plan = planned(model)
    step = compiled(plan, model)
    for batch in batches(5):
        step(batch)
    step.save(tmp_path)
    wanted = [step(batch).clone() for batch in batches(3)]
    step.load(tmp_path)
    for batch, loss in zip(batches(3), wanted, strict=True):
        torch.testing.assert_close(step(batch), loss, rtol=1e-10, atol=0)


def test_inference_in_less_memory_is_recorded():
    torch.manual_seed(0)
    model = Net().double().eval()
    inputs = [x for x, _ in batches(5)]
    graph = gw.capture(model, inputs=inputs[0])
    least = gw.swap(graph, "1GB", cluster="h200").least
    run = gw.swap(graph, least, cluster="h200", search="greedy").compile(model, device="cuda")
    for x in inputs:
        torch.testing.assert_close(run(x).cpu(), model(x).detach(), rtol=1e-9, atol=1e-11)
    assert run._executor.recorder.graphs
