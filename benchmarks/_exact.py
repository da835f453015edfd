"""Steps of a small model under plans, on real workers, beside the same steps on one device.

    prepare      model -> Case: its graph, and what three steps on one device leave (capture.replay; where it draws
                 at random, the same step in a world of one)
    work         in every worker, for every job: its step, three times, and how far each part is from that

A step comes from gw.compile, where every rank lowers the plan for itself and the ranks compare what they have. That is most of the time, so a run of
thousands of jobs is asked to share it (`sharing`): the ranks lower different plans at a time and hand out all ranks' programs.

A difference is relative to the largest element of its tensor, or to a thousandth of the largest of all tensors of its
kind (parameters, momenta, ...) where that is more: a gradient that is zero but for rounding has no size of its own.

Two ways of adding up differ by more than that where a model is ill-conditioned: Adam divides every element of a
gradient by its size, so that one which is nothing but rounding moves its parameter by the learning rate, up or down; and a
ReLU passes a gradient or not, by the sign of a number that rounding may change. How
much rounding does is measured: training on one device is repeated from weights of which each is changed by ten units in its last place,
and where a tensor differs by more than the limit, twice what that changes in it is granted (`with_slack`). Twelve such trainings tell what is usual; a plan that goes beyond them is
judged again by a hundred. In float64 that is next to nothing for all models but nasnet-25 and inception-v3.
Batch normalisation over the four values that are left of a small model's images has almost no variance to divide by:
such models are given more samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from time import perf_counter
from typing import Any

import torch
from torch import nn

import graphwright as gw
from graphwright import zoo
from graphwright.aten.batches import map_tensors
from graphwright.aten.optimizers import make_optimizer
from graphwright.capture import advance, bind, replay
from graphwright.describe import is_random
from graphwright.ir import Graph, Role
from graphwright.lower import lower
from graphwright.machine import Cluster, cluster
from graphwright.partition import random_plan, replicate
from graphwright.plans import Plan, Program, boxes
from graphwright.run.processes.world import world
from graphwright.run.program.regions import cut
from graphwright.run.step.step import RankProgram, Step
from graphwright.zoo import Workload

STEPS = 3
TOLERANCE = {"float64": 1e-10, "float32": 1e-5}
FLOOR = 1e-3
SHAKEN = 12
"""Trainings from weights that are changed: enough to meet the signs that rounding often changes."""
CLOSER = 100
"""As many for a plan that goes beyond those."""
UNITS = 10.0
"""By how many units in its last place every weight is changed: a whole step rounds at many places."""
GRANTED = 2.0
NORMALISED = 10
"""Samples for models with batch normalisation: neither 3 nor 4 workers divide them evenly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A small model in one dtype: its graph, and its losses and all that it keeps after the steps on one device."""

    model: str
    dtype: str
    graph: Graph
    losses: tuple[float, ...]
    kept: Mapping[str, torch.Tensor]
    slack: Mapping[str, float] = field(default_factory=dict)

    @property
    def draws(self) -> bool:
        """Whether the step draws at random."""
        return any(is_random(self.graph, node) for node in self.graph.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A case under a plan; `label` says where the plan is from."""

    case: int
    label: str
    plan: Plan


