"""The demonstration: plans by fresh measurements, timed beside DistributedDataParallel."""

import io
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from graphwright import zoo
from graphwright.capture import Parts, prepare
from graphwright.cli import demo
from graphwright.machine import Store, cluster
from graphwright.partition import data_parallel
from graphwright.pipeline import demonstrate, predict
from graphwright.pipeline.measured import plan_measured
from graphwright.run import DDP, Training, calls_of_plan, launch, time_in_turns
from graphwright.simulate import CostModel


def small(device):
    return zoo.dlrm(2, rows=500, width=8, batch_size=8, device=device)


def half_used(device):
    """A model with a parameter that its loss does not depend on."""
    model = torch.nn.ModuleDict({"used": torch.nn.Linear(4, 3), "unused": torch.nn.Linear(4, 3)})
    model.forward = lambda x: model["used"](x)
    return Parts(
        model=model.to(device),
        loss_fn=torch.nn.functional.mse_loss,
        batch=(torch.ones(4, 4, device=device), torch.ones(4, 3, device=device)),
        optimizer=torch.optim.SGD,
        optimizer_options={"lr": 0.1},
    )


def quiet(what, done, total):
    pass


@pytest.fixture(scope="module")
def shown():
    return demonstrate(predict(small, 2, report=quiet), report=quiet)


def test_all_ways_take_the_same_number_of_steps_in_turns(shown):
    counts = {way.name: len(way.seconds) for way in shown.ways}
    assert counts.keys() >= {DDP, "the plan found"}
    assert len(set(counts.values())) == 1


def test_the_training_is_that_of_one_device(shown):
    assert shown.check.comparison.agrees
    assert shown.check.verdict.startswith("the same as PyTorch on one device")


def printed(shown):
    console = Console(file=io.StringIO(), width=80)
    console.print(demo._table(shown))
    console.print("\n".join(demo._measured(shown)))
    return console.file.getvalue()


def test_a_plan_that_is_not_faster_is_said_not_to_be(shown):
    ddp, *others = shown.ways
    slow = replace(shown, ways=(replace(ddp, seconds=(1e-6, 1e-6)), *others))
    assert "is NOT faster than DistributedDataParallel" in printed(slow).replace("\n", " ")
    fast = replace(shown, ways=(replace(ddp, seconds=(1e3, 1e3)), *others))
    assert "times as fast as DistributedDataParallel here" in printed(fast).replace("\n", " ")


def test_a_busy_machine_is_said_to_be_busy(shown):
    def waiting(share):
        return replace(shown, ways=tuple(replace(way, waited=share) for way in shown.ways))

    assert "other programs had the cores for 40% of the time" in printed(waiting(0.4))
    assert waiting(0.4).found.unhindered == pytest.approx(0.6 * shown.found.measured)
    for share in (0.01, None):
        assert "other programs" not in printed(waiting(share))


def test_every_call_of_the_plan_was_measured(tmp_path):
    graph, on = prepare(small("meta")), cluster("local:2")
    store = Store(tmp_path / "costs.sqlite")
    found = plan_measured(graph, on, store, baselines=("data",), report=quiet)
    assert not found.notes
    costs = CostModel(store)
    for op, attrs, types in calls_of_plan(graph, found.frontier.fastest()):
        if costs.roofline(op, attrs, types, on.devices[0]):
            assert costs.measurement(op, attrs, types, on.devices[0]) is not None, op


def test_more_processes_than_cores_are_planned_by_formulas(tmp_path, monkeypatch):
    monkeypatch.setattr("graphwright.pipeline.measured.num_cores", lambda: 1)
    graph, store = prepare(small("meta")), Store(tmp_path / "costs.sqlite")
    found = plan_measured(graph, cluster("local:2"), store, baselines=("data",), report=quiet)
    assert found.num_calls == 0 and found.num_links > 0
    assert "take turns on 1 cores" in found.notes[0]


def test_what_ddp_refuses_is_told_and_the_plans_run():
    graph = prepare(half_used("meta"))
    plan = data_parallel(graph, cluster("local:2"))
    training = Training(make=half_used, graph=graph, plan=plan, num_steps=1)
    for times in launch(2)(time_in_turns, training, {"plan": plan}, 2, 3):
        assert len(times.seconds["plan"]) == 6
        assert "finished reduction" in times.refused[DDP]
