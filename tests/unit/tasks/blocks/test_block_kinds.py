"""A new kind of block, from its dataclass, one line in KINDS and one case of lowering to a schedule,
a change, an order and programs that run.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import torch

from graphwright.lower import lower
from graphwright.lower.lowering import Lowering
from graphwright.lower.order import find_waits
from graphwright.machine import PICOSECONDS, cluster
from graphwright.plans import (
    KINDS,
    Call,
    Mesh,
    Operand,
    Strategy,
    device_array,
    local_bytes,
    make_plan,
)
from graphwright.run.program import build_module, run_module
from graphwright.simulate import CostModel, Incremental, memory, schedule
from graphwright.tasks import Copy, Expansion, GraphFacts, Tasks, assemble, assemble_blocks, blocks
from graphwright.tasks.blocks import block, find_moves, graph  # fmt: skip
from graphwright.tasks.blocks import memory as block_memory
from programs import check_programs
from random_plans import chain, zoo_graph

ON_HOST = 2  # a turn: the copy lies in the memory of the host
COSTS = CostModel(measured=False)
FOUR = cluster("v100-2x8").resized({"node": 1, "gpu": 4})


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCopy:
    """A tensor copied to the memory of the host when it has been made."""

    source: Copy
    node: int
    tasks: Tasks

    label = property(lambda self: f"%{self.source.tensor} to the host")
    name = property(lambda self: self.source._replace(turn=ON_HOST))
    key = property(lambda self: block.first_key(block.node_position(self.node), 1 << 25))
    edges = property(lambda self: block.NO_PAIRS)
    stages = property(lambda self: ((0, self.tasks.num_tasks),))
    reads = property(lambda self: ((self.source, block.every_place(self.tasks.num_tasks)),))
    after = ()
    reads_from = property(lambda self: (self.tasks.device, np.arange(self.tasks.num_tasks)))
    works_on = reads_from

    def gives(self, copy):
        return block.every_place(self.tasks.num_tasks)

    def keeps(self, copy):
        return None

    def hold(self, memory):
        tasks = memory.first[self.name] + np.arange(self.tasks.num_tasks, dtype=np.int32)
        memory.used.add(memory.values_of[self.source], tasks)
        memory.values_of[self.name] = np.full(len(tasks), block_memory.NO_VALUE, np.int32)


def find_host_copies(x, tensor):
    """One of the first result of every node other than a view."""
    made = x.facts.producer.get(tensor)
    if made is None or made[1] or x.facts.is_view[made[0]]:
        return []
    source = x.source(tensor)
    tasks = copy_tasks(x.cluster, source, x.facts.graph.tensors[tensor].type)
    return [HostCopy(source=Copy(tensor, source, 0), node=made[0], tasks=tasks)]


@Lowering.act.register
def _(self, block: HostCopy, action, number):
    if self.is_in(block.source.sharding):
        self.wait(number)
        value = self.value(block.source)
        copied = self.new_value(self.types[value])
        self.copies[block.name] = copied
        given = (Operand(value=value),)
        self.emit(
            Call(node=block.label, op="aten.clone", attrs={}, inputs=given, outputs=(copied,))
        )


@cache
def copy_tasks(on, source, type):
    nbytes, count = local_bytes(source, type), len(source.mesh)
    routes = [on.to_host(device) for device in source.mesh.devices]
    seconds = [r.latency + n / r.bandwidth for r, n in zip(routes, nbytes, strict=True)]
    return Tasks(
        kind=np.full(count, KINDS.index("send"), np.uint8),
        duration=np.array([round(s * PICOSECONDS) for s in seconds], np.int64),
        device=device_array(source.mesh),
        nbytes=nbytes,
        resource_ptr=np.arange(count + 1, dtype=np.int64),
        resource=np.array([r.resources[0] for r in routes], np.int32),
        load=nbytes,
    )


@pytest.fixture(autouse=True)
def _host_copies(monkeypatch):
    monkeypatch.setattr(graph, "KINDS", (find_moves, find_host_copies))


def split(graph):
    strategies = {node.name: Strategy(("i", "i")) for node in graph.nodes}
    return make_plan(graph, FOUR, strategies)


def test_it_is_assembled_and_scheduled():
    made = chain(3, size=512)
    tasks = assemble(Expansion(GraphFacts(made), split(made), COSTS))
    times = schedule(tasks)
    names = np.array(tasks.resource_names)[tasks.resource]
    copies = np.flatnonzero([name.endswith("to-host") for name in names])
    assert sorted(names[copies]) == sorted(f"gpu {d} to-host" for d in range(4) for _ in range(3))
    nbytes = 512 * 512 * 4 // 4
    assert set(tasks.duration[copies]) == {round((10e-6 + nbytes / 12e9) * PICOSECONDS)}
    for task in copies:
        tensor = tasks.labels[tasks.node[task]].split()[0].removeprefix("%")
        node = [n.outputs[0] for n in made.nodes].index(tensor)
        (part,) = np.flatnonzero(
            (tasks.kind == 0) & (tasks.node == node) & (tasks.device == tasks.device[task])
        )
        assert times.start[task] >= times.end[part]
    first = copies[tasks.device[copies] == 0]
    assert (np.diff(times.start[first]) >= tasks.duration[first[0]]).all()  # one after the other
    held = memory(tasks, times)
    last_use = held.death[tasks.values.use_value[np.isin(tasks.values.use_task, copies)]]
    assert (last_use >= times.end[copies].min()).all()


def test_the_incremental_simulation_follows_it():
    made = zoo_graph("mlp")
    plan = make_plan(made, FOUR, {})
    run = Incremental(made, plan, COSTS)
    for node in made.nodes[:: len(made.nodes) // 8]:
        changes = {node.name: Strategy(("-",), Mesh((1, 2), (2,)))}
        seconds = run.propose(changes)
        run.accept()
        tasks = assemble(Expansion(run.expansion.facts, run.plan(), COSTS))
        assert seconds == schedule(tasks).makespan / PICOSECONDS


def test_it_has_its_place_in_the_order():
    made = chain(3, size=512)
    own = blocks(Expansion(GraphFacts(made), split(made), COSTS))
    tasks = assemble_blocks(own)
    waits = find_waits(own, tasks, schedule(tasks), small=0.0)
    order = [waits.actions[a].block for a in waits.order()]
    assert sum(isinstance(b, HostCopy) for b in order) == 3
    place = {b.name: at for at, b in enumerate(order)}
    assert all(place[b.name] > place[b.node] for b in order if isinstance(b, HostCopy))


def test_programs_have_its_instructions():
    made = zoo_graph("mlp")
    programs = check_programs(lower(made, make_plan(made, FOUR, {})))
    for program in programs:
        makers = {v: i for i in program.instructions for v in getattr(i, "outputs", ())}
        copies = [i for i in program.instructions if getattr(i, "op", "") == "aten.clone"]
        assert copies
        for copy in copies:
            maker = makers[copy.inputs[0].value]
            assert program.instructions.index(maker) < program.instructions.index(copy)
            assert copy.node == f"%{maker.node} to the host"


def test_its_programs_run():
    made = chain(3, size=8)
    program = lower(made, make_plan(made, FOUR, {})).program(0)
    x, w = torch.randn(2, 8, 8)
    _, results = run_module(build_module(program, None, torch.device("cpu")), {"x": x, "w": w}, 0)
    torch.testing.assert_close(results[made.outputs[0]], x @ w @ w @ w)
    assert [i.op for i in program.instructions if isinstance(i, Call)].count("aten.clone") == 3
