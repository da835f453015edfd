"""From plans and models to steps: `gw.compile` for many devices, `gw.swap` for less memory."""

from graphwright.run.compile.step import compile_step
from graphwright.run.compile.swap import SwapPlan, swap
from graphwright.run.compile.swap_ranks import RankSwaps
