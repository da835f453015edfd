"""From a graph, a plan and a cluster to the tasks of devices and links (FlexFlow section 3.4.1).

What is simulated is what runs: programs are made from the blocks that `simulate` times.
"""

from graphwright.ir import Graph, collection_paused
from graphwright.plans import Plan, TaskGraph
from graphwright.tasks.assemble import assemble, assemble_blocks
from graphwright.tasks.blocks import (
    Block,
    BlockName,
    Blocks,
    Computation,
    Move,
    Origin,
    blocks,
    find_moves,
)
from graphwright.tasks.compiled import (
    compilations_told,
    compiled,
    inlined,
    reassociated,
    reassociated_inline,
    unowned,
)
from graphwright.tasks.costs import BUCKET_BYTES, Costs, Traffic, fuses, fusion_of
from graphwright.tasks.expansion import Copy, Expansion, place_all, place_node, resting
from graphwright.tasks.fusion import ALONE, EAGER, Fused, Fusion
from graphwright.tasks.graph_facts import GraphFacts, facts_of
from graphwright.tasks.movement import Movement, Tasks
from graphwright.tasks.placing import Placed, place
from graphwright.tasks.resharding import (
    SENDS_PER_DEVICE,
    Fetches,
    Hop,
    Order,
    PricedHop,
    Pricer,
    Resharding,
    Tariff,
    Transfer,
    changed_axes,
    fetch,
    groups_of,
    paths,
    plain_path,
    reshard,
    rings,
    staged_bytes,
    states,
    tariff_of,
)
from graphwright.tasks.symmetry import NotSymmetric, SymmetricTemplates, periods
from graphwright.tasks.templates import Templates


def expand(graph: Graph, plan: Plan, costs: Costs) -> TaskGraph:
    """The task graph of a graph under a plan, on the plan's cluster, with durations by `costs`."""
    with collection_paused():
        return assemble(Expansion(GraphFacts(graph), plan, costs))
