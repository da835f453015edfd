"""Simulate the time and memory of a training step on machines that you do not have."""

import tempfile
from pathlib import Path

import graphwright as gw
from graphwright import zoo
from graphwright.ir import format_bytes
from graphwright.partition import baseline
from graphwright.plans import on_one

graph = zoo.load("alexnet").capture()

for machine in ("p2.8xlarge", "dgx-1v", "dgx-h100"):
    cluster = gw.cluster(machine)
    for recipe in ("data", "layers"):
        timeline = gw.simulate(graph, baseline(recipe, graph, cluster))
        peak = format_bytes(int(timeline.memory.peak.max()))
        time = f"{timeline.makespan * 1e3:8.1f} ms"
        print(f"{machine:12} {recipe:8} {time}  {peak:>10} on the fullest device")

# Change the strategy of one operator, and simulate again.
cluster = gw.cluster("dgx-h100")
plan = baseline("data", graph, cluster)
last = next(node for node in reversed(graph.nodes) if node.module.endswith("classifier.6"))
moved = gw.simulate(graph, {**plan.strategies, last.name: on_one(0)}, cluster)
print(f"with {last.op} of {last.module} on one device: {moved.makespan * 1e3:.1f} ms")

with tempfile.TemporaryDirectory() as folder:
    moved.save(Path(folder) / "timeline.json")  # opens in ui.perfetto.dev
    plan.save(Path(folder) / "plan.json")
    print(gw.Plan.load(Path(folder) / "plan.json"))
