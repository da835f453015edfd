"""Plan a graph for a cluster: every worthwhile trade-off between time and memory, or the one plan
that an objective asks for.

    graph -> groups -> additive problem -> frontier -> a dozen plans  \
                       what people and other systems do               -> simulated -> none dominated

The plans of recipes are offered to the search and compared with its own by simulation, so the
result is never worse than any of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Literal, overload

from graphwright.describe import is_described
from graphwright.errors import GraphwrightError, InvalidOption, PlanMismatch
from graphwright.ir import CONSTANT_OP, Graph, PassRecord, Role, collection_paused
from graphwright.machine import Cluster
from graphwright.machine import cluster as find_cluster
from graphwright.partition.algorithms import (
    ALGORITHMS,
    COMPARABLE,
    RECIPES,
    RENAMED,
    SYSTEMS,
    FrontierTracking,
    make_other,
)
from graphwright.partition.evaluate import better, largest_tensors, with_figures
from graphwright.partition.progress import Progress, silent
from graphwright.partition.registry import REGISTRY, Algorithm, Context, check_budget, check_number
from graphwright.partition.space import Space, coarsen
from graphwright.plans import Frontier, Plan, does_not_fit, figures_of, make_frontier, parse_limit
from graphwright.rewrite import Pass, apply_passes
from graphwright.simulate import CostModel, Simulator, check_compiled
from graphwright.tasks import Costs

Objective = Literal["frontier", "time", "memory", "bytes", "devices"]
OBJECTIVES = ("frontier", "time", "memory", "bytes", "devices")
MARGIN = 1.1
"""A device's memory over what a plan may take of it by prediction (TensorOpt section 5.2: 14.5 GB
of 16 GB)."""
FEW_BYTES = ("tofu", "equal-chop", "icml18", "spartan")
"""Searches for the least bytes, which that objective chooses from too."""
COMPARED = (*RECIPES, "tofu", "optcnn")
"""What a search is compared with, and never worse than, unless told otherwise."""
BETWEEN_NODES = ("hsdp", "fsdp-tp")
"""Recipes that need several nodes."""
FOR_CONVOLUTIONS = ("one-weird-trick",)
"""Recipes that differ from others in what they do to convolutions alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How to search; the command line, the API and the notes of a frontier read these.

    algorithm   its name, "frontier" (TensorOpt), "mcmc" (FlexFlow), "tofu", ..., or a value with
                options of its own, such as `Annealing(budget=10)`
    memory      bytes that a device may hold, "14.5GB", or None for its own memory over `margin`
    points      how many plans of the estimated frontier are simulated
    baselines   plans to compare with; `RECIPES` are what people do, `SYSTEMS` what others find; by
                default the former, Tofu's and OptCNN's
    budget      seconds after which the best so far is returned; None for as long as it takes
    precision   points this close to others, as a share, may be left out of the estimated frontier
    batch_dim   the dim of the step's data that runs over samples: 1 for sequences with time first
    """

    algorithm: str | Algorithm = "frontier"
    memory: int | str | None = None
    margin: float = MARGIN
    points: int = 12
    baselines: tuple[str, ...] = COMPARED
    budget: float | None = None
    precision: float = 0.01
    seed: int = 0
    batch_dim: int = 0
    space: Space = field(default_factory=Space)

    def __post_init__(self) -> None:
        self._check_names()
        for name, least in (("points", 1), ("margin", 1.0), ("precision", 0.0)):
            check_number(name, getattr(self, name), least=least)
        check_budget(self.budget)
        if self.memory is not None:
            parse_limit(self.memory)
        space = self.algorithm.space if isinstance(self.algorithm, FrontierTracking) else self.space
        dim = self.batch_dim or space.batch_dim
        object.__setattr__(self, "batch_dim", dim)
        object.__setattr__(self, "space", replace(space, batch_dim=dim))

    def _check_names(self) -> None:
        given: object = self.algorithm
        name = given.name if isinstance(given, Algorithm) else given
        if name not in ALGORITHMS:
            hint = f"frontier.others[{name!r}] needs no search; or " if name in RECIPES else ""
            raise InvalidOption(f"no algorithm {name!r}; {hint}one of {', '.join(ALGORITHMS)}")
        baselines: object = self.baselines
        if isinstance(baselines, str):
            meant = "() for none" if baselines == "none" else f"as in ({baselines!r},)"
            raise InvalidOption(f"baselines={baselines!r} is one name; give names, {meant}")
        named = tuple(RENAMED.get(name, name) for name in self.baselines)
        object.__setattr__(self, "baselines", named)
        unknown = [b for b in self.baselines if b not in COMPARABLE]
        if unknown:
            raise InvalidOption(
                f"no baseline {unknown[0]!r}; some of {', '.join((*RECIPES, *SYSTEMS))}"
            )

    def find_algorithm(self) -> Algorithm:
        """The algorithm as a value: a name stands for one with the options of this search."""
        if isinstance(self.algorithm, Algorithm):
            return self.algorithm
        chosen = REGISTRY[self.algorithm]
        common = Search.__dataclass_fields__.keys() & chosen.__dataclass_fields__.keys()
        given = {name: getattr(self, name) for name in common}
        return chosen(**{name: value for name, value in given.items() if value is not None})


@overload
def plan(
    graph: Graph,
    cluster: Cluster | str,
    *,
    objective: Literal["frontier"] = "frontier",
    costs: Costs | None = None,
    compiled: bool = False,
    report: Progress | None = None,
    passes: Iterable[Pass | PassRecord] = (),
    **search: object,
) -> Frontier: ...
@overload
def plan(
    graph: Graph,
    cluster: Cluster | str,
    *,
    objective: Literal["time", "memory", "bytes", "devices"],
    costs: Costs | None = None,
    compiled: bool = False,
    report: Progress | None = None,
    passes: Iterable[Pass | PassRecord] = (),
    **search: object,
) -> Plan: ...
def plan(
    graph: Graph,
    cluster: Cluster | str,
    *,
    objective: Objective = "frontier",
    costs: Costs | None = None,
    compiled: bool = False,
    report: Progress | None = None,
    passes: Iterable[Pass | PassRecord] = (),
    **search: object,
) -> Frontier | Plan:
    """Work out how to run a graph on a cluster.

    objective   "frontier": every worthwhile trade-off of time and memory; "time": the fastest plan
                that fits; "memory": the smallest; "bytes": the one that moves least; "devices": the
                fastest on the fewest devices of the cluster that it fits
    search      fields of `Search`: algorithm, memory, margin, points, baselines, budget, precision,
                seed, space
    compiled    price the kernels of a step that torch.compile makes (`gw.compile(...,
                torch_compile=True)`), not an operator at a time
    passes      applied to the graph before it is planned; the plans name them
    report      is called with (what, steps done, steps in all) as the search goes on

    >>> frontier = gw.plan(graph, "dgx-h100")
    >>> frontier.fastest(memory="40GB"), frontier.smallest(), frontier.turning_point()
    >>> plan = gw.plan(graph, "v100-2x8", objective="time", memory="14.5GB")
    """
    if not isinstance(graph, Graph):
        raise PlanMismatch(
            f"{type(graph).__name__} is no graph; "
            "capture one with gw.capture, or read it with gw.load"
        )
    if objective not in OBJECTIVES:
        raise InvalidOption(f"no objective {objective!r}; one of {', '.join(OBJECTIVES)}")
    graph = apply_passes(graph, passes)
    how = make_search(search)
    check_compiled(compiled, costs)
    model = CostModel(compiled=compiled) if costs is None else costs
    on = find_cluster(cluster)
    if objective == "devices":
        return _fewest_devices(graph, on, how, model, report)
    if objective == "bytes":
        how = replace(how, baselines=tuple(dict.fromkeys((*how.baselines, *FEW_BYTES))))
    with collection_paused():
        frontier = _Planning(graph, on, how, model, report).run()
    return _choose(graph, frontier, objective, how)


def make_search(options: Mapping[str, object]) -> Search:
    """The search with these options; refuses unknown ones, and those given twice."""
    algorithm = options.get("algorithm")
    if isinstance(algorithm, Algorithm):
        twice = [name for name in ("points", "precision", "seed", "space") if name in options]
        if twice:
            raise InvalidOption(
                f"{twice[0]} belongs to the algorithm, which is given as {algorithm}; say it there"
            )
    try:
        return Search(**options)  # type: ignore[arg-type]
    except TypeError as error:
        names = ", ".join(Search.__dataclass_fields__)
        raise InvalidOption(f"{error}; the options of a search are {names}") from None


def _choose(graph: Graph, frontier: Frontier, objective: Objective, how: Search) -> Frontier | Plan:
    if objective == "frontier":
        return frontier
    if objective == "memory":
        return frontier.smallest()
    limit = memory_limit(frontier.plans[0].cluster, how)
    fitting = [p for p in frontier if figures_of(p).memory <= limit]
    if not fitting:
        raise does_not_fit(limit, frontier.smallest(), largest_tensors(graph))
    if objective == "time":
        return fitting[-1]
    others = [p for p in frontier.others.values() if figures_of(p).memory <= limit]
    return better([*fitting, *others], "nbytes")


def memory_limit(cluster: Cluster, how: Search) -> int:
    """The bytes that a plan may take of a device."""
    if how.memory is not None:
        return parse_limit(how.memory)
    return int(min(device.memory for device in cluster.devices) / how.margin)


class _Planning:
    """One search, with its clock and its notes."""

    def __init__(
        self, graph: Graph, cluster: Cluster, how: Search, costs: Costs, progress: Progress | None
    ) -> None:
        self.how = how
        _check_batch_dim(graph, how.batch_dim)
        self.context = Context(
            coarse=coarsen(graph),
            cluster=cluster,
            costs=costs,
            batch_dim=how.batch_dim,
            deadline=None if how.budget is None else perf_counter() + how.budget,
            progress=progress or silent,
        )
        self.notes = _undescribed(graph)

    def run(self) -> Frontier:
        """The frontier of everything that was simulated in time."""
        compared = self._compared()
        queue: list[tuple[Plan, tuple[float, float] | None]] = [
            (p, None) for p in compared.values()
        ]
        if not self._late() or not compared:
            known = tuple(p for p in compared.values() if not _on_some(p))
            candidates = self.how.find_algorithm().candidates(replace(self.context, known=known))
            queue += candidates.plans
            self.notes += candidates.notes
        simulated = self._simulate(queue)
        others = dict(zip(compared, simulated, strict=False))
        return make_frontier(simulated, others=others, notes=self.notes)

    def _compared(self) -> dict[str, Plan]:
        """The plans to compare with, those that are possible."""
        plans: dict[str, Plan] = {}
        wanted = self.how.baselines if self.context.cluster.num_devices > 1 else ()
        if wanted == COMPARED:
            wanted = tuple(name for name in wanted if name not in self._out_of_place())
        for number, name in enumerate(wanted):
            if plans and self._late():
                self.notes.append(f"the time budget ran out before {name} was tried")
                break
            self.context.progress("baselines", number, len(wanted))
            try:
                plans[name] = make_other(name, self.context)
            except GraphwrightError as error:
                self.notes.append(f"{name} is not possible here: {error}")
        return plans

    def _out_of_place(self) -> tuple[str, ...]:
        """Recipes that are for other clusters or models."""
        nodes = self.context.coarse.facts.graph.nodes
        one_level = len({axis.level for axis in self.context.cluster.axes}) == 1
        convolves = any(node.op.startswith("aten.convolution") for node in nodes)
        return (*(BETWEEN_NODES if one_level else ()), *(() if convolves else FOR_CONVOLUTIONS))

    def _simulate(self, queue: Sequence[tuple[Plan, tuple[float, float] | None]]) -> list[Plan]:
        done: list[Plan] = []
        context = self.context
        simulator = Simulator(context.coarse.facts, context.cluster, context.costs)
        for number, (made, estimate) in enumerate(queue):
            if done and self._late():
                self.notes.append(
                    f"the time budget of {self.how.budget:g} s ran out: "
                    f"{number} of {len(queue)} plans were simulated"
                )
                break
            context.progress("simulating plans", number, len(queue))
            done.append(with_figures(simulator, made, estimate))
        context.progress("simulating plans", len(queue), len(queue))
        return done

    def _late(self) -> bool:
        return self.context.seconds_left == 0.0


def _check_batch_dim(graph: Graph, dim: int) -> None:
    """Refuse a dim that nothing of the step's data has."""
    inputs = (graph.tensors[name] for name in graph.inputs)
    ranks = [tensor.type.rank for tensor in inputs if tensor.role is Role.INPUT]
    if dim and not 0 <= dim < max(ranks, default=0):
        raise InvalidOption(
            f"batch_dim={dim}, but the step's data have at most {max(ranks, default=0)} dims; "
            "0 is the first, 1 is for sequences with time first"
        )


