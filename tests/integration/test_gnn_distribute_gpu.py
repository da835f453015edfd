"""Full-graph training on GPUs, one for each worker: the same as on one processor."""

import copy

import pytest
import torch

import graphwright.gnn as dgl
from gnn_parts import MODELS, add_features, largest_difference, sgd, train_whole

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="two workers need a GPU each")


@pytest.mark.parametrize("name", ["gcn", "gin", "gat", "sage pool", "deep residual gcn"])
def test_two_gpus_train_as_one_processor(name):
    g = add_features(dgl.data.rmat(8, 2500, seed=5), 0, torch.float64)
    torch.manual_seed(1)
    model = MODELS[name]().double()
    whole = copy.deepcopy(model)
    expected = train_whole(whole, g, 5)
    trained = dgl.distribute(model, g, workers=2, epochs=5, optimizer=sgd)
    torch.testing.assert_close(trained.losses, expected, rtol=1e-9, atol=1e-9)
    assert largest_difference(model.cpu(), whole) < 1e-9
