"""Training under a plan: the loop of a rank, and going on when a worker is lost."""

from graphwright.run.training.elastic import Attempt, Elastic, elastic
from graphwright.run.training.loop import (
    JOIN_SECONDS,
    Make,
    StepRecord,
    Training,
    compile_training,
    make_seeded,
    read_step_log,
    timed_step,
    train,
)
