"""Plans that need no search of their own: the recipes that people use, and those of other
systems."""

from graphwright.partition.recipes.plain import data_parallel, layers, replicate
from graphwright.partition.recipes.sharded import fsdp, fsdp_tp, hsdp, megatron, zero2
from graphwright.partition.recipes.systems import all_row, one_weird_trick, spartan
