"""How long a plan takes, without running it: costs, full and incremental simulation, timelines.

The package can be called like the function of the same name: ``graphwright.simulate(graph, plan)``.
"""

import inspect
import sys
from types import ModuleType
from typing import Any

from graphwright.simulate.api import Simulator, check_compiled, simulate
from graphwright.simulate.calibration import CALM, Calibration, MeasuredCall, Skipped, quartiles
from graphwright.simulate.communication import record_collectives, record_handling
from graphwright.simulate.costs import (
    AssumedRate,
    CostModel,
    measured_with,
    spell_types,
    torch_version,
)
from graphwright.simulate.delta import DeltaSchedule, Incremental
from graphwright.simulate.engine import Schedule, schedule
from graphwright.simulate.memory import Memory, memory
from graphwright.simulate.serving import REQUESTS, Served, Server, check_rate, serve
from graphwright.simulate.throughput import StepSize, step_size
from graphwright.simulate.timeline import (
    Timeline,
    caption,
    figures,
    percentages,
    shares,
    throughput,
    version,
    words,
)
from graphwright.simulate.verify import verify_task_graph

__signature__ = inspect.signature(simulate)
__doc__ = f"{__doc__}\nsimulate{__signature__}\n\n{inspect.getdoc(simulate)}\n"


class _CallableModule(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Timeline:
        return simulate(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
