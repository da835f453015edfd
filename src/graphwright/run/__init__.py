"""Run what was planned, and check what was claimed, with real tensors."""

from graphwright.run.calibrate import Call, calibrate, calls_of, calls_of_plan
from graphwright.run.calls import complete_call, infer_types
from graphwright.run.check import check_operator
from graphwright.run.parts import cut_region, run_part, run_split, run_tile, run_tiling
from graphwright.run.standard import standard_calls

__all__ = [
    "Call",
    "calibrate",
    "calls_of",
    "calls_of_plan",
    "check_operator",
    "complete_call",
    "cut_region",
    "infer_types",
    "run_part",
    "run_split",
    "run_tile",
    "run_tiling",
    "standard_calls",
]
