"""A step follows learning rates; a change of anything else that it has fixed is refused."""

import warnings

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR

import graphwright as gw
from graphwright.errors import UnsupportedOptimizer
from graphwright.partition import baseline


def make(optimizer=torch.optim.Adam, **options):
    torch.manual_seed(0)
    model, batch = nn.Linear(5, 3), (torch.randn(4, 5), torch.randn(4, 3))
    made = optimizer(model.parameters(), lr=0.1, **options)
    graph = gw.capture(model, nn.functional.mse_loss, batch, optimizer=made)
    plan = baseline("replicate", graph, "local:1")
    return gw.compile(plan, model, nn.functional.mse_loss, made, batch=batch), batch


def test_a_schedule_of_rates_runs_without_a_warning():
    step, batch = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule = CosineAnnealingLR(step.optimizer, 10)
        for _ in range(3):
            step(batch)
            schedule.step()


@pytest.mark.parametrize(("optimizer", "option"), [(torch.optim.Adam, "betas"), (torch.optim.SGD, "momentum")])  # fmt: skip
def test_a_cycle_of_momentum_is_refused(optimizer, option):
    step, batch = make(optimizer, **({"momentum": 0.9} if option == "momentum" else {}))
    OneCycleLR(step.optimizer, max_lr=0.5, total_steps=10)
    with pytest.raises(UnsupportedOptimizer, match=rf"{option} of parameter group 0 was .* cycle_momentum=False"):  # fmt: skip
        step(batch)


def test_one_cycle_of_rates_alone_is_followed():
    step, batch = make()
    schedule = OneCycleLR(step.optimizer, max_lr=0.5, total_steps=10, cycle_momentum=False)
    for _ in range(3):
        step(batch)
        schedule.step()


def test_weight_decay_in_the_middle_is_refused():
    step, batch = make()
    step(batch)
    step.optimizer.param_groups[0]["weight_decay"] = 0.5
    with pytest.raises(UnsupportedOptimizer, match="weight_decay of parameter group 0 was 0 when"):
        step(batch)
    step.optimizer.param_groups[0]["weight_decay"] = 0
    step(batch)  # nothing was lost


@pytest.mark.parametrize(
    ("rate", "words"),
    [(float("nan"), "is nan, not a finite number"), ("a", "is 'a'; give a number"), (None, "is None; give a number")],
)  # fmt: skip
def test_a_rate_that_is_none_is_refused(rate, words):
    step, batch = make()
    step.optimizer.param_groups[0]["lr"] = rate
    with pytest.raises(UnsupportedOptimizer, match=f"learning rate of parameter group 0 {words}"):
        step(batch)
    step.optimizer.param_groups[0]["lr"] = 0.1
    step(batch)  # nothing was lost


def test_another_group_is_refused():
    step, batch = make()
    step.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
    with pytest.raises(UnsupportedOptimizer, match=r"had 1 parameter groups .* and has 2 now"):
        step(batch)


def test_one_process_has_tensors():
    step, _ = make()
    assert {"weight", "bias", "weight.exp_avg"} <= step.state_dict().keys()
