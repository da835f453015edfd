"""Train three steps by replaying a captured graph, and compare with PyTorch's training loop."""

import torch
from torch import nn

import graphwright as gw
from graphwright.capture import advance, bind, replay


def make() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 10),
    )
    return model.double(), (torch.randn(16, 3, 8, 8).double(), torch.randint(10, (16,)))


def main() -> None:
    model, batch = make()
    graph = gw.capture(model, nn.functional.cross_entropy, batch, optimizer=torch.optim.Adam)
    values = bind(graph, model, batch, optimizer=torch.optim.Adam)
    eager = torch.optim.Adam(model.parameters())
    for step in range(3):
        made = replay(graph, values)
        eager.zero_grad()
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        eager.step()
        print(f"step {step}: graph {made['loss'].item():.12f}, eager {loss.item():.12f}")
        assert torch.allclose(made["loss"], loss, rtol=1e-9)
        values = advance(graph, values, made)


if __name__ == "__main__":
    main()
