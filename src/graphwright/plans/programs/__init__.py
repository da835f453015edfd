"""Programs of ranks and the segments of array programs; their verifiers."""

from graphwright.plans.programs.program import (
    Call,
    Collective,
    Constant,
    Cut,
    Exchange,
    Instruction,
    Operand,
    Program,
    Rows,
    Together,
    Wait,
    values_made,
    values_read,
)
from graphwright.plans.programs.segments import (
    Assemble,
    Concat,
    Fetch,
    Piece,
    Reduce,
    Ref,
    Segment,
    SegmentGraph,
    SegmentStep,
    Share,
    refs_made,
    refs_read,
)
from graphwright.plans.programs.verify_program import verify_program
from graphwright.plans.programs.verify_programs import verify_programs
