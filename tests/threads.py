"""All ranks of a plan in threads of one process: the same modules as in real processes, with a meeting place instead of process groups."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch

from graphwright.aten.replay import advance, bind, replay
from graphwright.lower import lower
from graphwright.plans import boxes, transfers
from graphwright.run.links.messages import exchange, gather, scatter
from graphwright.run.program.module import build_module, run_module
from graphwright.run.program.regions import cut

CPU = torch.device("cpu")
PATIENCE = 20.0


class _Later:
    def __init__(self, get):
        self.wait = get


class Meeting:
    """Where threads leave what others wait for, each thing by a key."""

    def __init__(self):
        self.left, self.change = {}, threading.Condition()
        self.failed = False

    def leave(self, key, value):
        with self.change:
            assert key not in self.left, key
            self.left[key] = value
            self.change.notify_all()

    def find(self, key):
        with self.change:
            if not self.change.wait_for(lambda: key in self.left or self.failed, PATIENCE):
                raise TimeoutError(f"nobody left {key}")
            if self.failed:
                raise RuntimeError("another rank failed")
            return self.left[key]


class ThreadLinks:
    def __init__(self, rank, meeting):
        self.rank, self.meeting, self.turns = rank, meeting, {}

    def _turn(self, *key):
        self.turns[key] = self.turns.get(key, 0) + 1
        return (*key, self.turns[key])

    def collect(self, what, value):
        if what.kind == transfers.AllGather():
            return gather(what, value, self.rank, self._post)
        if what.kind == transfers.ReduceScatter():
            return scatter(what, value, self.rank, self._post)
        turn = self._turn(what.group)
        mark = (what.kind, what.tensor, value.shape, value.dtype)
        self.meeting.leave((turn, self.rank), (mark, value.clone()))

        def get():
            found = [self.meeting.find((turn, rank)) for rank in what.group]
            assert all(m == mark for m, _ in found), [m for m, _ in found]
            total = found[0][1]
            for _, v in found[1:]:
                total = _join(what.reducer, total, v)
            return total.clone()

        return _Later(get)

    def sum_all(self, what, values):
        return [self.collect(each, value) for each, value in zip(what.sums, values, strict=True)]

    def exchange(self, what, value):
        dtype = getattr(torch, what.type.dtype)
        like = value if value is not None else torch.empty(0, dtype=dtype)
        return exchange(what, value, like, self._post)

    def _post(self, tag, sends, receives):
        for rank, sent in sends.items():
            assert sent.is_contiguous()
            self.meeting.leave(self._turn(tag, self.rank, rank), sent.clone())
        return [
            _Later(partial(self._receive, self._turn(tag, rank, self.rank), place))
            for rank, place in receives.items()
        ]

    def _receive(self, key, place):
        found = self.meeting.find(key)
        assert place.is_contiguous() and found.dtype == place.dtype
        place.view(-1).copy_(found.view(-1))


def _join(reducer, a, b):
    match reducer:
        case "sum":
            return a + b
        case "prod":
            return a * b
        case "max" | "any":
            return torch.maximum(a, b)
        case _:
            return torch.minimum(a, b)


def run_all(count, work):
    """Call work(rank, links) for every rank in a thread of its own; the results by rank."""
    meeting = Meeting()

    def guarded(rank):
        try:
            return work(rank, ThreadLinks(rank, meeting))
        except BaseException:
            meeting.failed = True
            with meeting.change:
                meeting.change.notify_all()
            raise

    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(guarded, rank) for rank in range(count)]
        errors = [f.exception() for f in futures]
    first = [e for e in errors if e is not None and "another rank" not in str(e)]
    if first:
        raise first[0]
    return [f.result() for f in futures]


def run_together(graph, plan, inputs, *, steps=1, seed=0, costs=None):
    """Run steps on all ranks; returns for every rank its parts by name, and its results of each step."""
    lowered = lower(graph, plan, costs=costs)

    def work(rank, links):
        program = lowered.program(rank)
        module = build_module(program, links, CPU)
        held = {n: cut(inputs[n], box).clone() for n, box in program.homes.items()}
        found = []
        for step in range(steps):
            updates, results = run_module(module, dict(held), seed + step)
            held |= updates
            found.append(results)
        return held, found

    return lowered, run_all(plan.cluster.num_devices, work)


def largest_difference(graph, plan, inputs, *, steps=2, seed=0, costs=None):
    """How far all parts on all ranks are from a replay on one device, relative to each tensor's largest element; the worst tensor too."""
    lowered, ranks = run_together(graph, plan, inputs, steps=steps, seed=seed, costs=costs)
    expected, losses = dict(inputs), []
    for _ in range(steps):
        outputs = replay(graph, expected)
        expected = advance(graph, expected, outputs)
        losses.append(outputs)
    worst = (0.0, "")
    for rank, (held, found) in enumerate(ranks):
        for name, value in held.items():
            home = lowered.shardings[name]
            box = boxes(home, graph.tensors[name].type.shape)[home.mesh.devices.index(rank)]
            worst = max(worst, (_apart(value, cut(expected[name], box.tolist())), name))
        for step, results in enumerate(found):
            for name in lowered.expansion.facts.results:
                home = lowered.shardings[name]
                assert (name in results) == (rank in home.mesh.devices), name
                if name in results:
                    whole = losses[step][name]
                    box = boxes(home, tuple(whole.shape))[home.mesh.devices.index(rank)]
                    worst = max(worst, (_apart(results[name], cut(whole, box.tolist())), name))
    return worst


def _apart(a, b):
    assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, b.shape, a.dtype, b.dtype)
    if not a.numel():
        return 0.0
    a, b = a.double(), b.double()
    return float((a - b).abs().max() / b.abs().max().clamp(min=1e-3))


def inputs_of(graph, workload, **kwargs):
    return bind(graph, workload, **kwargs)
