"""`gw.compile` in a world of one: what is captured, and when."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphwright as gw
from eager import difference
from graphwright.aten import bind
from graphwright.errors import InvalidBatch, ModelChanged, StepNotBegun, UnsupportedOptimizer
from graphwright.partition import replicate

ADAM = {"optimizer": torch.optim.Adam, "optimizer_options": {"lr": 0.01}}


def model_and_batch():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)).double()
    return model, (torch.randn(8, 4).double() * 3, torch.randint(3, (8,)))


def planned(model, batch, **options):
    graph = gw.capture(model, F.cross_entropy, batch, **ADAM, **options)
    return replicate(graph, "local:1"), graph


def eager_step(model, batch, optimizer, *, accumulate=1, clip_norm=None):
    optimizer.zero_grad()
    total = 0.0
    for x, t in zip(batch[0].chunk(accumulate), batch[1].chunk(accumulate), strict=True):
        loss = F.cross_entropy(model(x), t) / accumulate
        loss.backward()
        total += loss.detach()
    if clip_norm is not None:
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return total


class Counting(nn.Module):
    """A model with a buffer that checkpoints of PyTorch leave out."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3).double()
        self.register_buffer("seen", torch.zeros(3).double(), persistent=False)

    def forward(self, x):
        made = self.layer(x) + self.seen
        with torch.no_grad():
            self.seen.add_(1)
        return made


def test_buffers_that_are_in_no_checkpoint_are_gathered():
    torch.manual_seed(0)
    model, (_, batch) = Counting(), model_and_batch()
    plan, _ = planned(model, batch)
    step = gw.compile(plan, model, F.cross_entropy, **ADAM, batch=batch)
    for _ in range(3):
        step(batch)
    assert step.gather().seen.tolist() == [3, 3, 3]


def test_arrays_are_refused():
    model, batch = model_and_batch()
    plan, graph = planned(model, batch)
    step = gw.compile(plan, model, F.cross_entropy, **ADAM, graph=graph)
    with pytest.raises(InvalidBatch, match=r"targets is a NumPy ndarray.*torch\.from_numpy"):
        step((batch[0], batch[1].numpy()))


@pytest.mark.parametrize("example", [True, False], ids=["with an example", "at the first batch"])
@pytest.mark.parametrize(
    "options", [{}, {"clip_norm": 0.05}, {"accumulate": 4}, {"accumulate": 2, "clip_norm": 0.05}]
)
def test_the_step_is_the_eager_one(example, options):
    model, batch = model_and_batch()
    alone = copy.deepcopy(model)
    plan, _ = planned(model, batch, **options)
    given = {"batch": batch} if example else {}
    step = gw.compile(plan, model, F.cross_entropy, **ADAM, **given, **options)
    optimizer = torch.optim.Adam(alone.parameters(), lr=0.01)
    for _ in range(3):
        loss = step(batch)
        assert difference(loss, eager_step(alone, batch, optimizer, **options)) < 1e-12
    trained = step.gather()
    for name, tensor in (*alone.named_parameters(), *alone.named_buffers()):
        assert difference(trained.state_dict()[name], tensor) < 1e-9, name
    assert step.num_steps == 3


def test_a_step_in_mixed_precision_runs_its_own_casts_alone():
    model, batch = model_and_batch()
    model, batch = model.float(), (batch[0].float(), batch[1])
    plan, graph = planned(model, batch, autocast=torch.bfloat16)
    step = gw.compile(
        plan, copy.deepcopy(model), F.cross_entropy, **ADAM, autocast=torch.bfloat16, batch=batch
    )
    other = gw.compile(plan, copy.deepcopy(model), F.cross_entropy, **ADAM, graph=graph)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        surrounded = other(batch)
    assert torch.equal(step(batch), surrounded)


