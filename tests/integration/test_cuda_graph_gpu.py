"""Steps that are recorded on a GPU: other batches, rates, seeds and checkpoints than those that they were recorded with."""

import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.machine import cluster
from graphwright.partition import data_parallel

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


class Net(nn.Module):
    def __init__(self, draw=None):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8)
        self.drop, self.out, self.draw = nn.Dropout(0.5), nn.Linear(72, 5), draw

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.norm(self.conv(x))), 2, stride=1, padding=1)
        x = self.drop(x.flatten(1))
        return self.out(x if self.draw is None else x + 0.01 * self.draw(torch.exp(x)))


def batches(count):
    numbers = torch.Generator().manual_seed(1)
    return [
        (
            torch.randn(6, 3, 4, 4, dtype=torch.float64, generator=numbers),
            torch.randint(0, 5, (6,), generator=numbers),
        )
        for _ in range(count)
    ]


def compiled(device, draw=None, optimizer=torch.optim.Adam, **options):
    torch.manual_seed(0)
    model, loss_fn = Net(draw).double(), nn.functional.cross_entropy
    graph = gw.capture(model, loss_fn, batches(1)[0], optimizer=optimizer)
    plan = data_parallel(graph, cluster("local:1"))
    made = optimizer(model.parameters(), lr=0.01)
    return gw.compile(plan, model, loss_fn, made, graph=graph, device=device, seed=3, **options)


def same(a, b):
    assert a.keys() == b.keys()
    for name, value in a.items():
        torch.testing.assert_close(value.cpu(), b[name].cpu(), rtol=1e-9, atol=1e-11, msg=name)


def is_recorded(step):
    return step._run.recording is not None


def train(step, given):
    schedule = torch.optim.lr_scheduler.StepLR(step.optimizer, 2, 0.5)
    losses = []
    for batch in given:
        losses.append(step(batch))
        schedule.step()
    return losses


def test_other_batches_rates_and_seeds_train_as_on_a_cpu():
    steps = {device: compiled(device) for device in ("cpu", "cuda")}
    losses = {device: train(step, batches(6)) for device, step in steps.items()}
    assert is_recorded(steps["cuda"])
    torch.testing.assert_close(
        torch.stack(losses["cuda"]).cpu(), torch.stack(losses["cpu"]), rtol=1e-9, atol=0.0
    )
    same(steps["cuda"].values(), steps["cpu"].values())


def test_a_checkpoint_loads_into_a_recorded_step(tmp_path):
    step, given = compiled("cuda"), batches(8)
    for batch in given[:4]:
        step(batch)
    saved = step.save(tmp_path)
    for batch in given[4:]:
        step(batch)
    wanted = {name: value.clone() for name, value in step.values().items()}
    step.load(saved)
    for batch in given[4:]:
        step(batch)
    assert is_recorded(step)
    same(step.values(), wanted)


def test_what_reads_a_value_in_between_goes_on_unrecorded():
    steps = {device: compiled(device, torch.poisson) for device in ("cpu", "cuda")}
    for step in steps.values():
        for batch in batches(4):
            step(batch)
    assert not is_recorded(steps["cuda"])
    assert steps["cuda"]._run.failure
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    same(steps["cuda"].values(), steps["cpu"].values())


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch._inductor")
def test_constants_and_compiled_segments_are_recorded():
    steps = [
        compiled("cpu", lambda x: x * torch.tensor([0.5, 2.0], dtype=x.dtype).repeat(36)),
        compiled("cuda", lambda x: x * torch.tensor([0.5, 2.0], dtype=x.dtype).repeat(36)),
        compiled("cuda", lambda x: x * torch.tensor([0.5, 2.0], dtype=x.dtype).repeat(36), torch_compile=True),
    ]  # fmt: skip
    for step in steps:
        for batch in batches(4):
            step(batch)
    assert is_recorded(steps[1]), steps[1]._run.failure
    assert is_recorded(steps[2]), steps[2]._run.failure
    for step in steps[1:]:
        same(step.values(), steps[0].values())


def test_without_the_memory_for_it_a_step_goes_on_unrecorded():
    step, other = compiled("cuda"), compiled("cpu")
    given = batches(5)
    for trained in (step, other):
        trained(given[0])
        trained(given[1])
    reserved = torch.cuda.memory_reserved()
    torch.cuda.set_per_process_memory_fraction(
        (reserved + (1 << 25)) / torch.cuda.mem_get_info()[1]
    )
    try:
        step(given[2])
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert "memory" in step._run.failure
    other(given[2])
    for batch in given[3:]:
        step(batch)
        other(batch)
    same(step.values(), other.values())