@dataclass(frozen=True, slots=True, order=True)
class Apart:
    """How far something is from what it should be, and where."""

    difference: float
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What came of a job: the worst difference of all ranks, less what is granted; the worst of
    those that something is granted for, as it is; and the seconds for making the step and for
    running it."""

    job: Job
    worst: Apart
    granted: Apart
    making: float
    running: float


# -- on one device ------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def workload(model: str, dtype: str) -> Workload:
    """A small model with its batch, in a dtype."""
    made = zoo.load(model, small=True, device="cpu")
    if any(isinstance(module, nn.BatchNorm2d) for module in made.model.modules()):
        made = zoo.load(model, small=True, device="cpu", batch_size=NORMALISED)
    to = getattr(torch, dtype)
    batch: Any = map_tensors(lambda t: t.to(to) if t.is_floating_point() else t, made.batch)
    return replace(made, model=made.model.to(to), batch=batch)


def prepare(model: str, dtype: str) -> Case:
    """Capture a model, and train it for some steps on this device alone."""
    w = workload(model, dtype)
    case = Case(model=model, dtype=dtype, graph=w.capture(), losses=(), kept={})
    losses, kept = _trained(case, w)
    assert all(map(math.isfinite, losses)), (model, losses)
    return replace(case, losses=losses, kept=kept)


def with_slack(case: Case, seeds: Iterable[int]) -> Case:
    """A case with what every loss and tensor may differ by for rounding alone, by trainings with
    these seeds beside those that it was given it by."""
    w, slack = workload(case.model, case.dtype), dict(case.slack)
    for seed in seeds:
        shaken = replace(w, model=_shake(w.model, seed))
        losses, kept = _trained(case, shaken)
        assert all(map(math.isfinite, losses)), (case.model, losses)
        moved = {n: float((kept[n].double() - v.double()).abs().max()) for n, v in case.kept.items() if v.numel()}  # fmt: skip
        pairs = enumerate(zip(losses, case.losses, strict=True))
        moved |= {f"loss {number}": abs(a - b) for number, (a, b) in pairs}
        assert all(map(math.isfinite, moved.values())), (case.model, moved)
        slack = {n: max(slack.get(n, 0.0), GRANTED * size) for n, size in moved.items()}
    return replace(case, slack=slack)


def rounding(case: Case) -> Apart:
    """What the change of all weights changes most on one device."""
    found = [
        Apart(case.slack[name] / GRANTED / size, name)
        for name, size in _sizes(case).items()
        if name in case.slack
    ]
    return max(found, default=Apart(0.0, ""))


def _shake(model: nn.Module, seed: int) -> nn.Module:
    """The same model with every weight changed by some units in its last place, up or down."""
    made, numbers = deepcopy(model), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            sign = torch.randint(2, parameter.shape, generator=numbers).to(parameter.dtype) * 2 - 1
            parameter.mul_(1 + UNITS * torch.finfo(parameter.dtype).eps * sign)
    return made


def _trained(case: Case, w: Workload) -> tuple[tuple[float, ...], dict[str, torch.Tensor]]:
    return _drawn_alone(case, w) if case.draws else _replayed(case.graph, w)


def _replayed(graph: Graph, w: Workload) -> tuple[tuple[float, ...], dict[str, torch.Tensor]]:
    options = {"optimizer": w.optimizer, "optimizer_options": w.optimizer_options}
    values = bind(graph, w.model, w.batch, loss_fn=w.loss_fn, **options)
    losses = []
    for _ in range(STEPS):
        outputs = replay(graph, values)
        values = advance(graph, values, outputs)
        losses.append(float(outputs[graph.outputs[0]]))
    return tuple(losses), {n: v.clone() for n, v in values.items() if _is_kept(graph, n)}


def _drawn_alone(case: Case, w: Workload) -> tuple[tuple[float, ...], dict[str, torch.Tensor]]:
    step = compile_case(case, replicate(case.graph, cluster("local:1")), w)
    losses = tuple(float(step(w.batch)) for _ in range(STEPS))
    return losses, {name: shard.local.clone() for name, shard in step.shards().items()}


def compile_case(case: Case, plan: Plan, w: Workload) -> Any:
    """The step of a case under a plan, in this process's world."""
    options = {"graph": case.graph, "optimizer_options": w.optimizer_options, "device": "cpu"}
    return gw.compile(plan, w.model, w.loss_fn, w.optimizer, **options)


def _is_kept(graph: Graph, name: str) -> bool:
    return graph.tensors[name].role is not Role.INPUT and not name.startswith("optimizer.lr.")


# -- plans --------------------------------------------------------------------------------------------


def random_jobs(case: int, graph: Graph, on: Cluster, seeds: Sequence[int]) -> list[Job]:
    """Random strategies, on all devices or some; with every odd seed some copies are moved again
    instead of kept."""
    found = []
    for seed in seeds:
        plan = random_plan(graph, on, seed)
        if seed % 2:
            plan = replace(plan, keep=random_keep(Random(seed), graph))
        found.append(Job(case=case, label=f"random {seed}", plan=plan))
    return found


def random_keep(rng: Random, graph: Graph) -> dict[str, Any]:
    """For half of all tensors, which of their copies is kept for the backward pass."""
    words = ("before", "after")
    return {
        name: "before" if name in graph.inputs else rng.choice(words)
        for name in graph.tensors
        if rng.random() < 0.5
    }


def in_dtype(job: Job, case: int, graph: Graph) -> Job:
    """The same plan for the same model in another dtype."""
    return Job(case=case, label=job.label, plan=replace(job.plan, graph_hash=graph.hash))


# -- on many ------------------------------------------------------------------------------------------


def run(
    num_workers: int,
    cases: Sequence[Case],
    jobs: Sequence[Job],
    timeout: float,
    sharing: bool = False,
) -> list[Done]:
    """Run all jobs on as many workers, started once."""
    ranks = gw.launch(num_workers, timeout=timeout, threads=1)(work, cases, jobs, sharing)
    return [
        Done(
            job=job,
            worst=max(rank[n][0] for rank in ranks),
            granted=max(rank[n][1] for rank in ranks),
            making=max(rank[n][2] for rank in ranks),
            running=max(rank[n][3] for rank in ranks),
        )
        for n, job in enumerate(jobs)
    ]


