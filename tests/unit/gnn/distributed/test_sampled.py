"""Mini-batches: with all edges and all seeds they are the whole graph; otherwise they obey their fan-outs."""

import copy

import pytest
import torch

import graphwright.gnn as dgl
from gnn_parts import add_features, largest_difference, sage, sgd, train_whole
from graphwright.gnn.distributed.training import (
    GraphStore,
    InvalidTraining,
    Problem,
    SampledTrainer,
    Sampling,
    cut_part,
)
from graphwright.run import RowLinks
from threads import run_all


def make_trainer(model, g, rank, size, links, sampling):
    store, rows = GraphStore.of(g), RowLinks(rank, size, links)
    problem = Problem(masks={"train": "train_mask"}, optimizer=sgd)
    trainer = SampledTrainer(model, rows, problem, store, sampling, seed=3)
    count = g.num_nodes()
    bounds = tuple(count * number // size for number in range(size + 1))
    trainer.take(cut_part(store, bounds, rows, torch.device("cpu")))
    return trainer


def test_all_edges_of_all_seeds_are_the_whole_graph():
    g = add_features(dgl.data.rmat(6, 400, seed=1), 0, torch.float64)
    torch.manual_seed(0)
    model = sage().double()
    whole = copy.deepcopy(model)
    expected = train_whole(whole, g, 3)

    def work(rank, links):
        own = copy.deepcopy(model)
        sampling = Sampling(fanouts=(-1, -1), batch_size=1000)
        trainer = make_trainer(own, g, rank, 2, links, sampling)
        return [trainer.step() for _ in range(3)], own

    for losses, own in run_all(2, work):
        torch.testing.assert_close(losses, expected, rtol=1e-10, atol=1e-10)
        assert largest_difference(own, whole) < 1e-10


def test_a_subgraph_has_real_edges_and_no_more_than_its_fan_outs():
    g = add_features(dgl.data.rmat(7, 3000, seed=2), 0, torch.float32)
    trainer = make_trainer(sage(), g, 0, 1, None, Sampling(fanouts=(3, 2), batch_size=8))
    seeds = torch.tensor([5, 9, 11, 64])
    made = trainer.subgraph(seeds)
    nodes, edges = made.ndata[dgl.NID], made.edata[dgl.EID]
    assert nodes[:4].tolist() == seeds.tolist()
    assert len(set(nodes.tolist())) == len(nodes)
    src, dst = made.edges()
    assert torch.equal(torch.stack(g.find_edges(edges)), torch.stack([nodes[src], nodes[dst]]))
    assert len(set(edges.tolist())) == len(edges)
    limits = torch.minimum(g.in_degrees(nodes), torch.tensor([2] * 4 + [3] * (len(nodes) - 4)))
    drawn = made.in_degrees()
    near = torch.unique(src[dst < 4])  # what the seeds' edges come from has edges of its own
    assert torch.equal(drawn[:4], limits[:4])
    assert torch.equal(drawn[near], limits[near])
    assert made.num_expanded == len(torch.unique(torch.cat([torch.arange(4), near])))
    assert torch.equal(made.edata["w"], g.edata["w"][edges])
    assert torch.equal(made.ndata["feat"], g.ndata["feat"][nodes])


@pytest.mark.parametrize(("fanouts", "batch_size"), [((), 8), ((3, 0), 8), ((-2,), 8), ((3,), 0)])
def test_sampling_that_draws_nothing(fanouts, batch_size):
    with pytest.raises(InvalidTraining, match="give a fan-out from 1 upwards"):
        Sampling(fanouts=fanouts, batch_size=batch_size)
