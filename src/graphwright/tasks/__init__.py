"""From a graph, a plan and a cluster to the tasks that devices and links carry out (FlexFlow section 3.4.1).

What is simulated is what runs: the task graph that `simulate` times is the one that programs are made from.
"""

from graphwright.ir import Graph, collection_paused
from graphwright.plans import Plan, TaskGraph
from graphwright.tasks.assemble import assemble, overwrite_pairs, pace_pairs
from graphwright.tasks.compiled import compiled
from graphwright.tasks.costs import BUCKET_BYTES, Costs, Traffic
from graphwright.tasks.expansion import (
    Copy,
    Expansion,
    Move,
    Movements,
    compute_position,
    key_base,
    place_all,
    place_node,
    resting,
)
from graphwright.tasks.movement import Hop, Movement, common_places, join_on_device
from graphwright.tasks.placing import Placed, place
from graphwright.tasks.reshard import Resharding, gather_then_slice, reshard
from graphwright.tasks.site import Site
from graphwright.tasks.staging import Order, staged_bytes
from graphwright.tasks.steps import Fetches, Step, Stepper, Transfer, fetch
from graphwright.tasks.traffic import all_pairs, rings


def expand(graph: Graph, plan: Plan, costs: Costs) -> TaskGraph:
    """The task graph of a graph under a plan, on the plan's cluster, with durations by `costs`."""
    with collection_paused():
        return assemble(Expansion(Site(graph), plan, costs))
