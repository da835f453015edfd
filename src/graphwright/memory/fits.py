"""A step that fits: a plan that swaps nothing, where memory is enough for one.

    capacity --one pass in program order--> does anything but data move?

All tensors then stay in their places; the batch and the learning rates come from the host once, as
they do on any device. Tensors of different lifetimes leave gaps between them, and results may take
the place of operands, so an arena may be larger or smaller than what is held at once: the smallest
of a few is taken.
"""

from __future__ import annotations

from graphwright.memory.orders import program_order
from graphwright.memory.planner import Choice, Planner
from graphwright.plans import MemoryPlan, swapped_bytes

NOTHING_SWAPPED = "nothing swapped"
SHARES = (0.9, 0.95, 1.0, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0)


def plan_without_swaps(planner: Planner, capacity: int) -> MemoryPlan | None:
    """A plan in program order that swaps nothing; None where memory is too small for one."""
    problem = planner.problem
    order, held = program_order(problem), problem.held_at_once()
    smaller = [room for share in SHARES if (room := int(share * held)) < capacity]
    for room in (*smaller, capacity):
        passed = planner.time(order, room, Choice(keep=1.0))
        if passed is None:
            continue
        plan = planner.unpack(passed, capacity, None, NOTHING_SWAPPED, None)
        if swapped_bytes(plan, problem) == (0, 0):
            return plan
    return None
