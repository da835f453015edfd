"""Markov chains over plans, with the simulator as the cost (FlexFlow section 3.5)."""

from graphwright.partition.search.annealing.alignment import Alignment, Border, Changes
from graphwright.partition.search.annealing.chains import Annealed, anneal
from graphwright.partition.search.annealing.proposals import Proposal
