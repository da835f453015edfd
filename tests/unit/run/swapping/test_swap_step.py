"""Training and inference in less memory than they need: the same values as without swapping."""

import copy

import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright import capture
from graphwright.errors import BatchMismatch, InvalidOption, PlanMismatch, StepLost
from graphwright.ir import GraphBuilder, Role, TensorType
from graphwright.machine import cluster
from graphwright.memory import Choice, Planner, early_order, problem_of
from graphwright.plans import MemoryTooSmall, make_plan
from graphwright.run.program import SwapExecutor
from graphwright.run.program.swapping import arena
from graphwright.simulate import CostModel

torch.set_num_threads(1)


class Residual(nn.Module):
    """Convolutions with a branch, dropout and a running mean."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.left = nn.Conv2d(8, 8, 3, padding=1)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        x = self.drop(x + torch.relu(self.left(x)))
        return self.head(x.mean((2, 3)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTM(6, 12, 2), nn.Linear(12, 5)

    def forward(self, x):
        return self.head(self.cell(x)[0][-1])


BATCHES = {
    Residual: lambda: (torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))),
    Recurrent: lambda: (torch.randn(7, 4, 6), torch.randint(0, 5, (4,))),
}
LOSS = nn.functional.cross_entropy
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "adam": (torch.optim.Adam, {"lr": 1e-3}),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_training_is_that_of_the_graph_to_the_last_bit_and_of_eager(kind, optimizer, share):
    """`share` is between what one operator needs and what the whole step holds."""
    torch.manual_seed(0)
    model, (option, options) = kind(), OPTIMIZERS[optimizer]
    batches = [BATCHES[kind]() for _ in range(4)]
    graph = gw.capture(model, LOSS, batches[0], optimizer=option, optimizer_options=options)
    whole = gw.swap(graph, "1GB", search="greedy")
    least = max(whole.given.problem.needs)
    planned = gw.swap(graph, int(least + share * (whole.needs - least)), budget=0.2)
    assert planned.plan.count("out") > 0 and planned.plan.arena < whole.needs
    values = capture.bind(
        graph, model, batches[0], loss_fn=LOSS, optimizer=option, optimizer_options=options
    )
    values = {name: value.clone() for name, value in values.items()}
    step = planned.compile(
        copy.deepcopy(model), LOSS, option, optimizer_options=options, device="cpu"
    )
    eager = copy.deepcopy(model)
    running = option(eager.parameters(), **options)
    for number, batch in enumerate(batches):
        values |= {"inputs.0" if "inputs.0" in values else "inputs": batch[0]}
        values |= {name: batch[1] for name in values if name.startswith("targets")}
        torch.manual_seed(number)
        loss = step(batch)
        torch.manual_seed(number)
        outputs = capture.replay(planned.given.graph, values)
        values = capture.advance(graph, values, outputs)
        torch.manual_seed(number)
        running.zero_grad()
        wanted = LOSS(eager(batch[0]), batch[1])
        wanted.backward()
        running.step()
        assert torch.equal(loss, outputs["loss"])
        torch.testing.assert_close(loss, wanted.detach(), rtol=1e-5, atol=1e-6)
        now = step.values()
        for name, value in now.items():
            assert torch.equal(value, values[name]), name
    if optimizer == "sgd":  # Adam divides noise by noise where a bias has no gradient
        trained = step.gather()
        for (name, found), (_, right) in zip(
            trained.named_parameters(), eager.named_parameters(), strict=True
        ):
            torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-5, msg=name)
    assert step.num_steps == 4


class Remembering(nn.Module):
    """Buffers whose new values are views: of each other, of an activation, of one that changes."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        for number, name in enumerate(("now", "before", "left", "right", "seen")):
            self.register_buffer(name, torch.arange(36.0).reshape(6, 6) / 36 + number)

    def forward(self, x):
        y = torch.tanh(self.linear(x) + self.now)
        self.before.copy_(self.now.T)
        self.now.copy_(self.now * 0.9 + y.detach().mean(0))
        left = self.left.clone()
        self.left.copy_(self.right.T)
        self.right.copy_(left.T)
        self.seen.copy_(y.detach().T)
        return torch.tanh(y + self.before) + self.now


