"""Time a plan without running it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from graphwright.errors import PlanMismatch
from graphwright.ir import Graph
from graphwright.machine import Cluster
from graphwright.machine import cluster as find_cluster
from graphwright.plans import Plan, Strategy
from graphwright.plans.plan import make_plan
from graphwright.simulate.costs import CostModel
from graphwright.simulate.engine import schedule
from graphwright.simulate.memory import memory
from graphwright.simulate.timeline import Timeline
from graphwright.tasks import Costs, expand


def simulate(
    graph: Graph,
    plan: Plan | Mapping[str, Strategy | str],
    cluster: Cluster | str | None = None,
    *,
    costs: Costs | None = None,
) -> Timeline:
    """How long one step takes, what each device and link does when, and what is in memory.

    `plan` is a `Plan`, or a strategy for each node by its name (nodes without one are replicated). `cluster` is a `Cluster`, the
    name of one, or a TOML file; a plan's own if not given. Without `costs`, operators take what was measured for them on the
    cluster's devices (`graphwright calibrate`), otherwise what their arithmetic and bytes suggest.

    >>> timeline = gw.simulate(graph, plan)
    >>> timeline.makespan, timeline.memory.peak.max()
    >>> timeline.save("timeline.json")      # for Perfetto; .png or .svg for a picture
    """
    on = None if cluster is None else find_cluster(cluster)
    if not isinstance(plan, Plan | Mapping):
        raise PlanMismatch(
            f"{plan!r} is no plan; give a Plan, or strategies by the names of nodes. graphwright.partition makes some: "
            "data_parallel(graph, cluster)"
        )
    if isinstance(plan, Plan):
        if on is not None and on.num_devices != plan.cluster.num_devices:
            raise PlanMismatch(
                f"the plan is for {plan.cluster.num_devices} devices ({plan.cluster.name}), but {on.name} has "
                f"{on.num_devices}; plan again for it"
            )
        chosen = plan if on is None else replace(plan, cluster=on)
    elif on is None:
        raise PlanMismatch("strategies alone do not say on which machine; give a cluster")
    else:
        chosen = make_plan(graph, on, plan)
    tasks = expand(graph, chosen, CostModel() if costs is None else costs)
    times = schedule(tasks)
    return Timeline(
        graph=graph,
        cluster=chosen.cluster,
        tasks=tasks,
        schedule=times,
        memory=memory(tasks, times),
        plan=chosen.algorithm,
        seed=chosen.seed,
    )
