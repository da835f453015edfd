"""Finding plans: how every operator of a graph is split over the devices of a cluster.

coarsen     groups of operators that are split alike          frontier    TensorOpt: every trade-off of time and memory
Space       which strategies may be used                      eliminate   OptCNN: the least time
Model       the additive problem of a graph on a cluster      exact       the same as a MILP on HiGHS
narrow      the configurations worth tracking                 recursive   Tofu: the least bytes, axis by axis
plan        all of it, simulated                              mcmc        FlexFlow: annealing on the simulator
profile     the same for every number of devices              greedy, systems, baselines   what others do
"""

from graphwright.partition.estimate import Assignment, Model, Problem, Table
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
from graphwright.partition.recipes import (
    BASELINES,
    RECIPES,
    SYSTEMS,
    baseline,
    data_parallel,
    layers,
    other_plan,
    replicate,
)
from graphwright.partition.search import (
    Annealed,
    Recursion,
    Tracked,
    anneal,
    candidates,
    greedy,
    least,
    narrow,
    recursive,
    solve,
    track,
)
from graphwright.partition.space import (
    Coarse,
    Group,
    Space,
    Weight,
    coarsen,
    random_plan,
    random_strategy,
    typical,
)
