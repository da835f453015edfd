"""A run whose values stay where they are, and whose keys are written later: the same values."""

import pytest
import torch
from torch import fx, nn

from graphwright.aten.replay import bind
from graphwright.capture import capture
from graphwright.lower import lower
from graphwright.machine import cluster
from graphwright.partition import data_parallel
from graphwright.run.program.cuda_graph import may_use_cuda_graph, run_in_place
from graphwright.run.program.module import build_module, run_module
from graphwright.run.program.targets import CopyConstant
from graphwright.run.random.philox import Keys, RandomBox, fill

CPU = torch.device("cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.drop, self.out = nn.Dropout(0.5), nn.Linear(32, 5)

    def forward(self, x):
        return self.out(self.drop(torch.relu(self.norm(self.conv(x))).flatten(1)))


def program(optimizer, **options):
    torch.manual_seed(0)
    model = Net().double()
    batch = torch.randn(6, 3, 4, 4, dtype=torch.float64), torch.randint(0, 5, (6,))
    graph = capture(
        model, nn.functional.cross_entropy, batch, optimizer=optimizer, optimizer_options=options
    )
    lowered = lower(graph, data_parallel(graph, cluster("local:1")))
    inputs = bind(graph, model, batch, optimizer=optimizer, optimizer_options=options)
    return build_module(lowered.program(0), None, CPU), inputs


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [(torch.optim.Adam, {}), (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9})],
)
def test_values_that_stay_in_place_are_those_of_the_module(optimizer, options):
    module, inputs = program(optimizer, **options)
    held = {name: value.clone() for name, value in inputs.items()}
    static = {name: value.clone() for name, value in inputs.items()}
    places = {name: value.data_ptr() for name, value in static.items()}
    for seed in (7, 8, 9):
        updates, results = run_module(module, {n: v.clone() for n, v in held.items()}, seed)
        held |= updates
        with torch.no_grad():
            updated, found = run_in_place(module, static, Keys(8, CPU, seed))
        assert set(updated) == set(updates)
        assert {name: value.data_ptr() for name, value in static.items()} == places
        for name, value in (held | results).items():
            assert torch.equal((static | found)[name], value), name


def test_a_new_value_in_the_memory_of_another_arrives():
    graph = fx.Graph()
    held, _ = graph.placeholder("held"), graph.placeholder("seed")
    a, b = (graph.call_method("pop", (held, name)) for name in "ab")
    graph.output(({"a": b, "b": a}, {}))
    static = {"a": torch.tensor([1.0]), "b": torch.tensor([2.0])}
    run_in_place(fx.GraphModule(nn.Module(), graph), static, 0)
    assert static["a"].item() == 2.0 and static["b"].item() == 1.0


def test_a_result_in_the_memory_of_a_value_that_changes_is_what_it_was():
    class Weight(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.tensor([2.0]))

        def forward(self, x):
            return self.w.view(1)

    model, batch, options = Weight(), (torch.ones(1), torch.ones(1)), {"lr": 0.5}
    loss_fn, optimizer = lambda out, _: out.reshape(()), torch.optim.SGD
    graph = capture(model, loss_fn, batch, optimizer=optimizer, optimizer_options=options)
    lowered = lower(graph, data_parallel(graph, cluster("local:1")))
    static = bind(graph, model, batch, loss_fn=loss_fn, optimizer=optimizer, optimizer_options=options)  # fmt: skip
    with torch.no_grad():
        _, results = run_in_place(build_module(lowered.program(0), None, CPU), static, 0)
    assert results[graph.outputs[0]].item() == 2.0 and static["w"].item() == 1.5


def test_a_list_of_numbers_is_not_copied_to_the_device_in_a_step():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return x * self.w * torch.tensor([1.0, 2.0, 3.0])

    model, batch = Scaled(), (torch.ones(2, 3), torch.zeros(2, 3))
    graph = capture(model, nn.functional.mse_loss, batch, optimizer=torch.optim.SGD)
    lowered = lower(graph, data_parallel(graph, cluster("local:1")))
    module = build_module(lowered.program(0), None, CPU)
    inputs = bind(graph, model, batch, optimizer=torch.optim.SGD)
    for _ in range(2):
        _, results = run_module(module, {n: v.clone() for n, v in inputs.items()}, 0)
        assert results[graph.outputs[0]].item() == pytest.approx(14 / 3)
    called = {node.target for node in module.graph.nodes}
    assert torch.tensor not in called and any(isinstance(target, CopyConstant) for target in called)


@pytest.mark.parametrize("num_streams", [1, 2])
def test_keys_that_are_written_draw_what_a_seed_draws(num_streams):
    def drawn(seed):
        place = RandomBox(seed=seed, operator=3, shape=(4, 70), box=((1, 3), (5, 68)))
        add = lambda *words: sum(words)
        return fill(place, "word", num_streams, add, torch.int64, CPU)

    keys = Keys(num_streams, CPU, 4)
    assert torch.equal(drawn(keys), drawn(4)) and not keys.is_short
    assert torch.equal(drawn(keys), drawn(4)) and keys.is_short
    later = Keys(num_streams, CPU)
    drawn(later)
    for seed in (0, 5, -1):
        later.write(seed)
        later.asked.clear()
        assert torch.equal(drawn(later), drawn(seed))
    with pytest.raises(RuntimeError, match="more than"):
        drawn(later)


def test_only_gpus_record_and_can_be_told_not_to(monkeypatch):
    assert not may_use_cuda_graph(CPU)
    assert may_use_cuda_graph(torch.device("cuda"))
    monkeypatch.setenv("GRAPHWRIGHT_RECORD", "0")
    assert not may_use_cuda_graph(torch.device("cuda"))
