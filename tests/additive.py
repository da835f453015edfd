"""The additive problem of small models, random assignments of it, and what an assignment costs when it is worked out by other means."""

from __future__ import annotations

from functools import cache

import numpy as np

from graphwright.machine import cluster
from graphwright.partition import Assignment, Estimate, Problem, Space, coarsen, make_estimate
from graphwright.plans import Partial, Plan, Replicated, Sharding, Split
from graphwright.simulate import CostModel
from graphwright.tasks import Expansion, reshard
from random_plans import zoo_graph

COSTS = CostModel(measured=False)


@cache
def coarse_of(name: str):
    """The groups of a small model."""
    return coarsen(zoo_graph(name))


@cache
def model_of(name: str, on: str, space: Space | None = None) -> Estimate:
    """The additive estimate of a small model."""
    return make_estimate(coarse_of(name), cluster(on), COSTS, space)


@cache
def problem_of(name: str, on: str) -> Problem:
    """All tables of a small model."""
    return model_of(name, on).problem()


def codes(sharding: Sharding) -> list[int]:
    """A sharding in numbers: the dim, -1 for replicated, -2 for terms."""
    numbers = {Replicated: -1, Partial: -2}
    return [p.dim if isinstance(p, Split) else numbers[type(p)] for p in sharding.placements]


def random_assignment(problem: Problem, rng: np.random.Generator) -> Assignment:
    """Any configuration for every group."""
    choices = np.array([rng.integers(len(table.time)) for table in problem.unary])
    time, memory = problem.evaluate(choices.tolist(), {})
    return Assignment(choices=choices, options={}, time=time, memory=memory)


def changed(problem: Problem, of: Assignment, rng: np.random.Generator, share: float) -> Assignment:
    """An assignment with another configuration for a share of the groups."""
    drawn = random_assignment(problem, rng).choices
    choices = np.where(rng.random(len(drawn)) < share, drawn, of.choices)
    time, memory = problem.evaluate(choices.tolist(), {})
    return Assignment(choices=choices, options={}, time=time, memory=memory)


def recomputed(model: Estimate, plan: Plan) -> float:
    """Seconds of every operator's longest part, and of every distinct layout in which a group reads each tensor; halos left out."""
    coarse, facts = model.coarse, model.coarse.facts
    x = Expansion(facts, plan, model.costs)
    total = sum(float(x.duration(i).max()) / 1e12 for i, g in enumerate(coarse.group_of) if g >= 0)
    known: dict[object, float] = {}

    def move(name: str, source: Sharding, target: Sharding) -> float:
        key = (facts.graph.tensors[name].type, source, target)
        if source != target and key not in known:
            known[key] = reshard(model.cluster, model.costs, *key).seconds
        return known.get(key, 0.0)

    for name, readers in facts.readers.items():
        made = facts.producer.get(name)
        if made is None and name not in plan.inputs:
            continue
        if made is not None and coarse.group_of[made[0]] < 0:
            continue
        source = plan.inputs[name] if made is None else x.placed[made[0]].outputs[made[1]]
        wanted = {
            (coarse.group_of[i], _even(x.placed[i].inputs[arg]))
            for i, arg in readers
            if coarse.group_of[i] >= 0
        }
        total += sum(move(name, _even(source), target) for _, target in wanted)
    for old, new in facts.graph.updates.items():
        if new in facts.producer and old in plan.inputs:
            i, output = facts.producer[new]
            total += move(old, _even(x.placed[i].outputs[output]), plan.inputs[old])
    return total


def _even(sharding: Sharding | None) -> Sharding:
    assert sharding is not None
    return Sharding(sharding.mesh, sharding.placements)
