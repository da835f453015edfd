"""How long the instructions of a rank's program take.

    call        the rank's part of the node; nothing for a view
    transfer    all that the action moves, on the links that are busiest with it
    the rest    nothing: copies within a device are priced by whoever makes them

The order of a program goes by formulas alone, its times by any costs.
"""

from __future__ import annotations

import numpy as np

from graphwright.lower.lowering import Lowered
from graphwright.lower.order import Action
from graphwright.plans import Call, Collective, Exchange, Instruction, Program, Together
from graphwright.tasks import Costs, Expansion, Move


class InstructionTimes:
    """Picoseconds of the instructions of all programs of `lowered`."""

    def __init__(self, lowered: Lowered, costs: Costs) -> None:
        self.lowered = lowered
        self.timed = Expansion(lowered.expansion.facts, lowered.plan, costs)
        self._transfers: dict[int, int] = {}

    def of(self, program: Program) -> tuple[int, ...]:
        """Those of one program."""
        return tuple(self._time(instruction, program.rank) for instruction in program.instructions)

    def _time(self, instruction: Instruction, rank: int) -> int:
        match instruction:
            case Call(number=i):
                place = self.timed.placed[i].mesh.devices.index(rank)
                return int(self.timed.duration(i)[place])
            case Collective(tag=tag) | Together(sums=(Collective(tag=tag), *_)):
                return self._transfer(tag)
            case Exchange(tag=tag) if instruction.sends or instruction.receives:
                return self._transfer(tag)
            case _:
                return 0

    def _transfer(self, tag: int) -> int:
        if tag not in self._transfers:
            action = self.lowered.actions[tag]
            stages = (*action.before, action)
            self._transfers[tag] = sum(_moving(self.timed, each) for each in stages)
        return self._transfers[tag]


def _moving(timed: Expansion, action: Action) -> int:
    """What one hop of a move takes."""
    move = action.block
    assert isinstance(move, Move)
    facts, planned = timed.facts, move.movement
    found = timed.cache.movement(
        facts.graph.tensors[move.tensor].type,
        planned.source,
        planned.target,
        facts.is_gathered(move.tensor),
        facts.order.get(move.tensor),
    )
    hop = found.hops[action.stage]
    first, last = found.resource_ptr[hop.first], found.resource_ptr[hop.end]
    durations = found.duration[hop.first : hop.end]
    counts = np.diff(found.resource_ptr[hop.first : hop.end + 1])
    busy = np.bincount(found.resource[first:last], weights=np.repeat(durations, counts))
    return int(max(busy.max(initial=0.0), durations.max(initial=0)))
