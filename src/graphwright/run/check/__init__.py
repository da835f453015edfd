"""Check descriptions, splits and training against PyTorch on one device."""

from graphwright.run.check.operator import check_operator
from graphwright.run.check.outcome import Outcome, Restart
from graphwright.run.check.parts import cut_region, run_part, run_split, run_tile, run_tiling
from graphwright.run.check.training import Comparison, compare, doubled, same_program
