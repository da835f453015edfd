"""Plan a graph for a cluster: every worthwhile trade-off between time and memory, or the one plan that an objective asks for.

    graph -> groups -> additive problem -> frontier -> a dozen plans, simulated -> those that none dominates
                                                       + what people and other systems do, simulated alike

The plans of recipes are offered to the search and compared with its own by simulation, so the result is never worse than any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Literal, overload

from graphwright.describe import is_described
from graphwright.errors import GraphwrightError, InvalidOption, PlanMismatch
from graphwright.ir import CONSTANT_OP, Graph, collection_paused
from graphwright.machine import Cluster
from graphwright.machine import cluster as find_cluster
from graphwright.partition.estimate import Model
from graphwright.partition.evaluate import better, largest_tensors, with_figures
from graphwright.partition.recipes import RECIPES, SYSTEMS, other_plan
from graphwright.partition.search import TRACKING, anneal, candidates
from graphwright.partition.space import Coarse, Space, coarsen
from graphwright.plans import Frontier, Plan, does_not_fit, figures_of, make_frontier, parse_limit
from graphwright.simulate import CostModel, Simulator
from graphwright.tasks import Costs

Objective = Literal["frontier", "time", "memory", "bytes", "devices"]
OBJECTIVES = ("frontier", "time", "memory", "bytes", "devices")
ALGORITHMS = ("frontier", "mcmc", *SYSTEMS)
MARGIN = 1.1
"""A device's memory over what a plan may take of it by prediction (TensorOpt section 5.2: 14.5 GB of 16 GB)."""
FEW_BYTES = ("tofu", "equal-chop", "icml18", "spartan")
"""Searches for the least bytes, which that objective chooses from too."""
COMPARED = (*RECIPES, "tofu", "optcnn")
"""What a search is compared with, and never worse than, unless told otherwise."""
ANNEALING = 30.0
"""Seconds that annealing takes unless told otherwise."""
Report = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How to search; the command line, the API and the notes of a frontier read these.

    algorithm   "frontier" (TensorOpt), "mcmc" (FlexFlow), or a system to follow: "tofu", "optcnn", "spartan", ...
    memory      bytes that a device may hold, "14.5GB", or None for its own memory over `margin`
    points      how many plans of the estimated frontier are simulated
    baselines   plans to compare with; `RECIPES` are what people do, `SYSTEMS` what others find; by default the former, Tofu's and OptCNN's
    budget      seconds after which the best so far is returned; None for as long as it takes
    precision   points this close to others, as a share, may be left out of the estimated frontier
    batch_dim   the dim of the step's data that runs over samples: 1 for sequences that have time first
    """

    algorithm: str = "frontier"
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
        if self.algorithm not in ALGORITHMS:
            hint = (
                f"frontier.others[{self.algorithm!r}] needs no search; or "
                if self.algorithm in RECIPES
                else ""
            )
            raise InvalidOption(f"no algorithm {self.algorithm!r}; {hint}one of {', '.join(ALGORITHMS)}")  # fmt: skip
        given: object = self.baselines
        if isinstance(given, str):
            raise InvalidOption(f"baselines={self.baselines!r} is one name; give names, as in ({self.baselines!r},)")  # fmt: skip
        unknown = [b for b in self.baselines if b not in (*RECIPES, *SYSTEMS, "replicate")]
        if unknown:
            raise InvalidOption(
                f"no baseline {unknown[0]!r}; some of {', '.join((*RECIPES, *SYSTEMS))}"
            )
        for name, least in (("points", 1), ("margin", 1.0), ("precision", 0.0)):
            value = getattr(self, name)
            if not _is_number(value) or not value >= least:
                raise InvalidOption(f"{name} has to be {least:g} or more, not {value!r}")
        if self.budget is not None and not (_is_number(self.budget) and self.budget >= 0):
            raise InvalidOption(f"budget is a number of seconds, or None, not {self.budget!r}")
        if self.memory is not None:
            parse_limit(self.memory)
        if self.batch_dim != self.space.batch_dim:
            dim = self.batch_dim or self.space.batch_dim
            object.__setattr__(self, "batch_dim", dim)
            object.__setattr__(self, "space", replace(self.space, batch_dim=dim))


@overload
def plan(
    graph: Graph,
    cluster: Cluster | str,
    *,
    objective: Literal["frontier"] = "frontier",
    costs: Costs | None = None,
    report: Report | None = None,
    **search: object,
) -> Frontier: ...
@overload
def plan(
    graph: Graph,
    cluster: Cluster | str,
    *,
    objective: Literal["time", "memory", "bytes", "devices"],
    costs: Costs | None = None,
    report: Report | None = None,
    **search: object,
) -> Plan: ...
def plan(
    graph: Graph,
    cluster: Cluster | str,
    *,
    objective: Objective = "frontier",
    costs: Costs | None = None,
    report: Report | None = None,
    **search: object,
) -> Frontier | Plan:
    """Work out how to run a graph on a cluster.

    objective   "frontier": every worthwhile trade-off of time and memory; "time": the fastest plan that fits; "memory": the
                smallest; "bytes": the one that moves least; "devices": the fastest on the fewest devices of the cluster that it fits
    search      fields of `Search`: algorithm, memory, margin, points, baselines, budget, precision, seed, space
    report      is called with (what, steps done, steps in all) as the search goes on

    >>> frontier = gw.plan(graph, "dgx-h100")
    >>> frontier.fastest(memory="40GB"), frontier.smallest(), frontier.turning_point()
    >>> plan = gw.plan(graph, "v100-2x8", objective="time", memory="14.5GB")
    """
    if not isinstance(graph, Graph):
        raise PlanMismatch(
            f"{type(graph).__name__} is no graph; capture one with gw.capture, or read it with gw.load"
        )
    if objective not in OBJECTIVES:
        raise InvalidOption(f"no objective {objective!r}; one of {', '.join(OBJECTIVES)}")
    try:
        how = Search(**search)  # type: ignore[arg-type]
    except TypeError as error:
        names = ", ".join(Search.__dataclass_fields__)
        raise InvalidOption(f"{error}; the options of a search are {names}") from None
    model = CostModel() if costs is None else costs
    on = find_cluster(cluster)
    if objective == "devices":
        return _fewest_devices(graph, on, how, model, report)
    if objective == "bytes":
        how = replace(how, baselines=tuple(dict.fromkeys((*how.baselines, *FEW_BYTES))))
    with collection_paused():
        frontier = _Planning(graph, on, how, model, report).run()
    return _choose(graph, frontier, objective, how)


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
        self, graph: Graph, cluster: Cluster, how: Search, costs: Costs, report: Report | None
    ) -> None:
        self.graph, self.cluster, self.how, self.costs = graph, cluster, how, costs
        self.report = report or _silent
        self.deadline = None if how.budget is None else perf_counter() + how.budget
        self.notes: list[str] = []
        self.coarse: Coarse = coarsen(graph)
        self._note_undescribed()

    def run(self) -> Frontier:
        """The frontier of everything that was simulated in time."""
        recipes = self._recipes()
        queue: list[tuple[Plan, tuple[float, float] | None]] = []
        if not self._late() or not recipes:
            queue = self._found([p for p in recipes.values() if not _on_some(p)])
        simulated = self._simulate([*((p, None) for p in recipes.values()), *queue])
        others = dict(zip(recipes, simulated, strict=False))
        return make_frontier(simulated, others=others, notes=self.notes)

    def _recipes(self) -> dict[str, Plan]:
        found: dict[str, Plan] = {}
        model: Model | None = None
        wanted = self.how.baselines if self.cluster.num_devices > 1 else ()
        for number, name in enumerate(wanted):
            if found and self._late():
                self.notes.append(f"the time budget ran out before {name} was tried")
                break
            self.report("baselines", number, len(wanted))
            if model is None and name in ("one-weird-trick", "zero", "megatron"):
                model = Model(
                    self.coarse, self.cluster, self.costs, Space(batch_dim=self.how.batch_dim)
                )
            try:
                found[name] = self._other(name, model)
            except GraphwrightError as error:
                self.notes.append(f"{name} is not possible here: {error}")
        return found

    def _other(self, name: str, model: Model | None = None) -> Plan:
        dim = self.how.batch_dim
        return other_plan(name, self.coarse, self.cluster, self.costs, model, batch_dim=dim)

    def _found(self, known: Sequence[Plan]) -> list[tuple[Plan, tuple[float, float] | None]]:
        how = self.how
        if how.algorithm == "mcmc":
            return self._annealed(known)
        if how.algorithm != "frontier":
            return [(self._other(how.algorithm), None)]
        model = Model(self.coarse, self.cluster, self.costs, how.space, plans=known)
        left = TRACKING if self.deadline is None else self.deadline - perf_counter()
        found = candidates(
            model,
            count=how.points,
            precision=how.precision,
            budget=min(TRACKING, max(0.0, left)),
            report=self.report,
        )
        if not found.exact:
            self.notes.append(
                "the estimated frontier may have gaps: it was tracked for a limited time, or some groups were fixed by a heuristic"
            )
        plans = list(found.plans)
        ends = [0, len(plans) - 1]
        return [plans[i] for i in dict.fromkeys([*ends[::-1], *range(len(plans))])]

    def _annealed(self, known: Sequence[Plan]) -> list[tuple[Plan, tuple[float, float] | None]]:
        first = self._other("optcnn")
        budget = ANNEALING if self.deadline is None else max(0.0, self.deadline - perf_counter())
        found = anneal(
            self.coarse,
            self.cluster,
            self.costs,
            starts=[first, *known[:1]],
            seed=self.how.seed,
            budget=budget,
            report=self.report,
        )
        self.notes.append(
            f"annealing made {found.num_proposals:,} proposals and ended by the {found.stopped}"
        )
        return [(found.plan, None), (first, None)]

    def _simulate(self, queue: Sequence[tuple[Plan, tuple[float, float] | None]]) -> list[Plan]:
        done: list[Plan] = []
        simulator = Simulator(self.coarse.site, self.cluster, self.costs)
        for number, (made, estimate) in enumerate(queue):
            if done and self._late():
                self.notes.append(
                    f"the time budget of {self.how.budget:g} s ran out: {number} of {len(queue)} plans were simulated"
                )
                break
            self.report("simulating plans", number, len(queue))
            done.append(with_figures(simulator, made, estimate))
        self.report("simulating plans", len(queue), len(queue))
        return done

    def _late(self) -> bool:
        return self.deadline is not None and perf_counter() > self.deadline

    def _note_undescribed(self) -> None:
        unknown = sorted(
            {n.op for n in self.graph.nodes if n.op != CONSTANT_OP and not is_described(n.op)}
        )
        if unknown:
            self.notes.append(
                f"{len(unknown)} operators have no description and are replicated: {', '.join(unknown[:5])}"
            )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _on_some(plan: Plan) -> bool:
    """Whether a plan uses some of the devices only for some operators."""
    return any(s.mesh is not None for s in plan.strategies.values())


def _silent(what: str, done: int, total: int) -> None:
    pass


# -- as few devices as possible -----------------------------------------------------------------------


def sizes_of(cluster: Cluster, counts: Iterable[int] | None = None) -> dict[int, Cluster]:
    """A cluster in other sizes, inner levels filled first: 4 of a node's 8 devices, then whole nodes; by default up to its own size.

    Sizes that it cannot have, such as 11 devices of nodes with 8, are left out.
    """
    found: dict[int, Cluster] = {}
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
                found[count] = cluster.resized(levels)
            except GraphwrightError:
                continue
    return found


def _fewest_devices(
    graph: Graph, cluster: Cluster, how: Search, costs: Costs, report: Report | None
) -> Plan:
    """TensorOpt's mini-parallelism: halve what is left until the fewest devices are known on which something fits."""
    sizes = sizes_of(cluster)
    counts = sorted(sizes)
    low, high = 0, len(counts) - 1
    best: Frontier | None = None
    last: Frontier | None = None
    while low <= high:
        middle = (low + high) // 2 if best is not None else high
        on = sizes[counts[middle]]
        with collection_paused():
            last = _Planning(graph, on, how, costs, report).run()
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
