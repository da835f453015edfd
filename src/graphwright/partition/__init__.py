"""Finding plans: how every operator of a graph is split over the devices of a cluster.

space/       what may be chosen: groups of operators that are split alike, their configurations
estimate/    what a choice costs: the additive problem of a graph on a cluster
search/      frontier tracking (TensorOpt), elimination (OptCNN), annealing (FlexFlow), recursion
             (Tofu), greedy orders (Spartan)
recipes/     what people do without a search
algorithms   all of these by name, as values whose fields are their options
plan         a search, compared with recipes and other systems, everything simulated
profile      the same for every number of devices
explain      why a plan is what it is
tiling/      array programs over workers, with the least communication (Spartan)
"""

from graphwright.partition.algorithms import (
    ALGORITHMS,
    BASELINES,
    RECIPES,
    RENAMED,
    SEARCHES,
    SYSTEMS,
    AllRow,
    Annealing,
    DataParallel,
    Elimination,
    EqualChop,
    FrontierTracking,
    FullySharded,
    FullyShardedTensorParallel,
    Greedy,
    HybridSharded,
    Icml18,
    Layers,
    Megatron,
    OneWeirdTrick,
    Recursive,
    Zero2,
    baseline,
    other_plan,
)
from graphwright.partition.estimate import Assignment, Estimate, Problem, Table, make_estimate
from graphwright.partition.evaluate import evaluate, largest_tensors
from graphwright.partition.explain import Reason, explain
from graphwright.partition.plan import OBJECTIVES, Search, memory_limit, plan, sizes_of
from graphwright.partition.profile import Profile, Row, profile
from graphwright.partition.progress import Progress
from graphwright.partition.recipes import data_parallel, layers, replicate
from graphwright.partition.registry import REGISTRY, Algorithm, Candidates, Context, OnePlan
from graphwright.partition.search import (
    Annealed,
    Recursion,
    Tracked,
    anneal,
    greedy,
    least,
    narrow,
    recursive,
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
from graphwright.partition.tiling import TilingPlan, plan_tilings