@pytest.mark.parametrize("recompute", [0.0, 1e3])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_buffers_take_views_as_new_values(share, recompute):
    torch.manual_seed(0)
    model, batch = Remembering(), (torch.randn(6, 6), torch.randint(0, 6, (6,)))
    graph = gw.capture(model, LOSS, batch, optimizer=torch.optim.SGD)
    whole = gw.swap(graph, "1GB")
    problem = whole.given.problem
    room = round(max(problem.needs) + share * (whole.needs - max(problem.needs)))
    choice = Choice(recompute=recompute, gap=0.05)
    plan = Planner(problem).plan(early_order(problem), room, choice)
    planned = gw.swap(graph, plan=plan)
    step = planned.compile(copy.deepcopy(model), LOSS, torch.optim.SGD, device="cpu")
    optimizer = torch.optim.SGD(model.parameters())
    for _ in range(3):
        step(batch)
        optimizer.zero_grad()
        LOSS(model(batch[0]), batch[1]).backward()
        optimizer.step()
    values = step.values()
    for name, right in model.state_dict().items():
        torch.testing.assert_close(values[name], right, msg=name)


def updating(**updates):
    """Three vectors, one of which is doubled; all of them change as `updates` says."""
    made, type = GraphBuilder(), TensorType((4,), "float32")
    for name in "abc":
        made.add_input(name, type, Role.BUFFER)
    made.add("aten.mul.Scalar", ["c"], {"other": 2.0}, type, names="twice")
    (shown,) = made.add("aten.neg", ["a"], {}, type, names="shown")
    return made.build([shown, "twice", *"abc"], updates=updates)


@pytest.mark.parametrize(
    "updates",
    [
        {"a": "b", "b": "twice"},
        {"b": "twice", "a": "b"},
        {"a": "b", "b": "a"},
        {"a": "b", "b": "c", "c": "a"},
        {"c": "twice", "b": "c"},
    ],
)
def test_inputs_may_take_the_old_values_of_others(updates):
    """All of them change at once, as in a replay, and what the step returns is from before."""
    graph = updating(**updates)
    given = problem_of(graph, cluster("p3.2xlarge"), CostModel(measured=False))
    plan = Planner(given.problem).plan(
        early_order(given.problem), max(given.problem.needs), Choice()
    )
    executor = SwapExecutor(given, plan, torch.device("cpu"))
    values = {name: torch.arange(4.0) + 10 * at for at, name in enumerate("abc")}
    executor.give(values)
    for _ in range(3):
        outputs = capture.replay(graph, values)
        executor.run()
        for name in graph.outputs:
            if name not in updates.values():
                assert torch.equal(executor.result(name), outputs[name]), name
        values = capture.advance(graph, values, outputs)
        for name, value in values.items():
            assert torch.equal(executor.take(name), value), name


