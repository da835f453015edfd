"""`gw.compile(memory=...)` on one device: the step of the same plan without a limit, its checkpoints and its losses."""

from functools import cache

import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.errors import BatchMismatch, GraphwrightError, StepLost
from graphwright.machine import cluster
from graphwright.plans import make_plan

torch.set_num_threads(1)
LOSS = nn.functional.cross_entropy


class Model(nn.Module):
    """Layers with state that moves, a view that a buffer takes, and dropout."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(12, 32), nn.BatchNorm1d(32)
        self.drop, self.last = nn.Dropout(0.3), nn.Linear(32, 5)
        self.register_buffer("seen", torch.zeros(32, 12))

    def forward(self, x):
        self.seen.copy_(self.first.weight.detach().T.reshape(32, 12))
        return self.last(self.drop(torch.relu(self.norm(self.first(x)))))


class Exchange(nn.Module):
    """Two buffers that are exchanged in every step, and one that takes its own transpose."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(12, 5)
        self.register_buffer("one", torch.randn(12, 12))
        self.register_buffer("other", torch.randn(12, 12))
        self.register_buffer("turned", torch.randn(12, 12))

    def forward(self, x):
        x = x @ self.one @ self.turned
        one = self.one.clone()
        self.one.copy_(self.other)
        self.other.copy_(one)
        self.turned.copy_(self.turned.T)
        return self.last(x)


def make():
    torch.manual_seed(0)
    return Model().double()


def batch(number: int = 0):
    generator = torch.Generator().manual_seed(number)
    return (
        torch.randn(16, 12, generator=generator).double(),
        torch.randint(0, 5, (16,), generator=generator),
    )


@cache
def graph():
    return gw.capture(make(), LOSS, batch(), optimizer=torch.optim.Adam)


def compiled(memory=None):
    plan = make_plan(graph(), cluster("local:1"), {})
    return gw.compile(plan, make(), LOSS, torch.optim.Adam, graph=graph(), memory=memory)


@cache
def limits():
    plan = make_plan(graph(), cluster("local:1"), {})
    whole = gw.swap(graph(), "1GB", partition=plan)
    return whole.least, (whole.least + whole.needs[0]) // 2


@pytest.mark.parametrize("which", [0, 1])
def test_training_is_that_without_a_limit(which):
    free, tight = compiled(), compiled(limits()[which])
    assert tight.memory.plan.arena <= limits()[which]
    for number in range(4):
        assert float(tight(batch(number))) == pytest.approx(float(free(batch(number))), rel=1e-12)
    expected, found = free.values(), tight.values()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-12, msg=name)


def test_buffers_that_take_each_others_values():
    torch.manual_seed(1)
    model = Exchange().double()
    traced = gw.capture(model, LOSS, batch(), optimizer=torch.optim.SGD)
    plan = make_plan(traced, cluster("local:1"), {})
    whole = gw.swap(traced, "1GB", partition=plan)
    steps = [
        gw.compile(plan, model, LOSS, torch.optim.SGD, graph=traced, memory=limit)
        for limit in (None, whole.least, whole.needs[0])
    ]
    for number in range(3):
        assert len({float(step(batch(number))) for step in steps}) == 1
    expected, *others = (step.values() for step in steps)
    for name, value in expected.items():
        assert all(torch.equal(other[name], value) for other in others), name
    assert not torch.equal(expected["one"], model.one), "they were exchanged three times"


def test_values_are_copies_that_later_steps_leave_alone():
    step = compiled(limits()[0])
    step(batch())
    values = step.values()
    kept = {name: value.clone() for name, value in values.items()}
    state = step.state_dict()
    step(batch(1))
    for name, value in kept.items():
        assert torch.equal(values[name], value) and torch.equal(state[name], value), name


@pytest.mark.parametrize(("saves", "loads"), [(0, 1), (0, None), (None, 0)])
def test_checkpoints_go_from_one_limit_to_another_and_to_none(tmp_path, saves, loads):
    def limit(which):
        return None if which is None else limits()[which]

    first = compiled(limit(saves))
    for number in range(2):
        first(batch(number))
    first.save(tmp_path)
    other = compiled(limit(loads))
    other(batch(7))
    other.load(tmp_path)
    assert other.num_steps == 2
    assert float(other(batch(2))) == pytest.approx(float(first(batch(2))), rel=1e-12)


def test_a_checkpoint_that_cannot_be_read_changes_nothing(tmp_path):
    step = compiled(limits()[0])
    step(batch())
    before = step.values()
    with pytest.raises(GraphwrightError):
        step.load(tmp_path / "none")
    other = gw.capture(nn.Linear(12, 5), LOSS, (batch()[0].float(), batch()[1]))
    plan = make_plan(other, cluster("local:1"), {})
    gw.compile(plan, nn.Linear(12, 5), LOSS, graph=other).save(tmp_path)
    with pytest.raises(GraphwrightError):
        step.load(tmp_path)
    for name, value in step.values().items():
        assert torch.equal(before[name], value), name


def test_a_step_that_failed_is_lost_until_a_checkpoint_is_read(tmp_path, monkeypatch):
    step = compiled(limits()[0])
    expected = float(step(batch()))
    step.save(tmp_path)
    second = float(step(batch(1)))
    with monkeypatch.context() as patch:
        patch.setattr(type(step._run), "_issue", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            step(batch(2))
    with pytest.raises(StepLost):
        step(batch(2))
    step.load(tmp_path)
    assert float(step(batch(1))) == second != expected
    with pytest.raises(BatchMismatch):
        step((batch()[0][:3], batch()[1][:3]))
    step(batch())