def _undescribed(graph: Graph) -> list[str]:
    """A note on operators without a description, if there are any."""
    unknown = sorted({n.op for n in graph.nodes if n.op != CONSTANT_OP and not is_described(n.op)})
    if not unknown:
        return []
    some = ", ".join(unknown[:5])
    return [f"{len(unknown)} operators have no description and are replicated: {some}"]


def _on_some(plan: Plan) -> bool:
    """Whether a plan uses some of the devices only for some operators."""
    return any(s.mesh is not None for s in plan.strategies.values())


# -- as few devices as possible --------------------------------------------------------------------


def sizes_of(cluster: Cluster, counts: Iterable[int] | None = None) -> dict[int, Cluster]:
    """A cluster in other sizes, inner levels filled first: 4 of a node's 8 devices, then whole
    nodes; by default up to its own size.

    Sizes that it cannot have, such as 11 devices of nodes with 8, are left out.
    """
    sizes: dict[int, Cluster] = {}
    for count in range(1, cluster.num_devices + 1) if counts is None else counts:
        if type(count) is not int or count < 1:
            raise InvalidOption(f"{count!r} is no number of devices")
        levels, left = {}, count
        for level in reversed(cluster.levels[1:]):
            levels[level.name] = min(level.count, left)
            if left % levels[level.name]:
                break
            left //= levels[level.name]
        else:
            levels[cluster.levels[0].name] = left
            try:
                sizes[count] = cluster.resized(levels)
            except GraphwrightError:
                continue
    return sizes


def _fewest_devices(
    graph: Graph, cluster: Cluster, how: Search, costs: Costs, progress: Progress | None
) -> Plan:
    """TensorOpt's mini-parallelism: the fewest devices that something fits, by bisection."""
    sizes = sizes_of(cluster)
    counts = sorted(sizes)
    low, high = 0, len(counts) - 1
    best: Frontier | None = None
    last: Frontier | None = None
    while low <= high:
        middle = (low + high) // 2 if best is not None else high
        on = sizes[counts[middle]]
        with collection_paused():
            last = _Planning(graph, on, how, costs, progress).run()
        if figures_of(last.smallest()).memory <= memory_limit(on, how):
            best, high = last, middle - 1
        elif best is None:
            break
        else:
            low = middle + 1
    if best is None:
        assert last is not None
        raise does_not_fit(memory_limit(cluster, how), last.smallest(), largest_tensors(graph))
    chosen = _choose(graph, best, "time", how)
    assert isinstance(chosen, Plan)
    return chosen
