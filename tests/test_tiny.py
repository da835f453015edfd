"""One tiny model through every stage, in seconds: the first test to run, and the first to read."""

import torch

import graphwright as gw
from graphwright import ir
from graphwright.capture import advance, bind
from graphwright.describe import cost, is_described, node_splits, properties, sample_dims, soap
from graphwright.partition import data_parallel
from graphwright.plans import Strategy
from graphwright.report import summary_dict
from graphwright.run import check_operator
from graphwright.simulate import CostModel, Incremental


def test_every_stage(tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)
    ).double()
    batch = (torch.randn(4, 6).double(), torch.randint(3, (4,)))
    loss_fn = torch.nn.functional.cross_entropy

    # capture: the whole step as a valid graph, that survives being printed and saved
    graph = gw.capture(model, loss_fn, batch, optimizer=torch.optim.Adam)
    gw.verify(graph)
    gw.save(graph, tmp_path / "step.json")
    assert gw.load(tmp_path / "step.json") == graph
    assert ir.parse_text(ir.to_text(graph)).hash == graph.hash

    # replay: two steps that equal PyTorch's own
    values = bind(graph, model, batch, optimizer=torch.optim.Adam)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        made = gw.replay(graph, values)
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        torch.testing.assert_close(made["loss"], loss, rtol=1e-9, atol=1e-9)
        values = advance(graph, values, made)

    # describe: every operator is known, and splits
    samples = sample_dims(graph)
    for node in graph.nodes:
        types = gw.types_of(graph, node)
        assert is_described(node.op), node.op
        assert properties(node.op, node.attrs, types)
        assert cost(node.op, node.attrs, types).bytes >= 0
        for split in node_splits(graph, node):
            assert soap(split, node, graph, samples)
            assert len(split.parts(2)) == 2
    product = next(node for node in graph.nodes if node.op == "aten.mm")
    assert [split.index for split in node_splits(graph, product)] == ["i", "j", "k"]

    # simulate: split over the samples on eight devices, changed in one operator, timed both ways
    plan = data_parallel(graph, "dgx-h100")
    timeline = gw.simulate(graph, plan)
    timeline.save(tmp_path / "step.trace.json")
    assert timeline.fits
    assert timeline.makespan > max(timeline.busy) / 2
    run = Incremental(graph, plan, CostModel())
    found = run.propose({product.name: Strategy(("j", "-", "-"))})
    run.accept()
    assert found == gw.simulate(graph, run.plan()).makespan

    # run: the description is true for the real kernel
    assert check_operator("aten.mm", {}, [batch[0], torch.randn(6, 8).double()])

    # report
    assert summary_dict(graph)["parameters"] == 6 * 8 + 8 + 8 * 3 + 3