def test_autocast_around_compile_reaches_what_is_captured_later():
    model, batch = model_and_batch()
    model, batch = model.float(), (batch[0].float(), batch[1])
    plan, _ = planned(model, batch, autocast=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        step = gw.compile(plan, model, F.cross_entropy, **ADAM)
    assert torch.isfinite(step(batch))


def test_a_step_that_has_not_begun_says_so_and_then_is_as_any_other(tmp_path):
    model, batch = model_and_batch()
    plan, graph = planned(model, batch)
    step = gw.compile(plan, model, F.cross_entropy, **ADAM)
    assert repr(step) == "Step(not begun)"
    assert not hasattr(step, "graph")
    for action in (step.gather, lambda: step.save(tmp_path), lambda: step.load(tmp_path)):
        with pytest.raises(StepNotBegun, match=r"before its first batch.*batch=.*graph="):
            action()
    assert not list(tmp_path.iterdir())
    step(batch)
    assert step.graph.hash == graph.hash
    assert "1 steps" in repr(step)
    step.save(tmp_path)
    with pytest.raises(AttributeError, match="no such"):
        _ = step.such


def check_trains_alike(make, steps=3):
    """`make` gives a model, its batch and its optimizer, always the same ones."""
    model, batch, optimizer = make()
    mine, _, other = make()
    graph = gw.capture(mine, F.cross_entropy, batch, optimizer=other)
    step = gw.compile(replicate(graph, "local:1"), mine, F.cross_entropy, other, graph=graph)
    for _ in range(steps):
        eager_step(model, batch, optimizer)
        step(batch)
    found = step.values()
    for name, parameter in model.named_parameters():
        assert difference(found[name], parameter.detach()) < 1e-9, name


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.SGD])
@pytest.mark.parametrize("when", ["pre", "post"])
def test_hooks_of_an_optimizer_are_part_of_its_step(kind, when):
    def clamp(optimizer, args, kwargs):
        with torch.no_grad():
            for p in optimizer.param_groups[0]["params"]:
                p.clamp_(-0.2, 0.2)

    def make():
        model, batch = model_and_batch()
        options = {"momentum": 0.9} if kind is torch.optim.SGD else {}
        optimizer = kind(model.parameters(), lr=0.1, **options)
        getattr(optimizer, f"register_step_{when}_hook")(clamp)
        return model, batch, optimizer

    check_trains_alike(make)


def begun():
    """A model without its first layer has taken two steps."""
    model, batch = model_and_batch()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model[0].requires_grad_(False)
    for _ in range(2):
        eager_step(model, batch, optimizer)
    return model, batch, optimizer


def test_a_frozen_layer_has_no_say_in_how_many_steps_were_taken():
    check_trains_alike(begun)


def test_parameters_of_one_group_have_taken_the_same_steps():
    model, batch, optimizer = begun()
    model.requires_grad_(True)
    graph = gw.capture(model, F.cross_entropy, batch, optimizer=optimizer)
    message = "0.weight of parameter group 0 has taken 0 steps and 1.weight 2"
    with pytest.raises(UnsupportedOptimizer, match=message):
        gw.compile(replicate(graph, "local:1"), model, F.cross_entropy, optimizer, graph=graph)
    with pytest.raises(UnsupportedOptimizer, match=message):
        gw.swap(graph, "1GB").compile(model, F.cross_entropy, optimizer)
    with pytest.raises(UnsupportedOptimizer, match=message):
        bind(graph, model, batch, optimizer=optimizer)


class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = (nn.Parameter(torch.randn(4, 4)) for _ in range(2))

    def forward(self, x):
        return x @ (self.a + self.b)


@pytest.mark.parametrize("first", [0, 1])
def test_two_weights_with_one_gradient_are_updated_in_two_ways(first):
    def make():
        torch.manual_seed(0)
        model, batch = Sum().double(), (torch.randn(8, 4).double(), torch.arange(8) % 4)
        groups = [
            {"params": [model.a]},
            {"params": [model.b], "amsgrad": True, "maximize": True},
        ]
        return model, batch, torch.optim.Adam(groups[first:] + groups[:first], lr=0.1)

    check_trains_alike(make)


@pytest.mark.parametrize("what", ["model", "a layer", "optimizer", "requires_grad"])
def test_what_is_loaded_behind_a_step_is_refused(what):
    model, batch = model_and_batch()
    optimizer = torch.optim.Adam(model.parameters())
    graph = gw.capture(model, F.cross_entropy, batch, optimizer=optimizer)
    step = gw.compile(
        replicate(graph, "local:1"), model, F.cross_entropy, optimizer, graph=graph, batch=batch
    )
    swapped = gw.swap(graph, "1GB").compile(model, F.cross_entropy, optimizer)
    for each in (step, swapped):
        each(batch)
    eager_step(model, batch, optimizer)  # to compare with: the steps have values of their own
    for each in (step, swapped):
        each(batch)
    match what:
        case "model":
            model.load_state_dict(copy.deepcopy(model.state_dict()))
        case "a layer":
            layer = next(m for m in model.modules() if not list(m.children()))
            layer.load_state_dict(copy.deepcopy(layer.state_dict()))
        case "optimizer":
            optimizer.load_state_dict(optimizer.state_dict())
        case _:
            next(model.parameters()).requires_grad_(False)
    for each in (step, swapped):
        with pytest.raises(ModelChanged, match=r"requires_grad|loaded values"):
            each(batch)


def test_a_model_that_was_compiled_can_be_copied_and_saved(tmp_path):
    model, batch = model_and_batch()
    _, graph = planned(model, batch)
    step = gw.compile(replicate(graph, "local:1"), model, F.cross_entropy, **ADAM, graph=graph)
    step(batch)
    torch.save(model, tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt", weights_only=False)
    for other in (loaded, copy.deepcopy(model)):
        other.load_state_dict(model.state_dict())
    step(batch)
