"""Timelines for tests: a small one by hand, and large ones of devices that train in lockstep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from graphwright.ir import Graph, Node, Phase, Tensor, TensorType
from graphwright.machine import Cluster, Device, Level
from graphwright.plans import KINDS, TaskGraph, Values
from graphwright.simulate.engine import schedule
from graphwright.simulate.memory import memory
from graphwright.simulate.timeline import Timeline
from task_graphs import lockstep, make_task_graph, make_values

US = 10**6  # picoseconds


def make_cluster(nodes: int, devices: int, memory: int = 1_000_000) -> Cluster:
    device = Device(name="toy", memory=memory, rates={"float32": 1e12}, bandwidth=1e11, launch=1e-6)
    levels = (
        Level(name="node", count=nodes, bandwidth=1e9, latency=1e-5),
        Level(name="gpu", count=devices, bandwidth=1e10, latency=1e-6),
    )
    return Cluster(name="toys", levels=levels, devices=(device,) * (nodes * devices))


def make_graph(num_nodes: int = 3) -> Graph:
    """Nodes of the three phases in turn; only their names and provenance matter here."""
    phases = [list(Phase)[at * 3 // num_nodes] for at in range(num_nodes)]
    nodes = tuple(
        Node(f"aten.{phase}", (), {}, (f"n{at}",), phase=phase, module=f"layer{at}")
        for at, phase in enumerate(phases)
    )
    scalar = TensorType((), "float32")
    tensors = {node.name: Tensor(node.name, scalar) for node in nodes}
    return Graph(nodes=nodes, tensors=tensors, inputs=(), outputs=(nodes[-1].name,))


def make_timeline(tasks: TaskGraph, cluster: Cluster, graph: Graph) -> Timeline:
    found = schedule(tasks)
    return Timeline(
        graph=graph,
        cluster=cluster,
        tasks=tasks,
        schedule=found,
        memory=memory(tasks, found),
        plan="by hand",
        seed=7,
    )


def small() -> Timeline:
    """Two devices, in microseconds; the third task queues behind the second, the last behind the transfer.

    gpu 0   |0: forward 10    |2: backward 5  |...............|4: update 2|
    gpu 1   |1: forward 4 |..................................|5: update 3|
    ports                                     |3: all_reduce 6|
    """
    tasks = make_task_graph(
        [10 * US, 4 * US, 5 * US, 6 * US, 2 * US, 3 * US],
        [(1, 2), (0, 3), (2, 3), (3, 4), (3, 5)],
        [[0], [1], [0], [4, 5, 6, 7], [0], [1]],
        num_resources=8,
        num_devices=2,
        values=make_values(
            [
                (100_000, 0, 0, True, [], []),
                (100_000, 1, 0, True, [], []),
                (400_000, 0, 3, False, [0], [2]),
                (150_000, 1, 1, False, [1], [5]),
            ]
        ),
    )
    kind = np.array([0, 0, 0, KINDS.index("all_reduce"), 0, 0], np.uint8)
    load = np.where(tasks.resource >= 4, 800, 0).astype(np.int64)
    tasks = replace(
        tasks,
        kind=kind,
        load=load,
        node=np.array([0, 0, 1, 0, 2, 2], np.int32),
        device=np.array([0, 1, 0, -1, 0, 1], np.int32),
        nbytes=np.where(kind > 0, 1_600, 0).astype(np.int64),
        labels=("%w.grad all_reduce",),
        resource_names=make_cluster(1, 2).resources,
    )
    return make_timeline(tasks, make_cluster(1, 2), make_graph())


def large(num_devices: int, num_steps: int, *, spread: int = 500) -> Timeline:
    """Devices in lockstep, an all-reduce on all ports after every fourth step; a value per task, freed much later."""
    nodes = max(1, num_devices // 8)
    cluster = make_cluster(nodes, num_devices // nodes, memory=20_000_000_000)
    tasks = lockstep(num_devices, num_steps, spread=spread)
    computes = np.diff(tasks.resource_ptr) == 1
    of_step = np.cumsum(computes) - 1
    step = of_step // num_devices
    device = np.where(computes, of_step % num_devices, -1).astype(np.int32)
    transfers = np.cumsum(~computes) - 1
    ports = tasks.resource >= num_devices
    first_port = cluster.resources.index("gpu 0 out") - num_devices
    resource = tasks.resource + np.where(ports, first_port, 0)
    resource = np.where(
        ports, num_devices + first_port + 2 * (tasks.resource - num_devices), resource
    )
    made = np.flatnonzero(computes)
    rng = np.random.default_rng(1)
    half = np.minimum(num_steps - 1, num_steps - 1 - step[made])
    used = made[np.clip(half * num_devices + device[made], 0, len(made) - 1)]
    values = Values(
        nbytes=rng.integers(1_000_000, 9_000_000, len(made)) * 1000 // num_steps,
        device=device[made],
        category=np.where(step[made] < num_steps // 2, 3, 1).astype(np.uint8),
        persistent=np.zeros(len(made), np.bool_),
        birth_value=np.arange(len(made), dtype=np.int32),
        birth_task=made.astype(np.int32),
        use_value=np.arange(len(made), dtype=np.int32),
        use_task=used.astype(np.int32),
    )
    tasks = replace(
        tasks,
        kind=np.where(computes, 0, 1 + transfers % 6).astype(np.uint8),
        node=np.where(computes, step, transfers).astype(np.int32),
        device=device,
        nbytes=np.where(computes, 0, 4_000_000).astype(np.int64),
        resource=resource.astype(np.int32),
        load=np.where(ports, 250_000, 0).astype(np.int64),
        labels=tuple(f"%g{at}" for at in range(int((~computes).sum()))),
        values=values,
        resource_names=cluster.resources,
    )
    return make_timeline(tasks, cluster, make_graph(num_steps))
