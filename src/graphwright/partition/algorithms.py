"""Every way to find plans; see `registry` for what they have in common.

searches   frontier, mcmc                    what `gw.plan` searches with
systems    optcnn, tofu, icml18, ...         what other systems find, over the same splits and costs
recipes    data, fsdp, megatron, ...         what people do, without a search
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from math import inf

from graphwright.errors import InvalidOption, InvalidStrategy
from graphwright.ir import Graph
from graphwright.machine import Cluster
from graphwright.machine import cluster as find_cluster
from graphwright.partition import recipes
from graphwright.partition.estimate import make_estimate
from graphwright.partition.registry import (
    REGISTRY,
    Algorithm,
    Candidates,
    Context,
    Kind,
    OnePlan,
    algorithm,
    check_budget,
    check_number,
)
from graphwright.partition.search import (
    TOFU,
    TRACKING,
    anneal,
    find_candidates,
    least,
    narrow,
    recursive,
)
from graphwright.partition.space import Coarse, Space, random_plan
from graphwright.plans import Plan
from graphwright.tasks import Costs

# -- searches --------------------------------------------------------------------------------------


@algorithm("frontier", "search", whose="TensorOpt")
class FrontierTracking(Algorithm):
    """Everything on all devices; the whole trade-off. The default.

    points             how many plans of the estimated frontier are returned
    precision          points this close to others, as a share, may be left out
    space              which strategies it may use
    tracking_work      pairs of points to add up, after which gaps between points of the estimated
                       frontier stay open
    """

    points: int = 12
    precision: float = 0.01
    space: Space = field(default_factory=Space)
    tracking_work: float = TRACKING

    def __post_init__(self) -> None:
        check_number("points", self.points, least=1)
        check_number("precision", self.precision, least=0)
        check_number("tracking_work", self.tracking_work, least=0)

    def candidates(self, context: Context) -> Candidates:
        space = replace(self.space, batch_dim=context.batch_dim or self.space.batch_dim)
        tracked = find_candidates(
            make_estimate(
                context.coarse, context.cluster, context.costs, space, plans=context.known
            ),
            count=self.points,
            precision=self.precision,
            work=self.tracking_work,
            budget=None if context.seconds_left == inf else context.seconds_left,
            progress=context.progress,
        )
        gaps = (
            "the estimated frontier may have gaps: it was tracked for a limited time, "
            "or some groups were fixed by a heuristic"
        )
        *others, last = tracked.plans  # the fastest and the smallest are simulated first
        return Candidates(plans=(last, *others), notes=() if tracked.exact else (gaps,))


@algorithm("mcmc", "search", whose="FlexFlow")
class Annealing(Algorithm):
    """Everything, on all devices or some, one change after another, timed by simulation.

    Markov chains over plans, the first from OptCNN's.

    budget          seconds, or None
    max_proposals   how many changes are tried at most; with these alone the seed says all
    """

    budget: float | None = 30.0
    max_proposals: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_budget(self.budget)
        if self.max_proposals is not None:
            check_number("max_proposals", self.max_proposals, least=0)

    def candidates(self, context: Context) -> Candidates:
        first = Elimination().plan(context)
        seconds = (
            context.seconds_left if self.budget is None else min(self.budget, context.seconds_left)
        )
        annealed = anneal(
            context.coarse,
            context.cluster,
            context.costs,
            starts=[first, *context.known[:1]],
            seed=self.seed,
            budget=None if seconds == inf else seconds,
            max_proposals=self.max_proposals,
            progress=context.progress,
        )
        note = (
            f"annealing made {annealed.num_proposals:,} proposals "
            f"and ended by the {annealed.stopped}"
        )
        return Candidates(plans=((annealed.plan, None), (first, None)), notes=(note,))


# -- other systems ---------------------------------------------------------------------------------


@algorithm("optcnn", "system", whose="OptCNN")
class Elimination(OnePlan):
    """The least time, whatever it needs.

    `width` is how many configurations of a group are looked at, None for all.
    """

    width: int | None = 64

    def plan(self, context: Context) -> Plan:
        # The least time moves nothing twice: an estimate that would allow it does as well.
        space = context.plain
        if not context.has_estimate(space):
            space = replace(space, reuse=False)
        estimate = narrow(context.estimate(space), self.width)
        return estimate.plan(least(estimate.problem()), self.name)


@algorithm("tofu", "system", whose="Tofu")
class Recursive(OnePlan):
    """The least bytes, one axis at a time, nothing replicated."""

    def plan(self, context: Context) -> Plan:
        recursion = recursive(context.coarse, context.cluster, context.costs)
        return replace(recursion.plan, algorithm=self.name)


@algorithm("icml18", "system", whose="Jia et al. 2018, as Tofu compares with it")
class Icml18(OnePlan):
    """The same, for all axes at once, without sums of terms."""

    width: int | None = 64

    def plan(self, context: Context) -> Plan:
        estimate = context.estimate_bytes(replace(TOFU, reduction=False), self.width)
        return estimate.plan(least(estimate.problem()), self.name)


@algorithm("equal-chop", "system", whose="Tofu's comparison")
class EqualChop(OnePlan):
    """The least bytes, each operator along one index."""

    width: int | None = None

    def plan(self, context: Context) -> Plan:
        estimate = context.estimate_bytes(replace(TOFU, single_split=True), self.width)
        return estimate.plan(least(estimate.problem()), self.name)


@algorithm("spartan", "system", whose="Spartan")
class Greedy(OnePlan):
    """Greedily, the largest tensor first."""

    width: int | None = 64

    def plan(self, context: Context) -> Plan:
        return recipes.spartan(context.estimate_bytes(TOFU, self.width))


@algorithm("all-row", "system", whose="Tofu's comparison")
class AllRow(OnePlan):
    """Every tensor by its first dimension."""

    def plan(self, context: Context) -> Plan:
        return recipes.all_row(context.coarse, context.cluster, context.costs)


# -- recipes ---------------------------------------------------------------------------------------


@algorithm("data", "recipe", whose="everybody")
class DataParallel(OnePlan):
    """Samples; parameters are copied."""

    def plan(self, context: Context) -> Plan:
        return recipes.data_parallel(context.coarse.facts, context.cluster, context.batch_dim)


@algorithm("layers", "recipe", whose="model parallelism")
class Layers(OnePlan):
    """Whole layers, one device after the other."""

    def plan(self, context: Context) -> Plan:
        return recipes.layers(context.coarse.facts, context.cluster)


@algorithm("one-weird-trick", "recipe", whose="Krizhevsky 2014")
class OneWeirdTrick(OnePlan):
    """Samples for convolutions, columns for fully-connected layers."""

    def plan(self, context: Context) -> Plan:
        return recipes.one_weird_trick(context.estimate(context.plain))


@algorithm("zero2", "recipe", whose="ZeRO")
class Zero2(OnePlan):
    """Samples; parameters, gradients and state live in parts, gathered once a step."""

    def plan(self, context: Context) -> Plan:
        return recipes.zero2(context.estimate(context.plain))


@algorithm("fsdp", "recipe", whose="FSDP, ZeRO-3")
class FullySharded(OnePlan):
    """The same, but parameters are gathered again for the backward pass."""

    def plan(self, context: Context) -> Plan:
        return recipes.fsdp(context.plan(Zero2()), context.coarse.facts.graph)


@algorithm("hsdp", "recipe", whose="FSDP, hybrid")
class HybridSharded(OnePlan):
    """FSDP within a node, copies between nodes."""

    def plan(self, context: Context) -> Plan:
        return recipes.hsdp(context.estimate(context.plain))


@algorithm("megatron", "recipe", whose="Megatron-LM")
class Megatron(OnePlan):
    """Samples between nodes, weights and heads within a node."""

    def plan(self, context: Context) -> Plan:
        return recipes.megatron(context.estimate(context.plain))


@algorithm("fsdp-tp", "recipe", whose="FSDP and Megatron-LM")
class FullyShardedTensorParallel(OnePlan):
    """Megatron's splits within a node, FSDP between nodes."""

    def plan(self, context: Context) -> Plan:
        return recipes.fsdp_tp(context.estimate(context.plain))


