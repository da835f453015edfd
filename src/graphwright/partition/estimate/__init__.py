"""What a choice costs: the additive problem, its tables of computing and of moving tensors."""

from graphwright.partition.estimate.additive import Estimate, make_estimate
from graphwright.partition.estimate.moving import Prices
from graphwright.partition.estimate.problem import Assignment, Floats, Pair, Problem, Table
from graphwright.partition.estimate.stepwise import Stepwise
