"""Run what was planned, and check what was claimed, with real tensors."""

from graphwright.run.calibrate import Call, calibrate, calls_of, calls_of_plan
from graphwright.run.calls import complete_call, infer_types
from graphwright.run.check import check_operator
from graphwright.run.launch import Launcher, launch
from graphwright.run.parts import cut_region, run_part, run_split, run_tile, run_tiling
from graphwright.run.standard import standard_calls
from graphwright.run.step import Step
from graphwright.run.step import compile_step as compile
from graphwright.run.world import World, leave, world

__all__ = [
    "Call",
    "Launcher",
    "Step",
    "World",
    "calibrate",
    "calls_of",
    "calls_of_plan",
    "check_operator",
    "compile",
    "complete_call",
    "cut_region",
    "infer_types",
    "launch",
    "leave",
    "run_part",
    "run_split",
    "run_tile",
    "run_tiling",
    "standard_calls",
    "world",
]
