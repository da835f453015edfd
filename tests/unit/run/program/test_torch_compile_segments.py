"""A program whose computing is compiled: the same values, and everything else as it was."""

import torch
from torch import fx, nn

from graphwright.aten.replay import bind
from graphwright.capture import capture
from graphwright.lower import lower
from graphwright.machine import cluster
from graphwright.partition import data_parallel
from graphwright.run.program.module import build_module, run_module
from graphwright.run.program.regions import own_memory, take
from graphwright.run.program.torch_compile import compile_segments


def programs():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 3)).double()
    batch = torch.randn(5, 6, dtype=torch.float64), torch.randint(0, 3, (5,))
    graph = capture(model, nn.functional.cross_entropy, batch, optimizer=torch.optim.Adam)
    module = build_module(
        lower(graph, data_parallel(graph, cluster("local:1"))).program(0),
        None,
        torch.device("cpu"),
    )
    inputs = bind(graph, model, batch, optimizer=torch.optim.Adam)
    return module, inputs


def test_compiled_segments_compute_the_same():
    module, inputs = programs()
    compiled = compile_segments(module, backend="aot_eager")
    held, again = dict(inputs), dict(inputs)
    for step in range(3):
        updates, results = run_module(module, {n: t.clone() for n, t in held.items()}, step)
        found, others = run_module(compiled, {n: t.clone() for n, t in again.items()}, step)
        held |= updates
        again |= found
        assert updates.keys() == found.keys() and results.keys() == others.keys()
        for name, value in (updates | results).items():
            torch.testing.assert_close((found | others)[name], value, rtol=1e-12, atol=1e-12)


def test_what_reaches_outside_stays_and_keeps_its_order():
    module, _ = programs()
    compiled = compile_segments(module, backend="aot_eager")
    outside = [n.target for n in module.graph.nodes if n.target in (take, own_memory)]
    kept = []
    for node in compiled.graph.nodes:
        child = compiled.get_submodule(node.target) if node.op == "call_module" else None
        if isinstance(child, fx.GraphModule):
            kept += [n.target for n in child.graph.nodes if n.target in (take, own_memory)]
    assert kept == outside
    assert any(not isinstance(c, fx.GraphModule) for c in compiled.children())