def test_updates_are_one_kernel_where_that_needs_no_more_room():
    """A small layer's update is one operator in place; that of the largest weight stays in parts."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 400))
    batch = (torch.randn(2, 4), torch.randint(0, 400, (2,)))
    graph = gw.capture(model, LOSS, batch, optimizer=torch.optim.Adam)
    given = gw.swap(graph, "1GB").given
    updated = {n.outputs[0] for n in given.graph.nodes if n.op == "graphwright.adam"}
    assert graph.updates["0.weight"] in updated and graph.updates["1.weight"] not in updated
    joined = [op for op in given.problem.operators if op.name in updated]
    assert all(len(op.writes) == 3 and not op.makes for op in joined)
    parts = problem_of(graph, cluster("p3.2xlarge"), CostModel(measured=False)).problem
    assert max(given.problem.needs) <= max(parts.needs)


@pytest.mark.parametrize("search", [3, ("greedy", 3), None])
def test_searches_are_named(search):
    model = Recurrent()
    graph = gw.capture(model, LOSS, BATCHES[Recurrent](), optimizer=torch.optim.SGD)
    with pytest.raises(InvalidOption, match="search"):
        gw.swap(graph, "5kB", search=search)


@pytest.mark.parametrize("seed", [-1, 0.5, "one"])
def test_seeds_are_checked_where_nothing_is_searched_as_well(seed):
    graph = gw.capture(Recurrent(), LOSS, BATCHES[Recurrent](), optimizer=torch.optim.SGD)
    with pytest.raises(InvalidOption, match="seed"):
        gw.swap(graph, "1GB", seed=seed)


@pytest.mark.parametrize("kind", BATCHES)
def test_what_is_made_again_is_the_same(kind):
    torch.manual_seed(0)
    model, batch = kind(), BATCHES[kind]()
    graph = gw.capture(model, LOSS, batch, optimizer=torch.optim.SGD)
    whole = gw.swap(graph, "1GB", search="greedy")
    problem = whole.given.problem
    planner, room = Planner(problem), (max(problem.needs) + whole.needs) // 2
    gaps = (
        0.05,
        0.1,
        0.2,
        0.3,
        0.4,
        0.5,
        0.6,
    )  # where more than a second step would be added, none
    plans = (planner.plan(early_order(problem), room, Choice(recompute=1e3, gap=g)) for g in gaps)
    plan = next(p for p in plans if any(a.stream == "compute" and a.again for a in p.actions))
    planned = gw.swap(graph, plan=plan)
    step = planned.compile(copy.deepcopy(model), LOSS, torch.optim.SGD, device="cpu")
    plain = whole.compile(copy.deepcopy(model), LOSS, torch.optim.SGD, device="cpu")
    for number in range(3):
        torch.manual_seed(number)
        loss = step(batch)
        torch.manual_seed(number)
        assert torch.equal(loss, plain(batch))
    wanted = plain.values()
    assert all(torch.equal(value, wanted[name]) for name, value in step.values().items())


def test_inference_in_less_memory():
    model, inputs = Residual().eval(), torch.randn(4, 3, 8, 8)
    graph = gw.capture(model, inputs=inputs)
    least = max(gw.swap(graph, "1GB", search="greedy").given.problem.needs)
    run = gw.swap(graph, least, search="greedy").compile(model, device="cpu")
    for _ in range(2):
        torch.testing.assert_close(run(inputs), model(inputs).detach(), rtol=1e-5, atol=1e-6)


def small():
    model, batch = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), None
    batch = (torch.randn(6, 8), torch.randint(0, 4, (6,)))
    graph = gw.capture(model, LOSS, batch, optimizer=torch.optim.SGD)
    return model, batch, graph


def test_learning_rates_are_those_of_now():
    model, batch, graph = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    step = gw.swap(graph, "1MB", search="greedy").compile(model, LOSS, optimizer, device="cpu")
    before = step.values()["0.weight"]
    step(batch)
    assert torch.equal(step.values()["0.weight"], before)
    optimizer.param_groups[0]["lr"] = 0.5
    step(batch)
    assert not torch.equal(step.values()["0.weight"], before)


def test_too_little_memory_names_the_operator_and_its_need():
    _, _, graph = small()
    needs = max(gw.swap(graph, "1MB", search="greedy").given.problem.needs)
    with pytest.raises(MemoryTooSmall, match=rf"operator \S+ needs {needs:,} bytes at once"):
        gw.swap(graph, needs - 1)


def test_a_host_with_too_little_memory_is_refused(monkeypatch):
    model, _, graph = small()
    monkeypatch.setattr(arena, "free_host_memory", lambda: 1000)
    planned = gw.swap(graph, "1MB", search="greedy")
    with pytest.raises(MemoryTooSmall, match="the host has to hold"):
        planned.compile(model, LOSS, torch.optim.SGD, device="cpu")


def test_an_interrupted_search_returns_its_best_plan(monkeypatch):
    from graphwright.memory import search

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setitem(search.SEARCHES, "genetic", interrupt)
    _, _, graph = small()
    found = gw.swap(graph, "6kB", budget=0.0)
    assert found.interrupted and found.plan.makespan > 0


def test_saved_plans_run_for_their_graph_alone(tmp_path):
    model, batch, graph = small()
    gw.swap(graph, "6kB", search="greedy").save(tmp_path / "plan.json")
    step = gw.swap(graph, plan=tmp_path / "plan.json").compile(
        model, LOSS, torch.optim.SGD, device="cpu"
    )
    assert torch.isfinite(step(batch))
    other = gw.capture(model, LOSS, (batch[0][:3], batch[1][:3]), optimizer=torch.optim.SGD)
    with pytest.raises(PlanMismatch, match="another graph"):
        gw.swap(other, plan=tmp_path / "plan.json")


def test_a_saved_plan_serves_another_machine_and_is_timed_for_it(tmp_path):
    _, _, graph = small()
    here = gw.swap(graph, "6kB", search="greedy")
    here.save(tmp_path / "plan.json")
    there = gw.swap(graph, "6kB", plan=tmp_path / "plan.json", cluster="p3.2xlarge")
    assert there.plan.actions == here.plan.actions
    assert there.time != here.time and there.unlimited != here.unlimited
    assert there.timeline.schedule.end.max() == there.plan.makespan
    with pytest.raises(PlanMismatch, match=r"takes [\d,]+ bytes, more than the 1,000"):
        gw.swap(graph, "1kB", plan=tmp_path / "plan.json")


def test_what_the_graph_was_not_captured_from_is_refused():
    model, batch, graph = small()
    planned = gw.swap(graph, "6kB", search="greedy")
    other = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    decayed = {"weight_decay": 0.1}
    for given, options in [
        ((other, LOSS, torch.optim.SGD), {}),
        ((model, nn.functional.multi_margin_loss, torch.optim.SGD), {}),
        ((model, LOSS, torch.optim.SGD), decayed),
        ((model, LOSS), {}),
    ]:
        with pytest.raises(PlanMismatch, match=r"not captured from this model|that optimizer"):
            planned.compile(*given, optimizer_options=options, device="cpu")
    trusted = planned.compile(other, LOSS, torch.optim.SGD, device="cpu", check_graph=False)
    assert torch.isfinite(trusted(batch))


def test_inference_of_another_model_or_mode_is_refused():
    model, inputs = Residual().eval(), torch.randn(4, 3, 8, 8)
    planned = gw.swap(gw.capture(model, inputs=inputs), "1MB", search="greedy")
    with pytest.raises(PlanMismatch, match="not captured from this model"):
        planned.compile(copy.deepcopy(model).train(), device="cpu")
    assert planned.compile(model, device="cpu")(inputs).shape == (4, 5)


@pytest.mark.parametrize("kind", BATCHES)
def test_a_checkpoint_goes_on_to_the_last_bit_under_another_plan(tmp_path, kind):
    torch.manual_seed(0)
    model, batch = kind(), BATCHES[kind]()
    graph = gw.capture(model, LOSS, batch, optimizer=torch.optim.Adam)
    whole = gw.swap(graph, "1GB")
    room = (whole.least + whole.needs) // 2

    def compiled(planned):
        return planned.compile(copy.deepcopy(model), LOSS, torch.optim.Adam, device="cpu")

    first, other = compiled(gw.swap(graph, room, search="greedy")), compiled(whole)
    other(batch)  # other values, and tensors left in its memory
    for number in range(2):
        torch.manual_seed(number)
        first(batch)
    first.save(tmp_path)
    saved = first.values()
    other.load(tmp_path)
    assert other.num_steps == 2
    assert all(torch.equal(value, saved[name]) for name, value in other.values().items())
    for number in range(2):
        torch.manual_seed(number)
        loss = first(batch)
        torch.manual_seed(number)
        assert torch.equal(loss, other(batch))
    first.load(tmp_path)
    assert all(torch.equal(value, saved[name]) for name, value in first.values().items())
    plain = gw.compile(
        make_plan(graph, gw.cluster("local:1"), {}), model, LOSS, torch.optim.Adam, graph=graph
    )
    plain.load(tmp_path)
    assert all(torch.equal(value, saved[name]) for name, value in plain.values().items())


def test_a_step_that_failed_halfway_goes_on_from_a_checkpoint(tmp_path, monkeypatch):
    model, batch, graph = small()
    step = gw.swap(graph, "6kB", search="greedy").compile(
        model, LOSS, torch.optim.SGD, device="cpu"
    )
    step.save(tmp_path)
    wanted, calls = step(batch), step._executor.calls

    def fail(turn):
        raise MemoryError

    monkeypatch.setattr(step._executor, "calls", [*calls[:5], fail, *calls[6:]])
    with pytest.raises(MemoryError):
        step(batch)
    with pytest.raises(StepLost, match="load a checkpoint"):
        step(batch)
    monkeypatch.undo()
    step.load(tmp_path)
    assert torch.equal(step(batch), wanted)


def test_other_batches_are_refused():
    model, batch, graph = small()
    step = gw.swap(graph, "1MB", search="greedy").compile(
        model, LOSS, torch.optim.SGD, device="cpu"
    )
    with pytest.raises(BatchMismatch, match="the plan is for"):
        step((batch[0][:3], batch[1][:3]))


def test_what_left_the_arena_is_overwritten():
    """A swap-out that never happened leaves NaN, not the right value by luck."""
    model, batch, graph = small()
    planned = gw.swap(
        graph, max(gw.swap(graph, "1MB", search="greedy").given.problem.needs), search="greedy"
    )
    step = planned.compile(model, LOSS, torch.optim.SGD, device="cpu")
    step._executor._swap_out = lambda action: lambda turn: None
    step._executor.host.memory[:-64].fill_(arena.POISON)
    assert not torch.isfinite(step(batch))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("kind", BATCHES)
def test_training_on_a_gpu(kind):
    torch.manual_seed(0)
    model, batch = kind(), BATCHES[kind]()
    model.eval()
    graph = gw.capture(model, LOSS, batch, optimizer=torch.optim.SGD)
    least = max(gw.swap(graph, "1GB", search="greedy").given.problem.needs)
    planned = gw.swap(graph, least, search="greedy")
    on_cpu = planned.compile(copy.deepcopy(model), LOSS, torch.optim.SGD, device="cpu")
    on_gpu = planned.compile(copy.deepcopy(model), LOSS, torch.optim.SGD, device="cuda")
    for _ in range(3):
        torch.testing.assert_close(on_gpu(batch).cpu(), on_cpu(batch), rtol=1e-3, atol=1e-4)
