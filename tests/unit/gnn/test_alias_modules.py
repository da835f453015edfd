"""Modules for sampling, loading and data have DGL's names."""

import subprocess
import sys

PROGRAM = """
import sys
import graphwright.gnn
sys.modules["dgl"] = graphwright.gnn

import dgl, torch
import dgl.sampling, dgl.transforms as T, dgl.distributed
from dgl.data import DGLDataset, CSVDataset, CoraGraphDataset, MiniGCDataset, KarateClubDataset
from dgl.data.utils import save_graphs, load_graphs, save_info, load_info, makedirs
from dgl.dataloading import DataLoader, GraphDataLoader, NeighborSampler, MultiLayerFullNeighborSampler
from dgl.dataloading.negative_sampler import Uniform
from dgl.nn.pytorch.link import TransE
from dgl.nn.pytorch.factory import KNNGraph
from dgl.nn.pytorch.conv import EdgeGATConv
import graphwright.gnn.dataloading
assert TransE is dgl.nn.TransE and KNNGraph is dgl.nn.KNNGraph
assert DataLoader is graphwright.gnn.dataloading.DataLoader
g = KarateClubDataset(transform=T.Compose([T.AddSelfLoop()]))[0]
assert isinstance(g, dgl.DGLGraph) and g.num_edges() == 190
assert dgl.sampling.random_walk(g, torch.tensor([0]), length=3)[0].shape == (1, 4)
assert dgl.dataloading.negative_sampler.Uniform is Uniform and callable(dgl.distributed.load_partition)
print("same")
"""


def test_modules_under_an_alias_are_the_same_modules():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout == "same\n", done.stderr
