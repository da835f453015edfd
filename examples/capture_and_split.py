"""Capture the training step of a small transformer block, and list the splits of its operators."""

import torch
from torch import nn

import graphwright as gw
from graphwright.describe import node_splits


class Block(nn.Module):
    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed, _ = self.attention(x, x, x, need_weights=False)
        return self.mlp(self.norm(x + mixed))


def main() -> None:
    batch = (torch.randn(8, 16, 64), torch.randn(8, 16, 64))
    graph = gw.capture(Block(), nn.functional.mse_loss, batch, optimizer=torch.optim.AdamW)
    print(graph)
    for node in graph.nodes:
        if node.op in ("aten.matmul", "aten.mm", "aten.view") and node.phase == "forward":
            splits = "; ".join(map(str, node_splits(graph, node)))
            print(f"{node.op:12} {node.module:20} {splits}")


if __name__ == "__main__":
    main()
