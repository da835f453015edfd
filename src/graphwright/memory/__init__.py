"""More memory than a device has: what to swap, when, and where everything lies."""

from graphwright.memory.fits import plan_without_swaps
from graphwright.memory.orders import early_order, local_order, names_to_order, program_order
from graphwright.memory.planner import Choice, Passed, Planner, Pool
from graphwright.memory.problems import (
    COPY,
    GraphProblem,
    Piece,
    ProgramProblem,
    problem_of,
    problem_of_program,
)
from graphwright.memory.search import (
    SEARCHES,
    Found,
    Progress,
    check_searches,
    check_seed,
    fastest_known,
    find_plan,
)
from graphwright.memory.timing import task_graph, task_graph_of_ranks
from graphwright.memory.transfers import (
    InvalidTransfers,
    Transfers,
    check_transfers,
    keep_nothing,
    keep_recent,
    keep_soonest,
    least_bytes_in,
    least_transfers,
)
