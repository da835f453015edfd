"""The stages in order, the only place where they meet: from a model's name to its training on
several workers.

make("meta") -> prepare -> plan -> lower, run      on processes that are started here
                                                   (``--workers``), or on those of torchrun, of
                                                   which this one is a rank
"""

from graphwright.capture import prepare
from graphwright.pipeline.demonstration import Demonstration, Prediction, demonstrate, predict
from graphwright.pipeline.inference import Optimized, ResultsDiffer, load_optimized, optimize
from graphwright.pipeline.measured import MeasuredFrontier, plan_by_calls, plan_here, plan_measured
from graphwright.pipeline.opening import open_session
from graphwright.pipeline.planning import PLAN_NAMES, RunOptions, choose_plan, plan_for
from graphwright.pipeline.serving import Serving, serve_models
from graphwright.pipeline.session import Session
from graphwright.run import Make, Outcome
