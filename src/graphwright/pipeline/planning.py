"""Which plan to train under: a given one, or one by name, made for this machine's processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphwright.errors import InvalidOption
from graphwright.ir import Graph
from graphwright.machine import Cluster
from graphwright.machine import cluster as find_cluster
from graphwright.partition import (
    RECIPES,
    RENAMED,
    SEARCHES,
    SYSTEMS,
    Progress,
    Search,
    coarsen,
    evaluate,
    largest_tensors,
    memory_limit,
    other_plan,
)
from graphwright.partition import plan as make_plan
from graphwright.pipeline.measured import plan_here
from graphwright.plans import Frontier, Plan, does_not_fit, figures_of
from graphwright.run import swap
from graphwright.simulate import CostModel

OBJECTIVES = {"fastest": "time", "smallest": "memory", "fewest-bytes": "bytes"}
PLAN_NAMES = (
    *OBJECTIVES,
    "turning-point",
    *(name for name in SEARCHES if name != "frontier"),
    *RECIPES,
    *SYSTEMS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How to train; `plan` is a plan or the name of one, `workers` is None under torchrun, `steps`
    counts those of a checkpoint too.
    """

    workers: int | None = None
    plan: Plan | str = "fastest"
    memory: int | str | None = None
    swap: bool = False
    """Whether the plan may need more than `memory`: what does not fit is swapped."""
    steps: int | None = None
    seed: int = 0
    check: bool = False
    checkpoint: Path | None = None
    every: int | None = None
    resume: bool = False
    elastic: bool = False
    torch_compile: bool = False
    quiet: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.plan, str):
            object.__setattr__(self, "plan", RENAMED.get(self.plan, self.plan))
        if isinstance(self.plan, str) and self.plan not in PLAN_NAMES:
            raise InvalidOption(
                f"no plan {self.plan!r}: no such file, nor one of {', '.join(PLAN_NAMES)}"
            )
        kept = {"every": self.every, "resume": self.resume, "elastic": self.elastic}
        for name, given in kept.items():
            if given and self.checkpoint is None:
                option = "checkpoint-every" if name == "every" else name
                raise InvalidOption(f"--{option} needs the folder of the checkpoints, --checkpoint")
        if self.check and self.checkpoint is not None:
            raise InvalidOption(
                "--check trains a few steps from the beginning and keeps nothing; leave "
                "--checkpoint out"
            )
        Search(memory=self.memory)
        if self.swap and self.memory is None:
            raise InvalidOption("--swap makes a plan fit; say into how much, as in --memory 500MB")
        if self.swap and self.torch_compile:
            raise InvalidOption("--torch-compile joins operators that --swap plans; choose one")


def plan_for(
    graph: Graph,
    size: int,
    options: RunOptions,
    wanted: Plan | str,
    report: Progress | None = None,
) -> Plan:
    """The plan that is given, or one of that name for so many workers."""
    if options.swap:
        assert options.memory is not None
        return swapped_plan(graph, size, wanted, options.memory, report, options.seed)
    if isinstance(wanted, Plan):
        return wanted
    return choose_plan(graph, size, wanted, memory=options.memory, report=report, seed=options.seed)


def swapped_plan(
    graph: Graph,
    num_workers: int,
    wanted: Plan | str,
    memory: int | str,
    report: Progress | None,
    seed: int,
) -> Plan:
    """The plan that is given or named, in so much memory; as the fastest that which is then so."""
    chosen: Plan | Frontier
    if wanted == "fastest":
        chosen = make_plan(graph, find_cluster(f"local:{num_workers}"), report=report, seed=seed)
    elif isinstance(wanted, str):
        chosen = choose_plan(graph, num_workers, wanted, report=report, seed=seed)
    else:
        chosen = wanted
    return swap(graph, memory, partition=chosen).plan


def choose_plan(
    graph: Graph,
    num_workers: int,
    name: str,
    *,
    memory: int | str | None = None,
    report: Progress | None = None,
    **search: Any,
) -> Plan:
    """The plan of that name for so many processes of this machine: the fastest, the smallest, a
    recipe or another system's. It goes by what its calls take here.
    """
    on = find_cluster(f"local:{num_workers}")
    found = plan_here(lambda: _choose(graph, on, name, memory, report, **search), graph, on, report)
    assert isinstance(found, Plan)
    return found


def _choose(
    graph: Graph,
    on: Cluster,
    name: str,
    memory: int | str | None,
    report: Progress | None,
    **search: Any,
) -> Plan:
    if name in OBJECTIVES:
        best: Plan = make_plan(  # type: ignore[call-overload]
            graph, on, objective=OBJECTIVES[name], memory=memory, report=report, **search
        )
        return best
    if name == "turning-point" or name in SEARCHES:
        algorithm = "frontier" if name == "turning-point" else name
        frontier: Frontier = make_plan(
            graph, on, algorithm=algorithm, memory=memory, report=report, **search
        )
        plan = frontier.turning_point() if name == "turning-point" else frontier.fastest(memory)
    elif on.num_devices == 1:
        return _choose(graph, on, "fastest", memory, report, **search)
    else:
        costs = CostModel()
        plan = evaluate(graph, other_plan(name, coarsen(graph), on, costs), costs)
    limit = memory_limit(on, Search(memory=memory))
    if figures_of(plan).memory > limit:
        raise does_not_fit(limit, plan, largest_tensors(graph))
    return plan
