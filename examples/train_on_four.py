"""Train on four processes of this machine, and get the same losses as on one device."""

import tempfile

import torch
from torch import nn

import graphwright as gw

STEPS = 4


def make() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 10)).double()
    return model, (torch.randn(32, 64).double(), torch.randint(10, (32,)))


def train(plan: gw.Plan, steps: int, folder: str, resume: bool) -> tuple[list[float], str]:
    """Run in every worker; `step.world` has its rank."""
    model, batch = make()
    step = gw.compile(plan, model, nn.functional.cross_entropy, torch.optim.Adam, batch=batch)
    if resume:
        step.load(folder)
    losses = [step(batch).item() for _ in range(steps)]
    step.save(folder)
    held = sum(shard.local.numel() for shard in step.shards().values())
    return losses, f"rank {step.world.rank} holds {held:,} numbers"


def train_on_one_device(steps: int) -> list[float]:
    model, (inputs, targets) = make()
    optimizer, losses = torch.optim.Adam(model.parameters()), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    model, batch = make()
    graph = gw.capture(model, nn.functional.cross_entropy, batch, optimizer=torch.optim.Adam)
    plan = gw.plan(graph, "local:4", objective="memory")  # the plan that needs the least memory
    print(plan)
    with tempfile.TemporaryDirectory() as folder:
        results = gw.launch(4)(train, plan, STEPS, folder, False)
        for _, held in results:
            print(held)
        fewer = gw.plan(graph, "local:2", objective="time")  # another plan for fewer workers
        more = gw.launch(2)(train, fewer, STEPS, folder, True)  # resumes from the checkpoint
    losses = results[0][0] + more[0][0]
    for loss, expected in zip(losses, train_on_one_device(2 * STEPS), strict=True):
        print(f"loss {loss:.12f}, on one device {expected:.12f}")
        assert abs(loss - expected) < 1e-10


if __name__ == "__main__":
    main()
