"""Time calls of operators as a step makes them."""

from graphwright.run.measure.calls.one_call import FAILURES
from graphwright.run.measure.calls.operators import Call, calibrate, calls_of, calls_of_plan
from graphwright.run.measure.calls.samples import sample_inputs
from graphwright.run.measure.calls.standard import standard_calls
