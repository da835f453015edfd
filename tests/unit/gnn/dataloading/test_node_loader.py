"""Loaders: the same mini-batches whatever the workers, every index once, features where they belong."""

import pytest
import torch
import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler

import graphwright.gnn as dgl
from graphwright.gnn import DGLError
from graphwright.gnn.dataloading import (
    ClusterGCNSampler,
    DataLoader,
    GraphDataLoader,
    MultiLayerFullNeighborSampler,
    NeighborSampler,
    Sampler,
    as_edge_prediction_sampler,
    negative_sampler,
)
from graphwright.gnn.dataloading.batches import Batches
from graphwright.gnn.dataloading.transfer import attach, detach, move


def ring(count=40):
    src = torch.arange(count).repeat_interleave(3)
    g = dgl.graph((src, (src + torch.tensor([1, 2, 5]).repeat(count)) % count))
    g.ndata["feat"] = torch.arange(count).float()[:, None].expand(count, 4).clone()
    g.ndata["label"] = torch.arange(count) % 3
    g.edata["w"] = torch.rand(g.num_edges())
    return g


def contents(batch):
    inputs, outputs, blocks = batch
    return [inputs.tolist(), outputs.tolist(), *([e.tolist() for e in b.edges()] for b in blocks)]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("thread", [False, True])
def test_every_seed_once_and_the_same_whatever_the_workers(workers, thread):
    g = ring()
    seeds = torch.arange(0, 40, 2)

    def epoch(num_workers, use_prefetch_thread):
        dgl.seed(3)
        torch.manual_seed(3)
        loader = DataLoader(
            g, seeds, NeighborSampler([2, 1]), batch_size=6, shuffle=True, num_workers=num_workers,
            use_prefetch_thread=use_prefetch_thread,
        )  # fmt: skip
        assert len(loader) == 4
        return [contents(batch) for _ in range(2) for batch in loader]

    found = epoch(workers, thread)
    assert found == epoch(0, False)
    assert sorted(v for batch in found[:4] for v in batch[1]) == seeds.tolist()
    assert [len(batch[1]) for batch in found[:4]] == [6, 6, 6, 2] and found[:4] != found[4:]


@pytest.mark.parametrize("workers", [0, 1])
def test_features_are_there_read_early_or_late(workers):
    g = ring()
    sampler = NeighborSampler([2, 2], prefetch_node_feats=["feat"], prefetch_labels=["label"])
    for inputs, outputs, blocks in DataLoader(
        g, g.nodes(), sampler, batch_size=16, num_workers=workers
    ):
        assert blocks[0].node_frame("_N", "src").columns["feat"].rows is None  # read in the worker
        assert blocks[0].srcdata["feat"].equal(g.ndata["feat"][inputs])
        assert blocks[-1].dstdata["label"].equal(g.ndata["label"][outputs])
        for block in blocks:
            assert block.edge_frame().columns["w"].rows is not None  # not read by anyone yet
            assert block.edata["w"].equal(g.edata["w"][block.edata[dgl.EID]])


def test_what_is_sent_holds_no_feature_of_the_whole_graph():
    g = ring()
    _, _, (block,) = MultiLayerFullNeighborSampler(1).sample(g, torch.arange(4))
    sent = detach([block], g)[0]
    values = [
        c.values for f in (*sent._node_frames, *sent._edge_frames) for c in f.columns.values()
    ]
    assert not any(v is w for v in values for w in (*g.ndata.values(), *g.edata.values()))
    assert attach([sent], g)[0].dstdata["feat"].tolist() == g.ndata["feat"][:4].tolist()


def test_features_move_to_a_device_when_they_are_read():
    g = ring()
    batch = MultiLayerFullNeighborSampler(1).sample(g, torch.arange(4))
    inputs, _, (block,) = move(batch, torch.device("meta"))
    assert inputs.device.type == block.device.type == "meta"
    column = block.node_frame("_N", "dst").columns["feat"]
    assert column.values.device.type == "cpu" and column.rows is not None
    assert block.dstdata["feat"].device.type == "meta" and block.dstdata["feat"].shape == (4, 4)
    assert move(batch, torch.device("cpu"))[2][0] is batch[2][0]


def test_indices_by_type_are_shuffled_together():
    g = dgl.heterograph(
        {("a", "x", "b"): ([0, 1, 2], [0, 1, 1]), ("b", "y", "a"): ([0, 1], [2, 0])}
    )
    torch.manual_seed(0)
    loader = DataLoader(
        g,
        {"a": torch.arange(3), "b": torch.arange(2)},
        MultiLayerFullNeighborSampler(2),
        batch_size=2,
        shuffle=True,
    )
    seen = {"a": [], "b": []}
    for _, outputs, blocks in loader:
        for ntype, ids in outputs.items():
            seen[ntype] += ids.tolist()
            assert blocks[-1].dstnodes[ntype].data[dgl.NID].equal(ids)
    assert sorted(seen["a"]) == [0, 1, 2] and sorted(seen["b"]) == [0, 1]


def test_dropping_the_last():
    loader = DataLoader(
        ring(), range(10), MultiLayerFullNeighborSampler(1), batch_size=4, drop_last=True
    )
    assert len(loader) == 2 and [len(out) for _, out, _ in loader] == [4, 4]


