"""Measure operators, links and machines, and store the times where the cost model looks."""

from graphwright.run.measure.calls import (
    Call,
    calibrate,
    calls_of,
    calls_of_plan,
    standard_calls,
)
from graphwright.run.measure.certainty import how_sure
from graphwright.run.measure.host_memory import measure_host_link, memory_beside
from graphwright.run.measure.in_turns import DDP, StepTimes, time_in_turns
from graphwright.run.measure.links import measure_joined, measure_local
