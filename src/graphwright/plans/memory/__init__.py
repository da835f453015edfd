"""Memory plans: what runs when, where tensors lie, what leaves for the host and returns."""

from graphwright.errors import InvalidMemoryPlan, MemoryTooSmall
from graphwright.plans.memory.plan import (
    STREAMS,
    Action,
    MemoryPlan,
    Run,
    SizeClass,
    Stream,
    SwapIn,
    SwapOut,
)
from graphwright.plans.memory.problem import MemoryProblem, Operator, Storage
from graphwright.plans.memory.retime import retime
from graphwright.plans.memory.swapped import swapped_bytes
from graphwright.plans.memory.verify import verify_actions, verify_memory