@algorithm("replicate", "reference", whose="")
class Replicate(OnePlan):
    """Every device does everything."""

    def plan(self, context: Context) -> Plan:
        return recipes.replicate(context.coarse.facts.graph, context.cluster)


# -- by name ---------------------------------------------------------------------------------------


def _names(*kinds: Kind) -> tuple[str, ...]:
    return tuple(name for name, algorithm in REGISTRY.items() if algorithm.kind in kinds)


SEARCHES = _names("search")
"""What finds many plans, or takes as long as it is given."""
RECIPES = _names("recipe")
"""What people do, without a search."""
SYSTEMS = _names("system")
"""What other systems find."""
ALGORITHMS = (*SEARCHES, *SYSTEMS)
"""What `gw.plan` can search with."""
COMPARABLE = _names("recipe", "system", "reference")
"""What makes one plan, to compare others with."""


RENAMED = {"zero": "zero2"}
"""Recipes by the names that they had before."""


def make_other(name: str, context: Context) -> Plan:
    """The plan of a recipe or a system."""
    name = RENAMED.get(name, name)
    known = REGISTRY[name]() if name in COMPARABLE else None
    if not isinstance(known, OnePlan):
        raise InvalidOption(f"no recipe or system {name!r}; one of {', '.join(COMPARABLE)}")
    return context.plan(known)


def other_plan(
    name: str, coarse: Coarse, cluster: Cluster, costs: Costs, *, batch_dim: int = 0
) -> Plan:
    """The plan of a recipe or a system, by itself."""
    context = Context(coarse=coarse, cluster=cluster, costs=costs, batch_dim=batch_dim)
    return make_other(name, context)


BASELINES: dict[str, Callable[[Graph, Cluster | str], Plan]] = {
    DataParallel.name: recipes.data_parallel,
    Layers.name: recipes.layers,
    Replicate.name: recipes.replicate,
}
"""Plans that need neither groups nor costs."""


def baseline(name: str, graph: Graph, cluster: Cluster | str, seed: int = 0) -> Plan:
    """A plan by the name of its recipe: data, layers, replicate or random."""
    if name == "random":
        return random_plan(graph, find_cluster(cluster), seed)
    if name not in BASELINES:
        known = ", ".join(sorted([*BASELINES, "random"]))
        raise InvalidStrategy(f"no recipe {name!r}; one of {known}")
    return BASELINES[name](graph, cluster)
