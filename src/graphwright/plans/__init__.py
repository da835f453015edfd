"""The data between the stages: meshes, shardings, strategies, plans, frontiers, task graphs.

No behaviour beyond their own consistency.
"""

from graphwright.plans import transfers
from graphwright.plans.figures import Figures, format_seconds, time_unit
from graphwright.plans.frontier import (
    Frontier,
    TooLargeForDevice,
    does_not_fit,
    figures_of,
    make_frontier,
    parse_limit,
)
from graphwright.plans.memory import (
    STREAMS,
    Action,
    InvalidMemoryPlan,
    MemoryPlan,
    MemoryProblem,
    MemoryTooSmall,
    Operator,
    Run,
    SizeClass,
    Storage,
    Stream,
    SwapIn,
    SwapOut,
    retime,
    swapped_bytes,
    verify_actions,
    verify_memory,
)
from graphwright.plans.mesh import Mesh, device_array, part_numbers, whole_mesh
from graphwright.plans.plan import (
    KEPT,
    Kept,
    Plan,
    check_keep,
    check_plan,
    check_strategy,
    make_plan,
)
from graphwright.plans.programs import (
    Assemble,
    Call,
    Collective,
    Concat,
    Constant,
    Cut,
    Exchange,
    Fetch,
    Instruction,
    Operand,
    Piece,
    Program,
    Reduce,
    Ref,
    Rows,
    Segment,
    SegmentGraph,
    SegmentStep,
    Share,
    Together,
    Wait,
    refs_made,
    refs_read,
    values_made,
    values_read,
    verify_program,
    verify_programs,
)
from graphwright.plans.sharding import (
    Box,
    Partial,
    Pieces,
    Placement,
    Replicated,
    Sharding,
    Split,
    as_box,
    boxes,
    check_sharding,
    even_cuts,
    even_pieces,
    local_bytes,
    parse_placement,
    replicated,
    shared_sharding,
)
from graphwright.plans.strategy import (
    Along,
    Choice,
    Keep,
    Replicate,
    Strategy,
    on_one,
    parse_choice,
)
from graphwright.plans.taskgraph import CATEGORIES, HANDLING, KINDS, SWAPS, Ints, TaskGraph, Values
