"""A training step under a plan: what it is given, what it holds, and its first values."""

from graphwright.run.step.given_graph import check_given
from graphwright.run.step.held import kept_inputs
from graphwright.run.step.step import RankMemory, RankProgram, Start, Step
from graphwright.run.step.swap_step import SwapModel, SwapStep
