"""Measure operators, links and machines, and keep what was measured where the cost model finds it."""

from graphwright.run.measure.operators import Call, calibrate, calls_of, calls_of_plan
from graphwright.run.measure.standard import standard_calls
