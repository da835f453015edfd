"""Measure operators, links and machines, and store the times where the cost model looks."""

from graphwright.run.measure.operators import Call, calibrate, calls_of, calls_of_plan
from graphwright.run.measure.standard import standard_calls
