"""How much a memory plan swaps: what moves beside the data that every iteration is given."""

from __future__ import annotations

from graphwright.plans.memory.plan import MemoryPlan, Run, SwapIn, SwapOut
from graphwright.plans.memory.problem import MemoryProblem


def swapped_bytes(plan: MemoryPlan, problem: MemoryProblem) -> tuple[int, int]:
    """Bytes that leave for the host, and that return; the first arrival of data is no return."""
    storages = {storage.name: storage for storage in problem.storages}
    arrived: set[str] = set()
    out = back = 0
    for action in plan.actions:
        match action:
            case Run():
                pass
            case SwapOut():
                out += storages[action.name].nbytes
            case SwapIn():
                storage = storages[action.name]
                if not storage.is_data or storage.name in arrived:
                    back += storage.nbytes
                arrived.add(storage.name)
    return out, back
