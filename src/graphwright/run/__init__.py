"""Run what was planned, and check what was claimed, with real tensors."""

from graphwright.run.check import check_operator
from graphwright.run.parts import cut_region, run_part, run_split

__all__ = ["check_operator", "cut_region", "run_part", "run_split"]
