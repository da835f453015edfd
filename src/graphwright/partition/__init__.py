"""Finding plans: how every operator of a graph is split over the devices of a cluster.

coarsen     groups of operators that are split alike          frontier    TensorOpt: every trade-off of time and memory
Space       which strategies may be used                      eliminate   OptCNN: the least time
Model       the additive problem of a graph on a cluster      exact       the same as a MILP on HiGHS
narrow      the configurations worth tracking                 recursive   Tofu: the least bytes, axis by axis
plan        all of it, simulated                              mcmc        FlexFlow: annealing on the simulator
profile     the same for every number of devices              greedy, systems, baselines   what others do
"""

from graphwright.partition.estimate.additive import Model
from graphwright.partition.estimate.problem import Assignment, Problem, Table
from graphwright.partition.evaluate import evaluate, largest_tensors
from graphwright.partition.explain import Reason, assignment_of, explain
from graphwright.partition.plan import (
    ALGORITHMS,
    OBJECTIVES,
    Report,
    Search,
    memory_limit,
    plan,
    sizes_of,
)
from graphwright.partition.profile import Profile, Row, profile
from graphwright.partition.recipes.plain import (
    BASELINES,
    baseline,
    data_parallel,
    layers,
    replicate,
)
from graphwright.partition.recipes.systems import RECIPES, SYSTEMS, other_plan
from graphwright.partition.search.annealing.chains import Annealed, anneal
from graphwright.partition.search.elimination.weighted import least
from graphwright.partition.search.frontier.candidates import candidates
from graphwright.partition.search.frontier.tracking import Tracked, track
from graphwright.partition.search.greedy import greedy
from graphwright.partition.search.narrow import narrow
from graphwright.partition.search.recursive import Recursion, recursive
from graphwright.partition.search.reference.milp import solve
from graphwright.partition.space.coarsen import Coarse, Group, Weight, coarsen
from graphwright.partition.space.group_choices import typical
from graphwright.partition.space.strategies import Space, random_plan, random_strategy

__all__ = [
    "ALGORITHMS",
    "BASELINES",
    "OBJECTIVES",
    "RECIPES",
    "SYSTEMS",
    "Annealed",
    "Assignment",
    "Coarse",
    "Group",
    "Model",
    "Problem",
    "Profile",
    "Reason",
    "Recursion",
    "Report",
    "Row",
    "Search",
    "Space",
    "Table",
    "Tracked",
    "Weight",
    "anneal",
    "assignment_of",
    "baseline",
    "candidates",
    "coarsen",
    "data_parallel",
    "evaluate",
    "explain",
    "greedy",
    "largest_tensors",
    "layers",
    "least",
    "memory_limit",
    "narrow",
    "other_plan",
    "plan",
    "profile",
    "random_plan",
    "random_strategy",
    "recursive",
    "replicate",
    "sizes_of",
    "solve",
    "track",
    "typical",
]
