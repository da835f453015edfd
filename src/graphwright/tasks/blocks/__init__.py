"""Blocks: what a plan makes of each node and each tensor, and who waits for whom.

`block` says what a block is and how to add a kind; `graph` has all blocks of an expansion.
"""

from graphwright.tasks.blocks.block import Block, BlockName, Ints, Pairs, every_place, first_key
from graphwright.tasks.blocks.computation import Computation
from graphwright.tasks.blocks.graph import Blocks, Origin, blocks
from graphwright.tasks.blocks.memory import MemoryLayout, PairList, join_arrays
from graphwright.tasks.blocks.move import Move, find_moves
