"""What will be done to compute arrays: every operator, how its result is tiled, and what moves.

%mean    float64[32]        aten.div.Tensor      [R]     received 512 B
%sub     float64[2e6, 32]   aten.sub.Tensor      [S0]
"""

from __future__ import annotations

from graphwright.arrays.array import Array, asarray
from graphwright.arrays.running.program import PlannedProgram
from graphwright.arrays.running.session import planned
from graphwright.ir import format_bytes


def explain(*arrays: Array) -> str:
    """The plan for arrays, line by line: tilings, and bytes that workers receive from others.

    A tiling has an entry for each prime factor of the number of workers: S0 splits dim 0, R repeats
    the whole, P(sum) has terms that are still to be added up. "One worker" holds all of an array if
    it computes the program alone.
    """
    outputs = [asarray(x)._output for x in arrays]
    if all(output.value is not None for output in outputs):
        return "computed already; nothing is left to do"
    _, how = planned(outputs)
    rows = [("array", "type", "operator", "tiling", "received from other workers")]
    for name in how.graph.inputs:
        rows.append((name, repr(how.graph.tensors[name].type), "given", *_where(how, name)))
    for node in how.graph.nodes:
        for name in node.outputs:
            rows.append((name, repr(how.graph.tensors[name].type), node.op, *_where(how, name)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    total = sum(how.received.values())
    tasks = len(how.segments.segments)
    lines.append(f"in all {format_bytes(total)} received, in {tasks} tasks")
    return "\n".join(lines)


def _where(how: PlannedProgram, name: str) -> tuple[str, str]:
    received = how.received.get(name, 0)
    tiling = how.tilings[name]
    return str(tiling) if tiling.placements else "one worker", format_bytes(
        received
    ) if received else ""
