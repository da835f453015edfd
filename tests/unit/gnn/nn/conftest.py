"""A graph with parallel edges and loops, its features, and how layers are compared with formulas."""

import pytest
import torch

import graphwright.gnn as dgl

SIZE = 7


@pytest.fixture
def multigraph():
    draw = torch.Generator().manual_seed(0)
    src = torch.cat([torch.randint(SIZE, (20,), generator=draw), torch.arange(SIZE)])
    dst = torch.cat([torch.randint(SIZE, (20,), generator=draw), torch.arange(SIZE)])
    return dgl.graph((src, dst), num_nodes=SIZE)


@pytest.fixture
def features():
    """Random features that want gradients, by shape."""
    draw = torch.Generator().manual_seed(1)
    return lambda *shape: torch.randn(shape, generator=draw, requires_grad=True)


@pytest.fixture
def agree():
    """Checks that two results are equal, and their gradients for some tensors."""

    def check(made, expected, *inputs):
        torch.testing.assert_close(made, expected, rtol=1e-4, atol=1e-5)
        weight = torch.linspace(0.5, 1.5, made.numel()).reshape(made.shape)
        for tensor in inputs:
            mine, other = (
                torch.autograd.grad((out * weight).sum(), tensor, retain_graph=True)[0]
                for out in (made, expected)
            )
            torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-4)

    return check
