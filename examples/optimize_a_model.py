"""Make a model faster for inference: branches of one input become one convolution.

python examples/optimize_a_model.py
"""

import torch
from torch import Tensor, nn

import graphwright as gw


class Branches(nn.Module):
    """Three convolutions of one image, each with its norm and activation, joined."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            nn.Sequential(nn.Conv2d(16, width, 1), nn.BatchNorm2d(width), nn.ReLU())
            for width in (8, 16, 24)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


def main() -> None:
    torch.manual_seed(0)
    model, image = Branches().eval(), torch.randn(1, 16, 28, 28)
    fast = gw.optimize(model, image, prices="roofline", budget=100)  # the same on every machine
    print(fast.report)
    for node in fast.graph.nodes:
        print(f"  {node.op:<16} {fast.graph.tensors[node.name].type}")
    assert torch.allclose(fast(image), model(image), atol=1e-5)


if __name__ == "__main__":
    main()
