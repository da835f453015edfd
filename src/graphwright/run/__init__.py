"""Run what was planned, and check what was claimed, with real tensors."""

from graphwright.aten import complete_call, infer_types
from graphwright.run.check import (
    Outcome,
    Restart,
    check_operator,
    compare,
    cut_region,
    doubled,
    run_part,
    run_split,
    run_tile,
    run_tiling,
    same_program,
)
from graphwright.run.checkpoint import examine, latest, load_into_module
from graphwright.run.compile import RankSwaps, SwapPlan, swap
from graphwright.run.compile import compile_step as compile
from graphwright.run.links import RowLinks
from graphwright.run.loader import ShardLoader, shard_loader
from graphwright.run.measure import (
    DDP,
    Call,
    StepTimes,
    calibrate,
    calls_of,
    calls_of_plan,
    how_sure,
    measure_host_link,
    measure_joined,
    measure_local,
    memory_beside,
    standard_calls,
    time_in_turns,
)
from graphwright.run.processes import (
    Launcher,
    RankLost,
    World,
    check_workers,
    digest_tensors,
    gather_results,
    launch,
    leave,
    read_variables,
    world,
)
from graphwright.run.step import Step, kept_inputs
from graphwright.run.training import (
    JOIN_SECONDS,
    Attempt,
    Elastic,
    Make,
    StepRecord,
    Training,
    elastic,
    read_step_log,
    train,
)
