"""One pass of the swap planner over a schedule, compiled."""

from graphwright.memory.kernel.records import (
    ACTION,
    AWAY,
    BELADY,
    COST,
    HOME,
    IN,
    LRU,
    MOVED,
    OUT,
    PLACE,
    RUN,
    STAYS,
    Records,
    Rules,
    Step,
    Work,
    workspace,
)
from graphwright.memory.kernel.step import LOG_IS_FULL, plan_pass
