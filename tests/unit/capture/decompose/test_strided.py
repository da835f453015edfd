"""Views by strides become slices and permutations, whatever lies how in memory."""

import pytest
import torch
from torch import nn

from eager import assert_trains_alike
from graphwright.capture import bind, capture, replay


class Pooled(nn.Module):
    """Features of each pixel, made in channels-last order, and their mean over the image."""

    def __init__(self):
        super().__init__()
        self.layer, self.pool, self.head = nn.Linear(3, 8), nn.AdaptiveAvgPool2d(1), nn.Linear(8, 5)

    def forward(self, x):
        pixels = self.layer(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.head(self.pool(pixels).flatten(1))


def test_pooling_in_channels_last_order():
    torch.manual_seed(0)
    batch = torch.randn(4, 3, 6, 6).double(), torch.randint(5, (4,))
    model, loss_fn = Pooled().double(), nn.functional.cross_entropy
    graph = assert_trains_alike(model, loss_fn, batch, torch.optim.SGD, {"lr": 0.1})
    assert not [node.op for node in graph.nodes if "strided" in node.op]


LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.t(),
    "last rows": lambda x: x[2:],
}
VIEWS = {
    "all": ((4, 6), (6, 1), None),
    "transposed": ((6, 4), (1, 6), None),
    "some": ((2, 3), (3, 1), None),
    "shifted": ((2, 3), (3, 1), 13),
    "with ones": ((1, 4, 1, 3), (7, 3, 9, 1), None),
    "with gaps": ((2, 3), (6, 2), None),
    "again and again": ((3, 4), (0, 1), None),
    "overlapping": ((3, 4), (2, 1), 12),
}


class Viewed(nn.Module):
    def __init__(self, layout, view):
        super().__init__()
        self.layout, self.view = LAYOUTS[layout], VIEWS[view]
        self.weight = nn.Parameter(torch.arange(48.0).view(8, 6).double())

    def forward(self, x):
        laid = self.layout(self.weight * x)
        size, stride, offset = self.view
        return torch.as_strided(laid, size, stride, offset).sin()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("view", VIEWS)
def test_elements_and_gradients(layout, view):
    torch.manual_seed(0)
    model = Viewed(layout, view)
    batch = torch.randn(8, 6).double(), torch.randn(VIEWS[view][0]).double()
    assert_trains_alike(model, nn.functional.mse_loss, batch, torch.optim.SGD, {"lr": 0.1})


def test_a_scatter_by_strides():
    class Written(nn.Module):
        def forward(self, x):
            return torch.as_strided_scatter(x, x[:2, :3] * 2, (2, 3), (3, 1), 5)

    x = torch.randn(4, 6)
    graph = capture(Written(), inputs=(x,))
    assert [n.op for n in graph.nodes if "strided" in n.op] == []
    (made,) = replay(graph, bind(graph, Written(), inputs=(x,))).values()
    assert torch.equal(made, Written()(x))
