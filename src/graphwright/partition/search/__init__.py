"""Searches over the estimate or the simulator: frontier, elimination, annealing, recursion,
greedy."""

from graphwright.partition.search.annealing import Annealed, anneal
from graphwright.partition.search.elimination import least, work_of
from graphwright.partition.search.frontier import TRACKING, Tracked, find_candidates, track
from graphwright.partition.search.greedy import greedy, largest_of_groups
from graphwright.partition.search.narrow import narrow
from graphwright.partition.search.recursive import TOFU, Recursion, recursive
