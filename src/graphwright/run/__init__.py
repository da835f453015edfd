"""Run what was planned, and check what was claimed, with real tensors."""

from graphwright.aten.calls import complete_call, infer_types
from graphwright.run.check.operator import check_operator
from graphwright.run.check.parts import cut_region, run_part, run_split, run_tile, run_tiling
from graphwright.run.checkpoint.save_load import load_into_module
from graphwright.run.compile import compile_step as compile
from graphwright.run.elastic import Attempt, Elastic, elastic
from graphwright.run.loader import ShardLoader, shard_loader
from graphwright.run.measure.operators import Call, calibrate, calls_of, calls_of_plan
from graphwright.run.measure.standard import standard_calls
from graphwright.run.processes.launch import Launcher, launch
from graphwright.run.processes.world import World, leave, world
from graphwright.run.step import Step

__all__ = [
    "Attempt",
    "Call",
    "Elastic",
    "Launcher",
    "ShardLoader",
    "Step",
    "World",
    "calibrate",
    "calls_of",
    "calls_of_plan",
    "check_operator",
    "compile",
    "complete_call",
    "cut_region",
    "elastic",
    "infer_types",
    "launch",
    "leave",
    "load_into_module",
    "run_part",
    "run_split",
    "run_tile",
    "run_tiling",
    "shard_loader",
    "standard_calls",
    "world",
]
