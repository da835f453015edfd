"""One tiny model through every stage, in seconds: the first test to run, and the first to read.

Each stage returns a value that its verifier accepts, and that the next stage takes.
"""

import torch
from torch import nn

import graphwright as gw
from graphwright import ir
from graphwright.capture import advance, bind, replay
from graphwright.describe import (
    cost,
    is_described,
    node_splits,
    properties,
    sample_dims,
    soap,
    types_of,
)
from graphwright.lower import lower
from graphwright.partition import data_parallel
from graphwright.plans import Plan, Strategy, check_plan, verify_programs
from graphwright.report import to_dict
from graphwright.run import check_operator, latest
from graphwright.simulate import CostModel, Incremental, Simulator, verify_task_graph
from graphwright.tasks import GraphFacts, expand

LOSS, ADAM = nn.functional.cross_entropy, torch.optim.Adam
STEPS = 2


def make():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    return model, (torch.randn(4, 6).double(), torch.randint(3, (4,)))


def eager_losses(steps: int) -> list[float]:
    """What PyTorch itself makes of it."""
    model, (inputs, targets) = make()
    optimizer, losses = ADAM(model.parameters()), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = LOSS(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train(plans: list[Plan], folder: str) -> list[float]:
    """What each process does: steps under one plan after the other, by way of checkpoints."""
    losses: list[float] = []
    for plan in plans:
        model, batch = make()
        step = gw.compile(plan, model, LOSS, ADAM, batch=batch)
        if losses:
            step.load(folder)
        losses += [step(batch).item() for _ in range(STEPS)]
        step.save(folder)
    return losses


def test_every_stage(tmp_path):
    model, batch = make()

    # capture: the whole step as a valid graph, that survives being printed and saved
    graph = gw.capture(model, LOSS, batch, optimizer=ADAM)
    ir.verify(graph)
    gw.save(graph, tmp_path / "step.json")
    assert gw.load(tmp_path / "step.json") == graph
    assert ir.parse_text(ir.to_text(graph)).hash == graph.hash

    # replay: two steps that equal PyTorch's own
    values, losses = bind(graph, model, batch, optimizer=ADAM), []
    for _ in range(STEPS):
        made = replay(graph, values)
        losses.append(made["loss"].item())
        values = advance(graph, values, made)
    expected = eager_losses(2 * STEPS)
    torch.testing.assert_close(losses, expected[:STEPS], rtol=1e-9, atol=1e-9)

    # describe: every operator is known, and splits
    samples = sample_dims(graph)
    for node in graph.nodes:
        types = types_of(graph, node)
        assert is_described(node.op), node.op
        assert properties(node.op, node.attrs, types)
        assert cost(node.op, node.attrs, types).bytes >= 0
        for split in node_splits(graph, node):
            assert soap(split, node, graph, samples)
            assert len(split.parts(2)) == 2
    product = next(node for node in graph.nodes if node.op == "aten.mm")
    assert [split.index for split in node_splits(graph, product)] == ["i", "j", "k"]
    assert check_operator("aten.mm", {}, [batch[0], torch.randn(6, 8).double()])

    # plan: all plans that are worth having; the smallest is saved, and read back
    frontier = gw.plan(graph, "local:2")
    plan = frontier.smallest()
    check_plan(plan, graph)
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan

    # simulate: as a task graph; on eight devices, changed in one operator and timed both ways
    costs = CostModel(measured=False)
    verify_task_graph(expand(graph, plan, costs))
    wide = data_parallel(graph, "dgx-h100")
    timeline = gw.simulate(graph, wide)
    timeline.save(tmp_path / "step.trace.json")
    assert timeline.fits
    assert timeline.makespan > max(timeline.busy) / 2
    run = Incremental(graph, wide, CostModel())
    proposed = run.propose({product.name: Strategy(("j", "-", "-"))})
    run.accept()
    parts = Simulator(
        GraphFacts(graph), wide.cluster, CostModel(), together=False
    )  # as searches do
    assert proposed == parts.run(run.plan()).makespan

    # lower: a program for each rank, that fit together
    programs = [lower(graph, plan).program(rank) for rank in range(2)]
    verify_programs(programs)
    assert len({program.digest for program in programs}) == 1

    # run: on two processes as on one device, and on from a checkpoint under another plan
    plans, folder = [plan, frontier.fastest()], tmp_path / "saved"
    for trained in gw.launch(2)(train, plans, str(folder)):
        torch.testing.assert_close(trained, expected, rtol=1e-9, atol=1e-9)
    assert latest(folder).name == "000002-step-4"

    # report
    assert to_dict(graph)["parameters"] == 6 * 8 + 8 + 8 * 3 + 3