def work(
    cases: Sequence[Case], jobs: Sequence[Job], sharing: bool
) -> list[tuple[Apart, Apart, float, float]]:
    """What one worker does: every job, and the worst difference of its own parts."""
    found = []
    programs = lower_in_turns(cases, jobs) if sharing else None
    for job in jobs:
        case = cases[job.case]
        w = workload(case.model, case.dtype)
        try:
            begun = perf_counter()
            if programs is None:
                step = compile_case(case, job.plan, w)
            else:
                made_by = make_optimizer(w.optimizer, w.optimizer_options, w.model)
                here, program = world(device="cpu"), next(programs)
                start = RankProgram(world=here, graph=case.graph, plan=job.plan, program=program)
                step = Step(start, w.model, w.loss_fn, made_by, 0)
            made = perf_counter()
            losses = [float(step(w.batch)) for _ in range(STEPS)]
            ended = perf_counter()
            found.append((*compare(case, losses, step.shards()), made - begun, ended - made))
        except Exception as error:
            raise RuntimeError(f"{describe(case, job)} failed: {error}") from error
        step.close()
    return found


def lower_in_turns(cases: Sequence[Case], jobs: Sequence[Job]) -> Iterator[Program]:
    """This rank's programs of all jobs; as many at a time as there are ranks, each lowered by one of them."""
    here = world(device="cpu")
    for first in range(0, len(jobs), here.size):
        at_once = jobs[first : first + here.size]
        own: list[Program | None] = [None] * here.size
        if here.rank < len(at_once):
            job = at_once[here.rank]
            lowered = lower(cases[job.case].graph, job.plan)
            own = [lowered.program(rank) for rank in range(here.size)]
        for source in range(len(at_once)):
            got: list[Program | None] = [None]
            torch.distributed.scatter_object_list(got, own if source == here.rank else None, source)
            assert got[0] is not None
            yield got[0]


def describe(case: Case, job: Job) -> str:
    """A job in words."""
    return f"{case.model} in {case.dtype} on {job.plan.cluster.num_devices} under {job.label}"


def compare(case: Case, losses: Sequence[float], shards: Mapping[str, Any]) -> tuple[Apart, Apart]:
    """The worst difference between what a rank has and what one device has, less what is granted;
    and the worst of those that something is granted for."""
    found = [
        (abs(loss - wanted), f"loss {number}")
        for number, (loss, wanted) in enumerate(zip(losses, case.losses, strict=True))
    ]
    assert shards.keys() == case.kept.keys(), shards.keys() ^ case.kept.keys()
    rank, sizes = int(torch.distributed.get_rank()), _sizes(case)
    for name, shard in shards.items():
        home, wanted = shard.sharding, case.kept[name]
        if rank not in home.mesh.devices or not wanted.numel():
            continue
        box = boxes(home, tuple(wanted.shape))[home.mesh.devices.index(rank)]
        part = cut(wanted, box.tolist())
        assert shard.local.shape == part.shape and shard.local.dtype == part.dtype, name
        if part.numel():
            found.append((float((shard.local.double() - part.double()).abs().max()), name))
    worst = granted = Apart(0.0, "")
    for apart, name in found:
        if not math.isfinite(apart):
            return Apart(math.inf, name), Apart(math.inf, name)
        size = sizes[name]
        if apart > TOLERANCE[case.dtype] * size:
            granted = max(granted, Apart(apart / size, name))
            apart = max(0.0, apart - case.slack.get(name, 0.0))
        worst = max(worst, Apart(apart / size, name))
    return worst, granted


def _sizes(case: Case) -> dict[str, float]:
    """What a difference of each tensor is relative to."""
    largest = {n: float(t.double().abs().max()) for n, t in case.kept.items() if t.numel()}
    kinds: dict[str, float] = {}
    for name, size in largest.items():
        kinds[_kind(case, name)] = max(kinds.get(_kind(case, name), 0.0), size)
    found = {n: max(s, FLOOR * kinds[_kind(case, n)]) or 1.0 for n, s in largest.items()}
    return found | {f"loss {n}": max(abs(loss), FLOOR) for n, loss in enumerate(case.losses)}


def _kind(case: Case, name: str) -> str:
    tensor = case.graph.tensors[name]
    if tensor.role is Role.OPTIMIZER_STATE:
        return name.rpartition(".")[2]
    return tensor.role.value
