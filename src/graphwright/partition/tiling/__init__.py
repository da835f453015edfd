"""Tilings of the arrays of a program over workers, with the least communication (Spartan).

workers      the workers as a cluster, and the sides of their grid
space        the tilings that operators and arrays may have
transfers    the bytes between two shardings
problem      the tiling graph, as the additive problem that the searches of this package solve
algorithms   exact, greedy (Spartan's smart tiling), by rows
feedback     what earlier runs took
plan         `plan_tilings`
"""

from graphwright.partition.tiling.algorithms import (
    TILING_ALGORITHMS,
    ExactTiling,
    RowTiling,
    SmartTiling,
    TilingAlgorithm,
)
from graphwright.partition.tiling.explain import explain_tilings, spell_tiles
from graphwright.partition.tiling.feedback import Feedback
from graphwright.partition.tiling.greedy import NodeGroups, find_tilings
from graphwright.partition.tiling.plan import TilingPlan, plan_tilings
from graphwright.partition.tiling.problem import TilingGraph, make_problem, make_tiling_graph
from graphwright.partition.tiling.workers import sides_of, worker_cluster
