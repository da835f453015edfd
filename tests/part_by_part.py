"""Plans timed part by part, as searches compare them: nothing is put together again."""

from graphwright.ir import Graph
from graphwright.plans import Plan
from graphwright.simulate import Simulator, Timeline
from graphwright.tasks import Costs, GraphFacts


def simulate(graph: Graph, plan: Plan, costs: Costs) -> Timeline:
    """The timeline of a plan whose kernels stay in their parts."""
    return Simulator(GraphFacts(graph), plan.cluster, costs, together=False).run(plan)