def test_a_sampler_of_one_s_own():
    class Mine(Sampler):
        def sample(self, g, indices):
            return {
                "nodes": indices,
                "graph": g.subgraph(indices)
                if hasattr(g, "subgraph")
                else dgl.node_subgraph(g, indices),
            }

    g = ring()
    batch = next(iter(DataLoader(g, g.nodes(), Mine(), batch_size=5, num_workers=1)))
    assert batch["graph"].ndata["feat"].equal(g.ndata["feat"][:5])


def test_an_error_of_the_sampler_reaches_the_user():
    class Broken(Sampler):
        def sample(self, g, indices):
            raise RuntimeError("no such luck")

    for thread in (False, True):
        with pytest.raises(RuntimeError, match="no such luck"):
            list(DataLoader(ring(), range(4), Broken(), use_prefetch_thread=thread))


def test_leaving_an_epoch_early_stops_the_thread():
    loader = iter(
        DataLoader(ring(), range(40), MultiLayerFullNeighborSampler(1), use_prefetch_thread=True)
    )
    next(loader)
    loader.close()


def test_ranks_share_the_indices_as_the_distributed_sampler_does():
    def order(rank, epoch):
        batches = Batches(11, 2, False, True, False, 0, None)
        batches.ranks = DistributedSampler(range(11), 3, rank, shuffle=True, seed=7)
        batches.ranks.set_epoch(epoch)
        assert len(batches) == 2
        return [place for _, _, places in batches for place in places.tolist()]

    parts = [order(rank, 0) for rank in range(3)]
    assert [len(part) for part in parts] == [4, 4, 4] and set().union(*parts) == set(range(11))
    assert order(0, 1) != parts[0]


def test_one_rank_of_a_process_group(tmp_path):
    dist.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    try:
        loader = DataLoader(
            ring(),
            range(10),
            MultiLayerFullNeighborSampler(1),
            use_ddp=True,
            batch_size=4,
            shuffle=True,
        )
        loader.set_epoch(1)
        first = [v for _, out, _ in loader for v in out.tolist()]
        loader.set_epoch(2)
        assert sorted(first) == list(range(10))
        assert first != [v for _, out, _ in loader for v in out.tolist()]
        graphs = GraphDataLoader([(ring(5), 0), (ring(6), 1)], use_ddp=True, batch_size=2)
        graphs.set_epoch(3)
        assert next(iter(graphs))[0].batch_size == 2
    finally:
        dist.destroy_process_group()


def test_clusters_are_mini_batches(tmp_path):
    g, path = ring(60), str(tmp_path / "clusters")
    sampler = ClusterGCNSampler(g, 4, path)
    loader = DataLoader(g, torch.arange(4), sampler, batch_size=2, shuffle=True)
    parts = list(loader)
    assert sorted(v for part in parts for v in part.ndata[dgl.NID].tolist()) == list(range(60))
    assert all(part.ndata["feat"].equal(g.ndata["feat"][part.ndata[dgl.NID]]) for part in parts)
    assert ClusterGCNSampler(g, 4, path).clusters.equal(sampler.clusters)
    with pytest.raises(DGLError, match="60 nodes, but the graph has 9"):
        ClusterGCNSampler(ring(9), 4, path)


def test_small_graphs_are_batched_within_samples():
    data = [(ring(3 + at), torch.tensor(at), {"n": at, "none": None}) for at in range(4)]
    batches = list(GraphDataLoader(data, batch_size=3))
    g, labels, more = batches[0]
    assert g.batch_num_nodes().tolist() == [3, 4, 5] and labels.tolist() == [0, 1, 2]
    assert more["n"].tolist() == [0, 1, 2] and more["none"] is None and len(batches) == 2


def test_link_prediction_in_workers():
    g = ring()
    sampler = as_edge_prediction_sampler(
        NeighborSampler([2]), negative_sampler=negative_sampler.Uniform(3)
    )
    for inputs, positive, negative, blocks in DataLoader(
        g, range(30), sampler, batch_size=10, num_workers=1
    ):
        assert positive.num_edges() == 10 and negative.num_edges() == 30
        assert blocks[-1].num_dst_nodes() == positive.num_nodes() == negative.num_nodes()
        assert positive.ndata["feat"].equal(g.ndata["feat"][positive.ndata[dgl.NID]])
        assert blocks[0].srcdata["feat"].equal(g.ndata["feat"][inputs])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: DataLoader(g, [0], object()), "needs a method sample"),
        (lambda g: DataLoader(g, [0], NeighborSampler([1]), batch_size=0), "at least 1"),
        (
            lambda g: DataLoader(g, torch.ones(40, dtype=torch.bool), NeighborSampler([1])),
            "turn a mask into ids",
        ),
        (
            lambda g: DataLoader(g, [0], NeighborSampler([1])).set_epoch(1),
            "only available when use_ddp",
        ),
        (lambda g: list(DataLoader(g, [99], NeighborSampler([1]))), "has id 99"),
        (lambda g: NeighborSampler([1], prob="a", mask="b"), "mutually exclusive"),
        (
            lambda g: list(DataLoader(g, [0], NeighborSampler([1], prefetch_node_feats=["x"]))),
            "no node feature 'x'",
        ),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(DGLError, match=message):
        call(ring())
