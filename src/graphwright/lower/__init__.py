"""From plans to programs: what each rank calls, sends and receives, in the simulated order (Tofu
section 6)."""

from graphwright.lower.lowering import Lowered, lower
from graphwright.lower.moves import group_of, lower_hop
from graphwright.lower.segments import cut_into_segments
from graphwright.lower.timing import InstructionTimes
