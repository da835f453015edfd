"""Train a model in a third of the memory that its step needs, with the same result."""

import copy
import tempfile
from pathlib import Path

import torch

import graphwright as gw
from graphwright.ir import format_bytes

torch.manual_seed(0)
layers = [(torch.nn.Linear(128, 128), torch.nn.GELU()) for _ in range(6)]
model = torch.nn.Sequential(*sum(layers, ()), torch.nn.Linear(128, 10))
batch = (torch.randn(256, 128), torch.randint(10, (256,)))
loss_fn = torch.nn.functional.cross_entropy
graph = gw.capture(model, loss_fn, batch, optimizer=torch.optim.SGD)

needs = gw.swap(graph, "1GB", search="greedy").needs
plan = gw.swap(graph, memory=needs // 3, budget=1.0)  # what waits on the host, and when it moves
print(f"the step needs {format_bytes(needs)}; in {format_bytes(plan.plan.arena)}: {plan}")
print({search: f"{time * 1e3:.3g} ms" for search, time in plan.times.items()})

step = plan.compile(copy.deepcopy(model), loss_fn, torch.optim.SGD, device="cpu")
optimizer = torch.optim.SGD(model.parameters())
for _ in range(3):
    swapped = step(batch)
    optimizer.zero_grad()
    eager = loss_fn(model(batch[0]), batch[1])
    eager.backward()
    optimizer.step()
    print(f"loss {swapped:.6f}, without swapping {eager.detach():.6f}")

with tempfile.TemporaryDirectory() as folder:
    plan.save(Path(folder) / "memory.json")  # gw.swap(graph, plan="memory.json") reads it
    plan.timeline.save(Path(folder) / "streams.png")  # three streams, and memory over time
