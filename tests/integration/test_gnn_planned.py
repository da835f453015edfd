"""A step of a graph network on a fixed graph is captured, planned and trained by two workers as on one device."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import graphwright as gw
import graphwright.gnn as dgl
from graphwright.describe import node_splits
from graphwright.gnn.nn import GATConv, GraphConv, SAGEConv
from graphwright.plans import make_plan

NODES, EDGES, FEATURES, CLASSES = 60, 400, 8, 4
LAYERS = {
    "gcn": lambda a, b: GraphConv(a, b, allow_zero_in_degree=True),
    "gat": lambda a, b: GATConv(a, b // 2, 2, allow_zero_in_degree=True),
    "sage": lambda a, b: SAGEConv(a, b, "pool"),
}


class Model(nn.Module):
    def __init__(self, graph, layer):
        super().__init__()
        self.graph = graph
        self.first, self.second = LAYERS[layer](FEATURES, 16), LAYERS[layer](16, CLASSES)

    def forward(self, x):
        return self.second(self.graph, F.relu(self.first(self.graph, x).flatten(1))).flatten(1)


def make(layer):
    generator = torch.Generator().manual_seed(0)
    src, dst = torch.randint(NODES, (2, EDGES), generator=generator)
    torch.manual_seed(0)
    model = Model(dgl.graph((src, dst), num_nodes=NODES), layer).double()
    return model, (torch.randn(NODES, FEATURES).double(), torch.randint(CLASSES, (NODES,)))


def capture(layer):
    model, batch = make(layer)
    return gw.capture(model, F.cross_entropy, batch, optimizer=torch.optim.Adam)


def messages(graph):
    return [node for node in graph.nodes if node.op.startswith("graphwright.message")]


def train(plan, layer):
    model, batch = make(layer)
    step = gw.compile(plan, model, F.cross_entropy, torch.optim.Adam, batch=batch)
    return [step(batch).item() for _ in range(4)]


def train_alone(layer):
    model, (x, y) = make(layer)
    optimizer, losses = torch.optim.Adam(model.parameters()), []
    for _ in range(4):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("layer", LAYERS)
def test_messages_are_operators_of_the_graph(layer):
    phases = {node.phase.value for node in messages(capture(layer))}
    # The gradient of a maximum is a lookup and a scatter, which PyTorch has.
    assert phases == ({"forward"} if layer == "sage" else {"forward", "backward"})


@pytest.mark.parametrize("index", ["row", "i0", "e"])
def test_two_workers_train_as_one(index):
    graph = capture("gcn")
    strategies = {
        node.name: index
        for node in messages(graph)
        if any(split.index == index for split in node_splits(graph, node))
    }
    assert strategies
    plan = make_plan(graph, gw.cluster("local:2"), strategies, algorithm=index)
    for losses in gw.launch(2)(train, plan, "gcn"):
        torch.testing.assert_close(losses, train_alone("gcn"), rtol=1e-12, atol=0)
