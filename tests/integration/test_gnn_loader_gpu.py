"""Mini-batches on a GPU: structure and features move there, from this process or from workers."""

import pytest
import torch

import graphwright.gnn as dgl
from graphwright.gnn.dataloading import DataLoader, NeighborSampler
from graphwright.gnn.sampling import random_walk

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("thread", [False, True])
def test_mini_batches_arrive_on_the_device(workers, thread):
    g = dgl.data.erdos_renyi(200, 0.05, seed=1)
    g.ndata["x"] = torch.randn(200, 8)
    sampler = NeighborSampler([4, 4], prefetch_node_feats=["x"])
    loader = DataLoader(
        g,
        g.nodes(),
        sampler,
        device="cuda",
        batch_size=32,
        num_workers=workers,
        use_prefetch_thread=thread,
    )
    for inputs, outputs, blocks in loader:
        assert inputs.is_cuda and outputs.is_cuda and blocks[0].device.type == "cuda"
        assert blocks[0].srcdata["x"].is_cuda
        assert blocks[0].srcdata["x"].cpu().equal(g.ndata["x"][inputs.cpu()])


def test_a_graph_on_a_gpu_is_sampled_as_on_the_processor():
    g = dgl.data.erdos_renyi(100, 0.1, seed=1)
    dgl.seed(1)
    here = dgl.sample_neighbors(g, g.nodes(), 3), random_walk(g, g.nodes(), length=4)[0]
    dgl.seed(1)
    there = g.to("cuda")
    sampled, walks = (
        dgl.sample_neighbors(there, there.nodes(), 3),
        random_walk(there, there.nodes(), length=4)[0],
    )
    assert sampled.edata[dgl.EID].is_cuda and sampled.edata[dgl.EID].cpu().equal(
        here[0].edata[dgl.EID]
    )
    assert walks.is_cuda and walks.cpu().equal(here[1])
    block = dgl.to_block(sampled, there.nodes())
    assert block.device.type == "cuda" and block.num_dst_nodes() == 100
