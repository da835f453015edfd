"""Plan a model for sixteen GPUs, choose under a memory limit, explain the plan, and profile it."""

import tempfile
from pathlib import Path

import torch
from rich.console import Console

import graphwright as gw
from graphwright.ir import format_bytes
from graphwright.report import explain_plan, show

model = torch.nn.Sequential(
    torch.nn.Linear(256, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 4096), torch.nn.ReLU(),
    torch.nn.Linear(4096, 10),
)  # fmt: skip
batch = (torch.randn(512, 256), torch.randint(10, (512,)))
graph = gw.capture(model, torch.nn.functional.cross_entropy, batch, optimizer=torch.optim.Adam)

frontier = gw.plan(graph, "v100-2x8")  # every worthwhile trade-off between time and memory
print(frontier)

half = (frontier.smallest().figures.memory + frontier.fastest().figures.memory) // 2
plan = frontier.fastest(memory=half)  # or "14.5GB"
print(f"within {format_bytes(half)}: {plan}")

found = explain_plan(graph, plan)  # what each operator does, and what the next best would cost
show(found, Console(width=100), title="the model")

print(gw.profile(graph, "v100-2x8", devices=(1, 4, 8, 16), baselines=("data",)))

with tempfile.TemporaryDirectory() as folder:
    frontier.save(Path(folder) / "frontier.json")  # gw.Frontier.load reads it
    gw.plot(frontier, Path(folder) / "frontier.png")
    gw.plot((graph, plan), Path(folder) / "partition.svg")  # which device holds which tile
    gw.simulate(graph, plan).save(Path(folder) / "timeline.json")  # for ui.perfetto.dev
